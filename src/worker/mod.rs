//! The child process that owns a device, and how the rest of the program speaks to it.
//!
//! The parent never creates a CUDA context: a kernel that faults, hangs or crashes its process
//! costs one worker and one candidate. What crosses the pipe are the elementary deeds of a device
//! (allocate, launch, replay and time); what they are for (validation, measurement) is decided in
//! the parent, against the [`Executor`] trait, which tests implement without a GPU.

mod bind;
mod process;
mod protocol;
mod serve;
mod spare;
mod spawner;

use std::ffi::OsString;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use bind::{Operands, Scalars, Unbound, bind};
pub use process::{Worker, WorkerCommand};
pub use serve::{ServeError, serve};

use crate::model::{Device, LaunchPlan, Micros, PlacedMap, Problem};

/// A value that a kernel is called with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum LaunchArgument {
    /// A device address.
    Pointer(u64),
    /// An `int`.
    I32(i32),
    /// A `long long`.
    I64(i64),
    /// A `float`.
    F32(f32),
    /// A tensor map, which the device encodes.
    Map(PlacedMap),
}

/// One launch of a loaded kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The module, as [`Executor::load`] named it.
    pub module: u32,
    /// Which of its kernels.
    pub entry: String,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: u32,
    /// What it is called with.
    pub arguments: Vec<LaunchArgument>,
}

/// Something that a device can do as one piece of a timed sequence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Work {
    /// One launch.
    Kernel(Launch),
    /// A call of a baseline that [`Executor::baselines`] offered.
    Baseline {
        /// Its place in that list.
        index: usize,
        /// Address of A.
        a: u64,
        /// Address of B.
        b: u64,
        /// Address of C.
        c: u64,
        /// The factor of op(A) op(B).
        alpha: f32,
        /// The factor of C.
        beta: f32,
    },
}

/// What the driver says of a loaded kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFacts {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread.
    pub local_bytes: u32,
    /// Bytes of static shared memory of a block.
    pub static_shared_bytes: u32,
    /// Blocks that an SM holds at once.
    pub blocks_per_sm: u32,
}

/// A loaded module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// What launches name it by.
    pub module: u32,
    /// One entry for each launch that was announced, in order.
    pub kernels: Vec<KernelFacts>,
}

/// A launch as announced when its module is loaded: enough to prepare the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// The kernel's entry point.
    pub entry: String,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: u32,
}

impl Announced {
    /// All kernels of a plan, in order.
    pub fn of(plan: &LaunchPlan) -> Vec<Self> {
        let kernels = plan.kernels.iter();
        kernels
            .map(|kernel| Self {
                entry: kernel.entry.clone(),
                threads: kernel.block.iter().product(),
                dynamic_shared_bytes: kernel.dynamic_shared_bytes,
            })
            .collect()
    }
}

/// The libraries that a problem can be compared with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Baselines {
    /// The library's version; empty where there is none.
    pub version: String,
    /// What each can be called: cuBLAS first, then cuBLASLt's heuristics, best guess first.
    pub names: Vec<String>,
    /// Why there is none, or fewer than asked for.
    pub note: Option<String>,
}

/// The device's sensors at one moment; what cannot be read is `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Conditions {
    /// The clock of the SMs.
    pub sm_clock_mhz: Option<u32>,
    /// The temperature.
    pub temperature_c: Option<u32>,
    /// The power drawn.
    pub power_w: Option<f64>,
    /// Why clocks are held down, in NVML's words.
    pub throttle_reasons: Option<Vec<String>>,
    /// Other processes that compute on this device.
    pub other_processes: Option<u32>,
}

/// Why a device did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum WorkerError {
    /// The driver refused or the kernel faulted.
    #[error("{message}")]
    Device {
        /// The driver's words.
        message: String,
        /// Whether the device's context is lost, so that the worker must be replaced.
        sticky: bool,
    },
    /// There is no GPU, or no driver for one.
    #[error("{message}")]
    NoDevice {
        /// The driver's words, or what was looked for.
        message: String,
    },
    /// The device has less memory than asked for.
    #[error("{message}")]
    OutOfMemory {
        /// With the figures.
        message: String,
    },
    /// No answer came in time; the worker was killed.
    #[error("the device did not answer within {seconds:.1} s")]
    TimedOut {
        /// How long was waited.
        seconds: f64,
    },
    /// The worker ended by itself.
    #[error("the GPU worker ended unexpectedly ({how})")]
    Died {
        /// Its exit status and last words.
        how: String,
    },
    /// The worker could not be started, or speaks another protocol.
    #[error("the GPU worker could not be started: {why}")]
    Unavailable {
        /// The reason.
        why: String,
    },
}

