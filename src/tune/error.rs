//! Why a problem cannot be tuned.

use thiserror::Error;

use super::journal::JournalError;
use crate::compile::CompileError;
use crate::model::units::human_bytes;
use crate::render::RenderError;
use crate::space::SpaceError;
use crate::validate::HostFailure;
use crate::worker::WorkerError;

/// Why a problem cannot be tuned at all.
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
    /// No configuration satisfies the constraints.
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
        "{problem} needs at least {} of memory (operands and a reference), {} is free: choose a smaller \
         shape or batch, end other programs on the device, or choose another one with `--device`",
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
    /// The run was stopped while a candidate was evaluated.
    #[error("it was interrupted")]
    Interrupted,
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
