//! Outcomes of candidates that were not rendered or compiled.

use crate::compile::CompileError;
use crate::model::Outcome;
use crate::render::RenderError;

/// The outcome of a candidate whose compile failed for a reason of its own.
pub(super) fn failed_compile(error: CompileError) -> Outcome {
    match error {
        CompileError::Source { log } => Outcome::Compile { log },
        CompileError::TimedOut { seconds } => Outcome::Timeout { seconds },
        error => Outcome::Compile { log: error.to_string() },
    }
}

/// The outcome of a candidate that was not rendered.
pub(super) fn failed_render(error: RenderError) -> Outcome {
    match error {
        RenderError::TimedOut { seconds, .. } => Outcome::Timeout { seconds },
        error => Outcome::Compile { log: error.to_string() },
    }
}