impl WorkerError {
    /// Whether the worker must be restarted before it can be asked again.
    pub fn ends_worker(&self) -> bool {
        match self {
            Self::Device { sticky, .. } => *sticky,
            Self::OutOfMemory { .. } | Self::NoDevice { .. } => false,
            Self::TimedOut { .. } | Self::Died { .. } | Self::Unavailable { .. } => true,
        }
    }
}

/// Starts an executor.
pub type Starter = Box<dyn FnOnce() -> Result<Box<dyn Executor>, WorkerError> + Send>;

/// A device that does elementary deeds, one after the other. Each waits until it is done.
pub trait Executor: Send {
    /// What the device is.
    fn device(&self) -> &Device;

    /// Another one for the same device, whose worker is started by `wrapper`: a program with
    /// arguments, which is given the worker's own program and arguments in addition.
    ///
    /// # Errors
    /// [`WorkerError`]; so have all methods below.
    fn under(&self, wrapper: &[OsString]) -> Result<Box<dyn Executor>, WorkerError>;

    /// What starts another one for the same device, for whoever has no use for this one.
    fn another(&self) -> Starter;

    /// Lets the worker end by itself, as one does that has nothing left to do, and gives its exit
    /// status: the wrapper's where there is one, none where a signal ended it.
    fn finish(self: Box<Self>) -> Result<Option<i32>, WorkerError>;

    /// Bytes of device memory that are free.
    fn free_memory(&mut self) -> Result<u64, WorkerError>;

    /// Allocates `bytes` and gives the address, a multiple of 256.
    fn allocate(&mut self, bytes: u64) -> Result<u64, WorkerError>;

    /// Frees what [`Self::allocate`] gave.
    fn free(&mut self, address: u64) -> Result<(), WorkerError>;

    /// Sets `words` 32-bit words from `address` on.
    fn fill(&mut self, address: u64, word: u32, words: u64) -> Result<(), WorkerError>;

    /// Reads `bytes` bytes from `address` on.
    fn read(&mut self, address: u64, bytes: u64) -> Result<Vec<u8>, WorkerError>;

    /// Loads a cubin and prepares the kernels that are announced.
    fn load(&mut self, image: &[u8], kernels: &[Announced]) -> Result<Loaded, WorkerError>;

    /// Forgets a module.
    fn unload(&mut self, module: u32) -> Result<(), WorkerError>;

    /// Does `work` in order, and waits.
    fn run(&mut self, work: &[Work]) -> Result<(), WorkerError>;

    /// Keeps `work` as a sequence that can be replayed, and names it.
    fn record(&mut self, work: &[Work]) -> Result<u32, WorkerError>;

    /// Replays a sequence and gives the time it took, all of it. If `flush` names a range (address
    /// and bytes), that is overwritten first, outside the timed interval.
    fn replay(&mut self, sequence: u32, flush: Option<(u64, u64)>) -> Result<Micros, WorkerError>;

    /// Forgets a sequence.
    fn forget(&mut self, sequence: u32) -> Result<(), WorkerError>;

    /// Makes the libraries' routines for `problem` ready, `heuristics` of cuBLASLt's at most.
    fn baselines(&mut self, problem: &Problem, heuristics: usize)
    -> Result<Baselines, WorkerError>;

    /// Reads the sensors.
    fn conditions(&mut self) -> Result<Conditions, WorkerError>;

    /// How long each of the deeds that follow may take.
    fn set_deadline(&mut self, seconds: f64);

    /// Replaces a worker that ended; everything allocated, loaded and recorded is gone.
    fn restart(&mut self) -> Result<(), WorkerError>;
}
