//! What a session gives for each problem, and why one ends without results.

use thiserror::Error;

use crate::database::{DatabaseError, StoreOutcome};
use crate::model::Problem;
use crate::tune::{Summary, TuneError};

/// The result of one problem.
#[derive(Debug)]
pub struct ProblemResult {
    /// The place of the problem in the plan.
    pub number: usize,
    /// The problem.
    pub problem: Problem,
    /// What tuning it gave.
    pub outcome: ProblemOutcome,
}

/// What tuning a problem gave.
#[derive(Debug)]
pub enum ProblemOutcome {
    /// A winner.
    Won {
        /// What was found.
        summary: Box<Summary>,
        /// What the database did with the record; none where the plan has no database.
        recorded: Option<StoreOutcome>,
    },
    /// No candidate is correct.
    NoWinner(Box<Summary>),
    /// The problem could not be tuned. Other problems may be.
    Failed(TuneError),
}

impl ProblemOutcome {
    /// Whether there is a winner.
    pub fn is_won(&self) -> bool {
        matches!(self, Self::Won { .. })
    }
}

/// Why a session ended without results: no further problem can be tuned.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The device or the compiler cannot be used any more.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// The database cannot be read or written.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}
