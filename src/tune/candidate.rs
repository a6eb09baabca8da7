//! A candidate on its way: compiled, then evaluated.

use crate::compile::Compiled;
use crate::model::{LaunchPlan, Outcome};

/// A compiled candidate and how it is launched.
#[derive(Debug, Clone)]
pub(super) struct CompiledCandidate {
    pub(super) plan: LaunchPlan,
    pub(super) compiled: Compiled,
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
