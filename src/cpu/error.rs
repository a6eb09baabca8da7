//! Errors of PTX text that the device cannot execute.

use std::fmt;

use thiserror::Error;

/// Line of CUDA source, as the compiler recorded it (`--generate-line-info`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// Name of the file, as the compiler recorded it.
    pub file: std::sync::Arc<str>,
    /// Line number, from 1.
    pub line: u32,
    /// Lines of the calls, the innermost first, where the code belongs to inlined functions. A call has several lines
    /// where the compiler leaves open which of them it is.
    pub inlined_at: Vec<Vec<u32>>,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // NVRTC prepends the working folder to the file name it is given.
        let name = self.file.rsplit('/').next().unwrap_or(&self.file);
        write!(f, "{name}:{}", self.line)?;
        let calls = self.inlined_at.iter().map(|lines| {
            let lines: Vec<String> = lines.iter().map(|line| format!("line {line}")).collect();
            format!("at {}", lines.join(" or "))
        });
        match calls.collect::<Vec<_>>().join(", ") {
            calls if calls.is_empty() => Ok(()),
            calls => write!(f, " (inlined {calls})"),
        }
    }
}

/// Location of an error in both texts.
fn place(line: u32, source: Option<&SourceLine>) -> String {
    match source {
        Some(source) => format!("PTX line {line}, from {source}"),
        None => format!("PTX line {line}"),
    }
}

/// Error of PTX text that the device cannot execute.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PtxError {
    /// The text violates the grammar.
    #[error("PTX line {line}: expected {expected}, found `{found}`")]
    Syntax {
        /// Line of the PTX text.
        line: u32,
        /// What the grammar expects there.
        expected: String,
        /// The text found there.
        found: String,
    },
    /// A statement that is invalid, or that this device does not support.
    #[error("{}: `{text}`: {what}", place(*.line, .source_line.as_ref()))]
    Statement {
        /// Line of the PTX text.
        line: u32,
        /// CUDA source line, where the compiler recorded it.
        source_line: Option<SourceLine>,
        /// The opcode or directive.
        text: String,
        /// Description of the error.
        what: String,
    },
}

impl PtxError {
    /// Line of the PTX text.
    pub fn line(&self) -> u32 {
        match self {
            Self::Syntax { line, .. } | Self::Statement { line, .. } => *line,
        }
    }
}
