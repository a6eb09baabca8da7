//! Values that cross the interface to a device: launches, work, modules, baselines and sensors.

use serde::{Deserialize, Serialize};

use crate::gpu::{LibraryAlgorithm, LibraryOperands};
use crate::model::{LaunchPlan, PlacedMap};

/// Value of a kernel argument.
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

/// One launch of a loaded kernel, with all arguments bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaunchCommand {
    /// Module identifier from [`Executor::load`](super::Executor::load).
    pub module: u32,
    /// Entry point of the kernel.
    pub entry: String,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: u32,
    /// Whether it is a programmatic dependent launch.
    pub programmatic: bool,
    /// Argument values in order.
    pub arguments: Vec<LaunchArgument>,
}

/// One operation of a timed sequence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum WorkItem {
    /// One launch.
    Kernel(LaunchCommand),
    /// A call of a library routine from [`Executor::baselines`](super::Executor::baselines).
    Baseline {
        /// The routine.
        routine: LibraryRoutine,
        /// Addresses of its operands.
        operands: LibraryOperands,
        /// The factors of op(A) op(B) and of C.
        scalars: [f32; 2],
    },
}

/// A routine of a library, for the problem that was announced last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LibraryRoutine {
    /// cuBLAS.
    Cublas,
    /// The heuristic of cuBLASLt with this index.
    CublasLt(usize),
}

/// Resource figures of a loaded kernel, from the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFacts {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of local memory per thread.
    pub local_bytes: u32,
    /// Bytes of static shared memory per block.
    pub static_shared_bytes: u32,
    /// Blocks that an SM holds at once.
    pub blocks_per_sm: u32,
}

/// A loaded module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedModule {
    /// Identifier for launches.
    pub module: u32,
    /// Figures for each declared kernel, in order.
    pub kernels: Vec<KernelFacts>,
}

/// A kernel to prepare when its module is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelSetup {
    /// The kernel's entry point.
    pub entry: String,
    /// Threads per block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: u32,
}

impl KernelSetup {
    /// Lists all kernels of a plan, in order.
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

/// Library routines that serve as baselines for a problem.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Baselines {
    /// Library version; empty without a library.
    pub version: String,
    /// The routines: cuBLAS first, if it computes the problem, then cuBLASLt's heuristics in the library's order.
    pub routines: Vec<OfferedRoutine>,
    /// Environment variables that are set and change the libraries' arithmetic. They are measured without them.
    pub cleared: Vec<String>,
    /// Reason for no or fewer baselines than requested.
    pub note: Option<String>,
}

/// A routine that a library offers for a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedRoutine {
    /// The routine.
    pub routine: LibraryRoutine,
    /// Its name.
    pub name: String,
    /// What makes the algorithm of cuBLASLt again.
    pub algorithm: Option<LibraryAlgorithm>,
}

/// Sensor values of a device at one moment; `None` for unreadable ones.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceConditions {
    /// SM clock.
    pub sm_clock_mhz: Option<u32>,
    /// Temperature.
    pub temperature_c: Option<u32>,
    /// Power draw.
    pub power_w: Option<f64>,
    /// Throttle reasons by NVML's names.
    pub throttle_reasons: Option<Vec<String>>,
    /// Other processes with a compute context on this device.
    pub other_processes: Option<u32>,
}
