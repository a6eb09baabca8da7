//! What happens in a session, for whoever shows or logs it.

use super::result::ProblemResult;
use crate::model::{Device, Problem};
use crate::tune::TuneEvent;

/// Something that happened in a session. Events of different problems come from different threads.
#[derive(Debug)]
pub enum SessionEvent<'a> {
    /// The session begins.
    Started {
        /// The device.
        device: &'a Device,
        /// How many problems are tuned at a time at most.
        lanes: usize,
    },
    /// A step begins, makes progress or ends.
    Step(SessionStep, StepEvent<'a>),
    /// A problem has its result: its winner is recorded, or it has none.
    Finished(&'a ProblemResult),
}

/// One stage of one problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionStep {
    /// The place of the problem in the plan.
    pub number: usize,
    /// The problem.
    pub problem: Problem,
    /// Which stage.
    pub stage: SessionStage,
}

/// What is done with a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionStage {
    /// A few of its candidates are evaluated, because their timings correct the predictions for the other problems.
    Pilot,
    /// Its winner is searched.
    Tuning,
}

/// What happened to a step.
#[derive(Debug)]
pub enum StepEvent<'a> {
    /// It begins.
    Begun,
    /// An event of tuning.
    Progress(&'a TuneEvent<'a>),
    /// It is over.
    Ended,
}
