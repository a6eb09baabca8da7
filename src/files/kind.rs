//! Kinds of input files, for messages and limits.

use std::fmt;
use std::io;

use gemm_tune_runtime::regular_file;

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
            Self::CacheEntry => 256 << 20,
            Self::Package => 512 << 20,
            Self::Database | Self::Journal | Self::RecordedSpace => 1 << 30,
        }
    }

    /// The error for a longer file.
    pub fn too_large(self) -> io::Error {
        regular_file::too_large(self.max_bytes(), &self.to_string())
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
            Self::Trace => "a trace",
            Self::Log => "a log",
            Self::CacheEntry => "an entry of the compile cache",
            Self::Package => "a package",
        })
    }
}
