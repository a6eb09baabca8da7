//! Why a command ends without its result, and the exit code that follows.

use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Wrong usage: exit code 2.
    Usage(String),
    /// The work failed: exit code 1.
    Work(String),
}

impl Failure {
    pub(super) fn work(error: impl std::fmt::Display) -> Self {
        Self::Work(error.to_string())
    }

    pub(super) fn usage(error: impl std::fmt::Display) -> Self {
        Self::Usage(error.to_string())
    }

    pub(super) fn message(&self) -> &str {
        match self {
            Self::Usage(message) | Self::Work(message) => message,
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Work(_) => ExitCode::FAILURE,
        }
    }
}
