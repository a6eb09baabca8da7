//! One story: ask, render, compile, validate, measure, tell, decide, record. The only room that
//! knows all the others' words; it prints nothing and tells what happens as [`Event`]s.

mod check;
mod cpu_evaluator;
mod effort;
mod evaluator;
mod evaluator_pool;
mod final_round;
mod finalist_checks;
mod gpu_evaluator;
mod gpu_lease;
mod journal;
mod lineup;
mod machine;
mod precompile;
mod prepare;
mod recording;
mod renderer;
mod run;
mod sanitize;
mod search_loop;
mod stats;
mod verify;
mod warm_start;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

pub use check::{CheckEvent, Checked, Checks, Sample, check};
pub use effort::{Effort, Rest, SearchEnd, StopRule, UnknownEffort};
pub use evaluator::{BaselineTime, Certainty, Standing};
pub use journal::{Entry, Journal, JournalError, KernelId, Recorded};
pub use lineup::{LineUp, line_up};
pub use machine::{Gpu, Machine, Seat, lanes};
pub use precompile::{Precompilation, Precompiler};
pub use prepare::{FamilySpace, Spaces, spaces};
pub use recording::{RecordingError, read_informed, read_journal, read_recording};
pub use run::{pilot, tune};
pub use sanitize::Sanitizer;
pub use verify::{Named, Retimed, retime, time_each};
pub use warm_start::Hints;

use crate::compile::{Compile, CompileError, CompileThreads};
use crate::model::units::human_bytes;
use crate::model::{
    Configuration, Device, Measurement, Micros, Outcome, OutcomeKind, Problem, Regime,
};
use crate::predict::Landmark;
use crate::render::{RenderError, Templates};
use crate::search::Search;
use crate::space::{Family, Pruned, SpaceError};
use crate::validate::HostFailure;
use crate::worker::WorkerError;

/// What tuning works with.
pub struct Kit {
    /// The families to choose from.
    pub families: Vec<Family>,
    /// Their templates.
    pub templates: Templates,
    /// The compiler for the device's architecture: to cubins for a GPU, to PTX for the host.
    pub compiler: Arc<dyn Compile>,
    /// The threads that it runs on, which other kits may share.
    pub threads: CompileThreads,
    /// What executes candidates.
    pub machine: Machine,
}

/// How a problem is tuned.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How much effort it gets.
    pub effort: Effort,
    /// What counts as better when a search ends because something better is unlikely to be left: a
    /// time shorter by more than this fraction; where none is given, the effort says.
    pub within: Option<f64>,
    /// Most candidates to evaluate; where none is given, the effort says.
    pub max_configs: Option<usize>,
    /// When to stop evaluating; what is found by then is decided among. Where none is given,
    /// the effort says.
    pub budget: Option<Duration>,
    /// The folder of journals; without one, nothing of a run is left when it is interrupted.
    pub journals: Option<PathBuf>,
    /// Whether everything is found and measured anew, whatever the journal has and hints say. The
    /// record of the problem takes part in the final nevertheless.
    pub fresh: bool,
    /// How candidates are chosen.
    pub search: Search,
    /// What times are taken in. The host, whose times are modelled, knows the default only.
    pub regime: Regime,
    /// What finalists are run under, beside the validation of all. The host checks everything
    /// itself and takes none.
    pub sanitizer: Option<Sanitizer>,
    /// Seeds operands and search.
    pub seed: u64,
}

impl Default for Settings {
    /// Normal effort within its own limits, in the default regime, without a journal.
    fn default() -> Self {
        Self {
            effort: Effort::Normal,
            within: None,
            max_configs: None,
            budget: None,
            journals: None,
            fresh: false,
            search: Search::Auto,
            regime: Regime::default(),
            sanitizer: None,
            seed: 1,
        }
    }
}

impl Settings {
    /// When the search ends.
    pub fn rule(&self) -> Option<StopRule> {
        self.effort.rule(self.within)
    }

    /// How long to evaluate on a device.
    pub fn patience(&self, device: &Device) -> Option<Duration> {
        self.budget.or_else(|| self.effort.patience(device))
    }

    /// Most candidates to evaluate on a device.
    pub fn most(&self, device: &Device) -> usize {
        self.max_configs.unwrap_or_else(|| self.effort.most(device))
    }
}

/// Something that happened, for whoever draws or logs it.
#[derive(Debug)]
pub enum Event<'a> {
    /// The search begins.
    Started {
        /// The problem.
        problem: &'a Problem,
        /// Every family that serves it.
        spaces: &'a Spaces,
        /// Candidates that will be evaluated at most.
        candidates: usize,
        /// How long the search may take.
        patience: Option<Duration>,
        /// Where outcomes are written as they come.
        journal: Option<&'a Path>,
        /// Kernels whose outcome the journal has from earlier runs.
        known: usize,
        /// Configurations that won elsewhere, or for this problem, and are tried first.
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
        /// What became of it.
        outcome: &'a Outcome,
        /// Whether it was known: from an earlier run, or of another candidate that is the same
        /// kernel.
        recalled: bool,
        /// The best so far.
        best: Option<Micros>,
        /// How many are expected to follow, unless something better is found.
        left: usize,
    },
    /// The worker had to be replaced.
    Restarted {
        /// Why.
        reason: &'a str,
    },
    /// A family is not tried further: it breaks the device.
    GivenUp {
        /// What became of its candidates.
        coverage: &'a Coverage,
    },
    /// The search is over; what follows asks nothing of the compiler.
    Searched,
    /// The finalists and libraries are measured in turn.
    Contest {
        /// How many take part.
        contestants: usize,
    },
    /// Something that a person should know and that stops nothing.
    Note(String),
}

