//! The GPU worker: a child process that owns a device, and the interface to it.
//!
//! The parent never creates a CUDA context, so a kernel that faults, hangs or crashes its process
//! costs one worker and one candidate. The protocol consists of elementary device operations
//! (allocate, launch, replay and time). Validation and measurement run in the parent against the
//! [`Executor`] trait, which tests implement without a GPU.

mod bind;
mod buffer_cache;
mod commands;
mod error;
mod executor;
mod process;
mod protocol;
mod serve;
mod session;

pub use crate::model::EpilogueAddresses;
pub use bind::{OperandAddresses, Scalars, UnboundArgument, bind, bind_stored};
pub use commands::{
    Baselines, DeviceConditions, KernelFacts, KernelSetup, LaunchArgument, LaunchCommand,
    LibraryRoutine, LoadedModule, OfferedRoutine, WorkItem,
};
pub use error::WorkerError;
pub use executor::{Executor, Starter};
pub use process::{GpuWorker, WorkerCommand};
pub use serve::{ServeError, serve};
