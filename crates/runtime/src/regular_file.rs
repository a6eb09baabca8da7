//! Reads regular files only, without blocking: at a path may be a FIFO that never ends, or a device node.

use std::fmt;
use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

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
    pub fn of(kind: FileType) -> Option<Self> {
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
    pub fn refused(self) -> io::Error {
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

/// Opens a regular file. Links are followed.
///
/// # Errors
/// Anything else than a regular file.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    // Before opening, which has effects on some devices.
    refuse_special(&fs::metadata(path)?)?;
    // Another process may have put a FIFO there since: opening one for reading would wait.
    let file = OpenOptions::new().read(true).custom_flags(flags(OFlags::NONBLOCK)).open(path)?;
    let metadata = file.metadata()?;
    refuse_special(&metadata)?;
    Ok((file, metadata))
}

/// Reads a whole regular file of at most so many bytes. `what` names such files in the error.
///
/// # Errors
/// As [`open`]; a longer file, also one that grows meanwhile.
pub fn read(path: &Path, max_bytes: u64, what: &str) -> io::Result<Vec<u8>> {
    let (file, _) = open(path)?;
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(too_large(max_bytes, what));
    }
    Ok(bytes)
}

/// The error for a file above a limit.
pub fn too_large(max_bytes: u64, what: &str) -> io::Error {
    let message = format!("it is larger than {} MiB, the limit of {what}", max_bytes >> 20);
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

/// Refuses anything else than a regular file.
///
/// # Errors
/// What it is, in words.
pub fn refuse_special(metadata: &Metadata) -> io::Result<()> {
    match FileKind::of(metadata.file_type()) {
        None => Ok(()),
        // In the words of the system.
        Some(FileKind::Folder) => Err(rustix::io::Errno::ISDIR.into()),
        Some(kind) => Err(kind.refused()),
    }
}

/// Flags to open a file with, besides those of [`OpenOptions`].
pub fn flags(flags: OFlags) -> i32 {
    (flags | OFlags::NOCTTY).bits().cast_signed()
}
