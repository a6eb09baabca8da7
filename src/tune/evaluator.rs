//! What evaluates the candidates of one problem, one after the other, and decides among the best of
//! them: a GPU ([`GpuEvaluator`](super::gpu_evaluator)) or this host
//! ([`CpuEvaluator`](super::cpu_evaluator)).

use super::journal::KernelId;
use super::sanitize::Sanitizer;
use super::{Event, TuneError};
use crate::compile::Compiled;
use crate::measure::{ConditionsRange, FinalEnd, Margin, Race};
use crate::model::{
    Configuration, LaunchPlan, Measurement, Outcome, Problem, Resources, Validation,
};

/// Something that candidates are evaluated on.
pub(super) trait Evaluator: Send {
    /// Validates a candidate and finds its time, as far as the race wants to know it.
    ///
    /// # Errors
    /// Only where nothing can be evaluated any more; a candidate's failure is its outcome.
    fn evaluate(&mut self, candidate: &Candidate, race: &Race) -> Result<Evaluated, TuneError>;

    /// Ranks correct candidates, given fastest first, and gives back all memory. Those that take part in the final go through
    /// the sanitizer before, where one is given.
    ///
    /// # Errors
    /// As [`Evaluator::evaluate`].
    fn decide(
        self: Box<Self>,
        kept: Vec<Kept>,
        sanitizer: Option<&Sanitizer>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Decided, TuneError>;

    /// How often what executes had to be replaced.
    fn restarts(&self) -> usize;

    /// Gives back all memory without a decision.
    ///
    /// # Errors
    /// As [`Evaluator::evaluate`].
    fn release(self: Box<Self>) -> Result<(), TuneError>;
}

/// What is needed to run a candidate.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) plan: LaunchPlan,
    pub(super) compiled: Compiled,
}

/// What became of a candidate.
pub(super) struct Evaluated {
    pub(super) outcome: Outcome,
    /// Why what executes had to be replaced, where it had to.
    pub(super) restarted: Option<String>,
}

impl From<Outcome> for Evaluated {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, restarted: None }
    }
}

/// What a candidate's place in the final may rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    /// That it is among the fastest.
    Speed,
    /// That it is its family's default, if it is not hopelessly slower than the best.
    Default,
    /// That it was asked for, or is the record: it takes part however slow it is.
    Certain,
}

/// How many times slower than the best a default is at most that takes part in the final. A slower one
/// cannot win, and its own samples stand, which lie within 1 % of each other: with all of them the final of
/// 8192x8192x8192 took 38 s on an H200, most of them for `naive`, which is 17 times slower than the winner.
const HOPELESS: f64 = 1.1;

impl Claim {
    /// Whether one takes part that is not among the fastest, but so many times as slow as the best.
    pub(super) fn holds(self, times_the_best: f64) -> bool {
        match self {
            Self::Speed => false,
            Self::Default => times_the_best <= HOPELESS,
            Self::Certain => true,
        }
    }
}

/// A correct candidate that may win.
pub(super) struct Kept {
    /// What its place in the final may rest on.
    pub(super) claim: Claim,
    pub(super) kernel: KernelId,
    pub(super) standing: Standing,
    pub(super) candidate: Candidate,
    /// Problems close by that its source serves too.
    pub(super) elsewhere: Vec<Elsewhere>,
}

/// A problem that a candidate's source serves besides its own.
pub(super) struct Elsewhere {
    pub(super) problem: Problem,
    /// How it is launched there.
    pub(super) plan: LaunchPlan,
}

/// A candidate that was found wrong after all.
pub(super) struct Refuted {
    pub(super) kernel: KernelId,
    pub(super) family: String,
    pub(super) configuration: Configuration,
    pub(super) outcome: Outcome,
}

/// A correct candidate and what is known of it.
#[derive(Debug, Clone)]
pub struct Standing {
    /// Its family.
    pub family: String,
    /// Its configuration.
    pub configuration: Configuration,
    /// How it is launched.
    pub plan: LaunchPlan,
    /// How right it is.
    pub validation: Validation,
    /// What else it passed, as a finalist: other values, the same bits in two runs or two runs within
    /// the bound, other shapes.
    pub also: Vec<String>,
    /// How fast it is: in the contest where it took part, otherwise by its own samples.
    pub measurement: Measurement,
    /// What it takes.
    pub resources: Resources,
    /// Whether it took part in the contest.
    pub contested: bool,
}

/// How sure a winner is, by the final.
#[derive(Debug, Clone)]
pub struct Certainty {
    /// The fastest other candidate: its family and configuration, and by how much it is slower.
    pub runner_up: Option<(String, Configuration, Margin)>,
    /// Rounds that the winner was sampled in.
    pub rounds: usize,
    /// Rounds that were taken and thrown away.
    pub tainted_rounds: usize,
    /// Why the first of these was.
    pub taint: Option<String>,
    /// The candidates that tie, the winner first; the winner alone where there is no tie.
    pub tie_set: Vec<(String, Configuration)>,
    /// Why no more rounds were taken.
    pub ended: FinalEnd,
    /// What the sensors showed over the rounds.
    pub conditions: ConditionsRange,
}

/// A library's time in the contest.
#[derive(Debug, Clone)]
pub struct BaselineTime {
    /// Which routine of which library.
    pub name: String,
    /// Its samples.
    pub measurement: Measurement,
}

/// How it ended.
#[derive(Default)]
pub(super) struct Decided {
    pub(super) ranking: Vec<Standing>,
    pub(super) baselines: Vec<BaselineTime>,
    pub(super) library_version: String,
    /// How sure the winner is; none where no final was held.
    pub(super) certainty: Option<Certainty>,
    /// Those that did not pass the finalists' scrutiny.
    pub(super) refuted: Vec<Refuted>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_that_is_hopeless_has_no_claim() {
        for (claim, times, holds) in [
            (Claim::Speed, 1.01, false),
            (Claim::Default, 1.01, true),
            (Claim::Default, 17.0, false),
            (Claim::Default, f64::NAN, false),
            (Claim::Certain, 17.0, true),
        ] {
            assert_eq!(claim.holds(times), holds, "{claim:?} {times}");
        }
        // What is both keeps the better claim.
        assert_eq!(Claim::Default.max(Claim::Certain), Claim::Certain);
    }
}
