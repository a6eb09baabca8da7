//! Events of tuning one problem, for display and logs.

use std::path::Path;
use std::time::Duration;

use super::coverage::Coverage;
use super::prepare::Spaces;
use crate::model::{Configuration, LocatedFailure, Micros, Outcome, Problem};

/// Something that happened while a problem is tuned.
#[derive(Debug)]
pub enum TuneEvent<'a> {
    /// The search begins.
    Started {
        /// The problem.
        problem: &'a Problem,
        /// Every family that serves it.
        spaces: &'a Spaces,
        /// Most candidates that will be evaluated.
        candidates: usize,
        /// How long the search may take.
        patience: Option<Duration>,
        /// The journal that outcomes are appended to.
        journal: Option<&'a Path>,
        /// Kernels whose outcome the journal has from earlier runs.
        known: usize,
        /// Configurations that the search begins with: winners of this problem or of others.
        hints: usize,
    },
    /// A source was compiled, or refused by the compiler.
    Compiled {
        /// How many were so far.
        count: usize,
    },
    /// A candidate was evaluated.
    Evaluated {
        /// How many were so far.
        count: usize,
        /// Its family.
        family: &'a str,
        /// Its configuration.
        configuration: &'a Configuration,
        /// Its outcome.
        outcome: &'a Outcome,
        /// The failure as people read it, where it failed.
        failure: Option<&'a LocatedFailure>,
        /// Whether the outcome was known: from an earlier run, or from another candidate with the same kernel.
        recalled: bool,
        /// The best time so far.
        best: Option<Micros>,
        /// How many are expected to follow, unless something better is found.
        left: usize,
    },
    /// The worker was replaced.
    Restarted {
        /// Why.
        reason: &'a str,
    },
    /// A family is given up because it breaks the device.
    GivenUp {
        /// The outcomes of its candidates.
        coverage: &'a Coverage,
    },
    /// The search is over. The compiler is not needed any more.
    Searched,
    /// The final round begins: finalists and libraries are measured in turn.
    FinalRound {
        /// How many take part.
        entrants: usize,
    },
    /// Something that a person should know and that stops nothing.
    Note(String),
}
