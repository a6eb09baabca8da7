//! Plain values that all rooms share: problems, devices, configurations, launch plans, outcomes,
//! measurements, units. Nothing here touches a file, process or device.

pub mod configuration;
pub mod device;
pub mod diagnostic;
pub mod epilogue;
pub mod floor;
pub mod gemm_type;
pub mod launch;
pub mod measurement;
pub mod occupancy;
pub mod outcome;
pub mod problem;
pub mod statistics;
pub mod storage;
mod stratum;
pub mod tensor_map;
mod unchecked;
pub mod units;
pub mod warm_start;
pub mod word;

pub use configuration::{Configuration, Value};
pub use device::{ComputeCapability, Device};
pub use diagnostic::{Diagnostic, LocatedFailure};
pub use epilogue::{Epilogue, EpilogueAddresses, EpilogueError, EpilogueOp};
pub use floor::floor;
pub use gemm_type::{Compute, Dtype, GemmType, GemmTypeError};
pub use launch::{Argument, KernelLaunch, LaunchPlan, LaunchShape, STANDARD_ARGUMENTS, Workspace};
pub use measurement::{CachePolicy, Measurement, PowerState, Regime, Timing};
pub use occupancy::{BlockNeeds, Limiter, Occupancy};
pub use outcome::{Fault, Mismatch, Outcome, OutcomeKind, Resources, Validation};
pub use problem::{Layout, Problem, ProblemPattern, Shape};
pub use storage::{Storage, StorageError};
pub use stratum::Stratum;
pub use tensor_map::{CopyRounding, PlacedMap, Swizzle, TensorMap, TensorMapLimit};
pub use units::{Micros, Tflops};
pub use warm_start::{Hint, WarmStart};
pub use word::UnknownWord;
