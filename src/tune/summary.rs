//! What tuning a problem gives.

use std::time::Duration;

use super::coverage::Coverage;
use super::effort::{Rest, SearchEnd};
use super::ranking::{BaselineTime, Certainty, Standing};
use crate::model::Problem;
use crate::predict::Landmark;

/// Where a problem's time went.
#[derive(Debug, Clone, Copy, Default)]
pub struct Phases {
    /// Listing search spaces and predicting times.
    pub prepare: Duration,
    /// Searching: making operands and references, compiling and evaluating, overlapped.
    pub search: Duration,
    /// The final round.
    pub contest: Duration,
    /// Compiler time summed over threads.
    pub compiling: Duration,
    /// Sources compiled.
    pub compiled: usize,
    /// Sources whose cubin was in the cache.
    pub from_cache: usize,
}

/// What tuning a problem gave.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The problem.
    pub problem: Problem,
    /// Correct candidates, fastest first: those of the final round, then others by their own samples.
    pub ranking: Vec<Standing>,
    /// The libraries' times in the final round, fastest first.
    pub baselines: Vec<BaselineTime>,
    /// How sure the winner is; none where no final was held.
    pub certainty: Option<Certainty>,
    /// The libraries' version, where there are any.
    pub library_version: String,
    /// One entry for each family that serves the problem.
    pub coverage: Vec<Coverage>,
    /// Times of the families' defaults and of winners of other problems.
    pub landmarks: Vec<Landmark>,
    /// Where the time went.
    pub phases: Phases,
    /// How often the worker was replaced.
    pub restarts: usize,
    /// Why the search ended.
    pub end: SearchEnd,
    /// Its estimate for the configurations that it did not evaluate.
    pub rest: Rest,
}

impl Summary {
    /// The fastest correct candidate.
    pub fn winner(&self) -> Option<&Standing> {
        self.ranking.first()
    }

    /// The fastest library's time divided by the winner's; none without either.
    pub fn speedup(&self) -> Option<f64> {
        Some(self.winner()?.speedup_over(self.baselines.first()?))
    }

    /// Whether the search was interrupted: the winner is the best so far, and the next run continues.
    pub fn is_interim(&self) -> bool {
        self.end == SearchEnd::Interrupted
    }

    /// Evaluated candidates.
    pub fn evaluated(&self) -> usize {
        self.coverage.iter().map(Coverage::evaluated).sum()
    }
}
