//! The interface to a device: elementary operations, one after the other.

use std::ffi::OsString;

use super::commands::{Baselines, DeviceConditions, KernelSetup, LoadedModule, WorkItem};
use super::error::WorkerError;
use crate::model::{Device, Micros, Problem};

/// Function that starts an executor.
pub type Starter = Box<dyn FnOnce() -> Result<Box<dyn Executor>, WorkerError> + Send>;

/// A device that executes elementary operations sequentially. Each call returns when it is
/// complete.
pub trait Executor: Send {
    /// Properties of the device.
    fn device(&self) -> &Device;

    /// Starts another executor for the same device, whose worker is started by `wrapper`: a program
    /// with arguments, to which the worker's program and arguments are appended.
    ///
    /// # Errors
    /// [`WorkerError`], as for all methods below.
    fn start_wrapped(&self, wrapper: &[OsString]) -> Result<Box<dyn Executor>, WorkerError>;

    /// Returns a function that starts another executor for the same device.
    fn starter(&self) -> Starter;

    /// Shuts the worker down and returns its exit status, or that of its wrapper; `None` after a
    /// signal.
    fn finish(self: Box<Self>) -> Result<Option<i32>, WorkerError>;

    /// Free device memory in bytes.
    fn free_memory(&mut self) -> Result<u64, WorkerError>;

    /// Allocates `bytes` and returns the address, a multiple of 256.
    fn allocate(&mut self, bytes: u64) -> Result<u64, WorkerError>;

    /// Frees an allocation of [`Self::allocate`].
    fn free(&mut self, address: u64) -> Result<(), WorkerError>;

    /// Sets `words` 32-bit words from `address`.
    fn fill(&mut self, address: u64, word: u32, words: u64) -> Result<(), WorkerError>;

    /// Reads `bytes` bytes from `address`.
    fn read(&mut self, address: u64, bytes: u64) -> Result<Vec<u8>, WorkerError>;

    /// Loads a cubin and prepares `kernels`.
    fn load(&mut self, image: &[u8], kernels: &[KernelSetup]) -> Result<LoadedModule, WorkerError>;

    /// Unloads a module.
    fn unload(&mut self, module: u32) -> Result<(), WorkerError>;

    /// Executes `work` in order, and waits.
    fn run(&mut self, work: &[WorkItem]) -> Result<(), WorkerError>;

    /// Records `work` as a replayable sequence and returns its identifier.
    fn record(&mut self, work: &[WorkItem]) -> Result<u32, WorkerError>;

    /// Replays a sequence and returns its total time. First overwrites the range `flush` (address
    /// and bytes), if any, outside the timed interval.
    fn replay(&mut self, sequence: u32, flush: Option<(u64, u64)>) -> Result<Micros, WorkerError>;

    /// Deletes a sequence.
    fn forget(&mut self, sequence: u32) -> Result<(), WorkerError>;

    /// Prepares the library routines for `problem`, with at most `heuristics` of cuBLASLt's.
    fn baselines(&mut self, problem: &Problem, heuristics: usize)
    -> Result<Baselines, WorkerError>;

    /// Reads the sensors.
    fn conditions(&mut self) -> Result<DeviceConditions, WorkerError>;

    /// Sets the deadline of each later operation.
    fn set_deadline(&mut self, seconds: f64);

    /// Replaces a worker that ended; all allocations, modules and sequences are lost.
    fn restart(&mut self) -> Result<(), WorkerError>;
}