/// Why a problem could not be tuned at all.
#[derive(Debug, Error)]
pub enum TuneError {
    /// No family serves the problem.
    #[error("no family can compute {problem} on this device:\n{}", .reasons.join("\n"))]
    NoFamily {
        /// The problem.
        problem: String,
        /// `family: why not`.
        reasons: Vec<String>,
    },
    /// Constraints leave nothing.
    #[error("no configuration is legal for {problem}:\n{}", .reasons.join("\n"))]
    EmptySpace {
        /// The problem.
        problem: String,
        /// Which constraint removed how many.
        reasons: Vec<String>,
    },
    /// A search space cannot be listed.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// A family's template is missing or uses names that do not exist.
    #[error(transparent)]
    Template(#[from] RenderError),
    /// Outcomes cannot be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The device has too little memory.
    #[error(
        "{problem} needs {} of memory (operands, their copies for honest timing, and a reference), \
         {} is free: choose a smaller shape or batch, or another device with `--device`",
        human_bytes(*.needed), human_bytes(*.free)
    )]
    Memory {
        /// The problem.
        problem: String,
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// The compiler cannot be used.
    #[error("the kernels that validate results do not compile: {0}")]
    Compiler(#[from] CompileError),
    /// A thread of this program panicked: a defect.
    #[error("a thread that makes a device ready panicked: please report this")]
    Panicked,
    /// The device cannot be used, even by a fresh worker.
    #[error("the device cannot be used: {0}")]
    Device(#[from] WorkerError),
    /// The host cannot execute the problem.
    #[error("the cpu device cannot be used: {0}")]
    Host(#[from] HostFailure),
}

/// What became of the candidates of one family.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    /// Its name.
    pub family: String,
    /// All assignments.
    pub raw: u128,
    /// Legal ones.
    pub legal: usize,
    /// Why the others are not, one entry for each constraint.
    pub pruned: Vec<Pruned>,
    /// Evaluated ones, by outcome.
    pub outcomes: std::collections::BTreeMap<OutcomeKind, usize>,
    /// How often the worker had to be replaced because of one.
    pub restarts: usize,
    /// Of these, how many were known: the same kernels as others, or from an earlier run.
    pub recalled: usize,
    /// Its fastest correct one.
    pub best: Option<Micros>,
    /// The first failures, whole: a compiler's log is worth more than its first line.
    pub failures: Vec<(Configuration, Outcome)>,
}

impl Coverage {
    /// Evaluated candidates.
    pub fn evaluated(&self) -> usize {
        self.outcomes.values().sum()
    }

    /// Whether the family is not tried further: it broke the device three times, and more than three
    /// times as often as it left it whole. First questions are as different as can be, so that what
    /// is rare is met early: three alone, with a few right ones between, say little of a family. One
    /// that always breaks the device costs three restarts; one of which a tenth does, asked at
    /// random, is given up once in 600.
    pub fn is_given_up(&self) -> bool {
        let ran = [OutcomeKind::Correct, OutcomeKind::Correctness];
        let ran: usize = ran.iter().filter_map(|kind| self.outcomes.get(kind)).sum();
        breaks_too_often(self.restarts, ran)
    }
}

/// See [`Coverage::is_given_up`]; `ran` left the device whole.
fn breaks_too_often(restarts: usize, ran: usize) -> bool {
    restarts >= MOST_RESTARTS && restarts > PATIENCE * ran
}

/// Restarts from which on a family is looked at.
const MOST_RESTARTS: usize = 3;

/// Restarts for each candidate that ran to its end, more than which are too many.
const PATIENCE: usize = 3;

/// Where a problem's time went.
#[derive(Debug, Clone, Copy, Default)]
pub struct Phases {
    /// Listing spaces, and what is expected of them.
    pub prepare: Duration,
    /// Searching: making operands and references, compiling and evaluating, overlapped.
    pub search: Duration,
    /// The contest.
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
    /// Correct candidates, fastest first: those of the contest, then others by their own samples.
    pub ranking: Vec<Standing>,
    /// The libraries' times in the contest, fastest first.
    pub baselines: Vec<BaselineTime>,
    /// How sure the winner is; none where no final was held.
    pub certainty: Option<Certainty>,
    /// The libraries' version, where there are any.
    pub library_version: String,
    /// One entry for each family that serves the problem.
    pub coverage: Vec<Coverage>,
    /// What the families' defaults took, and what won for other problems.
    pub landmarks: Vec<Landmark>,
    /// What each correct candidate took, by family and configuration.
    pub times: Vec<(String, Configuration, Micros)>,
    /// Where the time went.
    pub phases: Phases,
    /// How often the worker was replaced.
    pub restarts: usize,
    /// Why the search ended.
    pub end: SearchEnd,
    /// What it says of what it did not evaluate.
    pub rest: Rest,
}

impl Summary {
    /// The fastest correct candidate.
    pub fn winner(&self) -> Option<&Standing> {
        self.ranking.first()
    }

    /// Whether the search was stopped by somebody: the winner is the best so far, and the next run
    /// goes on.
    pub fn is_interim(&self) -> bool {
        self.end == SearchEnd::Interrupted
    }

    /// Evaluated candidates.
    pub fn evaluated(&self) -> usize {
        self.coverage.iter().map(Coverage::evaluated).sum()
    }
}

/// What a measurement is ordered by.
fn median(measurement: &Measurement) -> f64 {
    measurement.median().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_given_up_where_it_breaks_nearly_always() {
        for (restarts, ran, given_up) in [
            (2, 0, false),
            (3, 0, true),
            (3, 1, false),
            (4, 1, true),
            (6, 5, false),
            (10, 70, false),
            (40, 13, true),
        ] {
            assert_eq!(breaks_too_often(restarts, ran), given_up, "{restarts} of {ran}");
        }
    }
}
