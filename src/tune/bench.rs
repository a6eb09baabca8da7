//! What evaluates the candidates of one problem, one after the other, and decides among the best of
//! them: a GPU ([`Workbench`](super::workbench)) or this host
//! ([`HostBench`](super::host_bench)).

use super::journal::KernelId;
use super::{Event, TuneError};
use crate::compile::Compiled;
use crate::model::{
    Configuration, LaunchPlan, Measurement, Micros, Outcome, Resources, Validation,
};

/// Something that candidates are evaluated on.
pub(super) trait Bench {
    /// Validates a candidate and finds its time. `best` is that of the fastest so far.
    ///
    /// # Errors
    /// Only where nothing can be evaluated any more; a candidate's failure is its outcome.
    fn evaluate(
        &mut self,
        candidate: &Candidate,
        best: Option<Micros>,
    ) -> Result<Evaluated, TuneError>;

    /// Ranks correct candidates, given fastest first.
    ///
    /// # Errors
    /// As [`Bench::evaluate`].
    fn decide(
        &mut self,
        kept: Vec<Kept>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Decided, TuneError>;

    /// How often what executes had to be replaced.
    fn restarts(&self) -> usize;

    /// Gives back all memory.
    ///
    /// # Errors
    /// As [`Bench::evaluate`].
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

/// A correct candidate that may win.
pub(super) struct Kept {
    pub(super) kernel: KernelId,
    pub(super) standing: Standing,
    pub(super) candidate: Candidate,
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
    /// How fast it is: in the contest where it took part, otherwise by its own samples.
    pub measurement: Measurement,
    /// What it takes.
    pub resources: Resources,
    /// Whether it took part in the contest.
    pub contested: bool,
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
pub(super) struct Decided {
    pub(super) ranking: Vec<Standing>,
    pub(super) baselines: Vec<BaselineTime>,
    pub(super) library_version: String,
}
