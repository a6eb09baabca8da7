//! Kinds of files, for messages and limits.

use std::fmt;
use std::fs::FileType;
use std::io;
use std::os::unix::fs::FileTypeExt as _;

/// What a file is for, with the largest size that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// A database of records: a million of them.
    Database,
    /// A journal: the longest seen has 40 MB.
    Journal,
    /// A recorded space; the text of a compressed one has the same limit.
    RecordedSpace,
    /// A learned model.
    LearnedModel,
    /// A list of shapes.
    Shapes,
    /// A search space or a ladder.
    SearchSpace,
    /// A template.
    Template,
    /// A table of times, or a dispatch set.
    Dispatch,
    /// A file of a bundle, its manifest included: more than any cubin.
    Bundle,
    /// A trace of a program's products.
    Trace,
    /// A log of a tool.
    Log,
    /// An entry of the compile cache.
    CacheEntry,
    /// A package with a tool: more than any NVRTC.
    Package,
}

impl InputKind {
    /// The largest size in bytes.
    pub const fn max_bytes(self) -> u64 {
        match self {
            Self::Shapes | Self::SearchSpace | Self::Template => 16 << 20,
            Self::Log | Self::Dispatch | Self::LearnedModel | Self::Trace => 256 << 20,
            Self::Bundle | Self::CacheEntry => 256 << 20,
            Self::Package => 512 << 20,
            Self::Database | Self::Journal | Self::RecordedSpace => 1 << 30,
        }
    }

    /// The error for a longer file.
    pub fn too_large(self) -> io::Error {
        let limit = self.max_bytes() >> 20;
        let message = format!("it is larger than {limit} MiB, the limit of {self}");
        io::Error::new(io::ErrorKind::FileTooLarge, message)
    }
}

impl fmt::Display for InputKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Database => "a database",
            Self::Journal => "a journal",
            Self::RecordedSpace => "a recorded space",
            Self::LearnedModel => "a learned model",
            Self::Shapes => "a list of shapes",
            Self::SearchSpace => "a search space",
            Self::Template => "a template",
            Self::Dispatch => "a dispatch set",
            Self::Bundle => "a file of a bundle",
            Self::Trace => "a trace",
            Self::Log => "a log",
            Self::CacheEntry => "an entry of the compile cache",
            Self::Package => "a package",
        })
    }
}

/// What stands at a path, where it is no regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A FIFO or a pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character or block device.
    Device,
}

impl FileKind {
    /// What a file type is; `None` for a regular file.
    pub(super) fn of(kind: FileType) -> Option<Self> {
        if kind.is_file() {
            None
        } else if kind.is_dir() {
            Some(Self::Folder)
        } else if kind.is_symlink() {
            Some(Self::Link)
        } else if kind.is_fifo() {
            Some(Self::Fifo)
        } else if kind.is_socket() {
            Some(Self::Socket)
        } else {
            Some(Self::Device)
        }
    }

    /// The error for it in place of a regular file.
    pub(super) fn refused(self) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, format!("it is {self}, not a regular file"))
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Folder => "a folder",
            Self::Link => "a symbolic link",
            Self::Fifo => "a FIFO",
            Self::Socket => "a socket",
            Self::Device => "a device",
        })
    }
}
