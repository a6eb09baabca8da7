//! The GPU: CUDA driver, cuBLAS and cuBLASLt as baselines, and sensors through NVML.
//!
//! The only room that uses cudarc, and with `compile/nvrtc.rs` the only one with `unsafe`. It
//! handles devices, memory, kernels, graphs and cuBLAS, and no configurations. What programs that
//! run bundles need too is in their crate: functions, launches, tensor maps, errors of the driver,
//! and [`ForeignContext`].
//!
//! Everything but [`ForeignContext`] is for the GPU worker: a process with one thread, one GPU and
//! one stream. A faulty kernel permanently breaks the CUDA context of its process. The worker is
//! therefore replaceable, and [`GpuError::is_sticky`] says when to replace it. Handles hold an
//! [`Rc`](std::rc::Rc) to the context, which binds them to the thread that opened the GPU. The
//! context is current on that thread only. [`ForeignContext`] works in a context of the embedding
//! program, on any of its threads.
//!
//! Rust's guarantees end at a kernel launch: an address is a number here, and a kernel that
//! receives a wrong one reads and writes other device memory.
//!
//! Only cudarc's declarations (`sys`) are used. Its safe layer adds events to launches and hides
//! cuBLASLt's heuristics, and both layers panic when a library or a symbol is missing. Here every
//! symbol in use is looked up when its library is opened, so that an old driver is an ordinary
//! error.

mod column_major;
mod context;
mod cublas;
mod cublas_lt;
mod driver;
mod error;
mod kernel;
mod library_call;
mod lt_algorithm;
mod lt_descriptors;
mod lt_numbers;
mod memory;
mod nvml;
mod timing;

pub use context::CudaDevice;
pub use cublas::Cublas;
pub use cublas_lt::CublasLtPlan;
pub use driver::device_count;
#[doc(hidden)]
pub use gemm_tune_runtime::gpu::check_cubin;
pub use gemm_tune_runtime::gpu::{
    EncodedMap, ForeignBuffer, ForeignContext, ForeignKernel, GpuError, KernelArgument, Stream,
};
pub use kernel::{GpuKernel, GpuModule};
pub use library_call::LibraryOperands;
pub use lt_algorithm::{
    ATTRIBUTES, AlgorithmAttribute, COMPUTE, LibraryAlgorithm, WORKSPACE, algorithm_name,
    algorithm_of_name,
};
pub use lt_numbers::LibraryNumbers;
pub use memory::DeviceBuffer;
pub use nvml::{SensorReading, Sensors, installed_gpus};
pub use timing::{CudaEvent, CudaGraph};
