//! What a session tunes, how, and on what.

use std::path::PathBuf;
use std::sync::Arc;

use crate::compile::{Compile, CompileThreads};
use crate::database::{ReplacePolicy, WritableDatabase};
use crate::model::{Hint, Problem};
use crate::predict::Predictor;
use crate::render::Templates;
use crate::space::Family;
use crate::tune::{Machine, Settings};

/// Problems to tune, the kernels to choose from, and where winners are recorded.
pub struct SessionPlan {
    /// The problems.
    pub problems: Vec<Problem>,
    /// The families to choose from.
    pub families: Vec<Family>,
    /// Their templates.
    pub templates: Templates,
    /// How each problem is tuned. With a budget, problems are tuned one at a time: a budget is the time that one
    /// problem has on the device.
    pub settings: Settings,
    /// Predicts kernels of the device. The default one has no learned model.
    pub predictor: Arc<Predictor>,
    /// The database file that winners are recorded in; without one, nothing is recorded. Its records are warm starts.
    pub database: Option<WritableDatabase>,
    /// Other database files whose winners are warm starts. Unreadable files are skipped.
    pub other_databases: Vec<PathBuf>,
    /// When a winner replaces a stored record.
    pub replace: ReplacePolicy,
    /// Kernels that are evaluated and take part in the final of problems without a record, to learn how good they are.
    pub answers: Vec<(Problem, Hint)>,
}

/// The machine that a session runs on, and the compiler for it.
pub struct SessionDevice {
    /// The GPUs, or this host.
    pub machine: Machine,
    /// The compiler for the machine's architecture: to cubins for a GPU, to PTX for the host.
    pub compiler: Arc<dyn Compile>,
    /// The compiler's version, such as `13.0`, for the records.
    pub nvrtc: String,
    /// The threads that compile.
    pub threads: CompileThreads,
}
