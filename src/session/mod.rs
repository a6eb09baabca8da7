//! Several problems in one run, for the command line and for programs that embed the crate.
//!
//! [`run()`] tunes the problems of a [`SessionPlan`] on the machine of a [`SessionDevice`] and records the winners. It
//! prints nothing: what happens comes as [`SessionEvent`]s, and each problem gets a [`ProblemResult`].
//!
//! Several problems are tuned at a time: while the kernels of one compile, those of another are measured. A scheduler
//! deals the problems to lanes; each lane has a seat, which is a GPU or a share of one. Timings from one problem
//! correct the predictions for related problems of the same run. [`Shard`] is the part of a list that one of several
//! jobs tunes. A [`Trace`] has the problems of a program. [`cover`] makes the map of a device: it chooses the problems itself.

pub mod cover;
mod event;
mod plan;
mod precompile;
mod result;
mod run;
mod scheduler;
mod seats;
mod shard;
mod trace;
mod transfer;

pub use event::{SessionEvent, SessionStage, SessionStep, StepEvent};
pub use plan::{SessionDevice, SessionPlan};
pub use result::{ProblemOutcome, ProblemResult, SessionError};
pub use run::run;
pub use shard::{Shard, ShardError};
pub use trace::{COVERED, KernelTimes, ProductGain, Trace, TraceError, TraceGain, TracedProduct};
