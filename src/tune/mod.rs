//! Tuning of one problem: proposes candidates, renders, compiles, validates and measures them, and decides the winner.
//!
//! [`tune()`] runs a whole search and its final; [`retime`], [`line_up`] and [`time_each`] measure named kernels;
//! [`check()`] executes kernels on the host without timing. This room prints nothing: what happens comes as
//! [`TuneEvent`]s.

mod candidate;
mod check;
mod coverage;
mod cpu_evaluator;
mod deadlines;
mod effort;
mod error;
mod evaluator;
mod evaluator_pool;
mod event;
mod failed;
mod final_round;
mod finalist;
mod finalist_checks;
mod gpu_evaluator;
mod gpu_lease;
mod journal;
mod kernel_id;
mod kit;
mod lineup;
mod machine;
mod memory;
mod named_kernels;
mod opening;
mod prepare;
mod prepared_gpu;
mod ranking;
mod recording;
mod renderer;
mod run;
mod sanitize;
mod search_loop;
mod settings;
mod stats;
mod summary;
mod verify;
mod warm_start;

pub use check::{CheckEvent, CheckPlan, CheckResult, Sample, check};
pub use coverage::{Coverage, FailureGroup};
pub use effort::{Effort, GainChance, Rest, SearchEnd, StopRule, UnknownEffort};
pub use error::TuneError;
pub use event::TuneEvent;
pub use failed::FailedCandidate;
pub use journal::{Entry, Journal, JournalError, Recorded};
pub use kernel_id::KernelId;
pub use kit::Kit;
pub use lineup::{LineUp, LineUpOptions, line_up};
pub use machine::{LeasedGpu, Machine};
pub use named_kernels::{Named, time_each};
pub use prepare::{FamilySpace, Spaces, spaces};
pub use ranking::{BaselineTime, Certainty, FinalistRounds, Standing};
pub use recording::{
    MeasuredTimes, RecordingError, parse_recording, read_informed, read_journal,
    read_measured_times, read_recording,
};
pub use run::{pilot, tune};
pub use sanitize::Sanitizer;
pub use settings::Settings;
pub use summary::{Phases, Summary};
pub use verify::{Retimed, retime};
pub use warm_start::Hints;

pub(crate) use machine::PendingWorker;
pub(crate) use opening::Opening;
