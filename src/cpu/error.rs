//! Why a text is no program that this device runs.

use std::fmt;

use thiserror::Error;

/// A line of CUDA source, as the compiler recorded it (`--generate-line-info`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// The file, as the compiler noted it.
    pub file: std::sync::Arc<str>,
    /// The line, from 1 on.
    pub line: u32,
    /// The line of the call, where the code belongs to an inlined function.
    pub inlined_at: Option<u32>,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // NVRTC puts the working folder before the name that it was told.
        let name = self.file.rsplit('/').next().unwrap_or(&self.file);
        write!(f, "{name}:{}", self.line)?;
        match self.inlined_at {
            Some(line) => write!(f, " (inlined at line {line})"),
            None => Ok(()),
        }
    }
}

/// The place of a fault in both texts.
fn place(line: u32, source: Option<&SourceLine>) -> String {
    match source {
        Some(source) => format!("PTX line {line}, from {source}"),
        None => format!("PTX line {line}"),
    }
}

/// Why a text is no program that this device runs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PtxError {
    /// The text breaks the grammar.
    #[error("PTX line {line}: expected {expected}, found `{found}`")]
    Syntax {
        /// Where.
        line: u32,
        /// What the grammar wants there.
        expected: String,
        /// How the text goes on.
        found: String,
    },
    /// A statement means nothing, or nothing that this device does.
    #[error("{}: `{text}`: {what}", place(*.line, .source_line.as_ref()))]
    Statement {
        /// Its line.
        line: u32,
        /// The CUDA line that it comes from, where the compiler recorded it.
        source_line: Option<SourceLine>,
        /// The opcode or directive.
        text: String,
        /// What is wrong with it.
        what: String,
    },
}

impl PtxError {
    /// The line of the PTX text.
    pub fn line(&self) -> u32 {
        match self {
            Self::Syntax { line, .. } | Self::Statement { line, .. } => *line,
        }
    }
}
