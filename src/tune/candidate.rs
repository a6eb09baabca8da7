//! A candidate on its way: compiled, then evaluated.

use crate::compile::Compiled;
use crate::model::{LaunchPlan, Micros, Outcome};

/// A compiled candidate and how it is launched.
#[derive(Debug, Clone)]
pub(super) struct CompiledCandidate {
    pub(super) plan: LaunchPlan,
    pub(super) compiled: Compiled,
    /// Its time by a learned model, on the cpu device, where there is one.
    pub(super) predicted: Option<Micros>,
}

/// The outcome of evaluating a candidate.
pub(super) struct Evaluated {
    pub(super) outcome: Outcome,
    /// Why the worker was replaced, where it was.
    pub(super) restarted: Option<String>,
}

impl From<Outcome> for Evaluated {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, restarted: None }
    }
}
