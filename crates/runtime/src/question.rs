//! What a kernel is chosen for.

use crate::model::{Problem, Storage};

/// Problem, storage of its operands, and memory for workspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Question {
    /// The problem.
    pub problem: Problem,
    /// Its operands in memory.
    pub storage: Storage,
    /// Most bytes of device memory for workspaces; [`Question::ANY`] where any amount is.
    pub workspace: u64,
}

impl Question {
    /// Any amount of memory for workspaces.
    pub const ANY: u64 = u64::MAX;

    /// For operands as they are stored.
    pub fn new(problem: Problem, storage: Storage) -> Self {
        Self { problem, storage, workspace: Self::ANY }
    }

    /// For operands that are packed.
    pub fn packed(problem: Problem) -> Self {
        Self::new(problem, Storage::packed(&problem))
    }

    /// The same with at most so many bytes for workspaces.
    #[must_use]
    pub fn within(self, workspace: u64) -> Self {
        Self { workspace, ..self }
    }
}
