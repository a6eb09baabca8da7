//! The GPU: its driver, the libraries that kernels are measured against, and its sensors.
//!
//! The only room that names cudarc, and with `compile/nvrtc.rs` the only one with `unsafe`. It is
//! no tuner: it knows devices, memory, kernels, graphs and cuBLAS, and nothing of configurations.
//!
//! All but [`Guest`], which is for a user's own context and any of its threads, is for the GPU worker:
//! a process with one thread, one GPU and one stream. A faulty kernel ends the CUDA context of the
//! process that launched it, for good; so the worker is expendable, and [`GpuError::is_sticky`] says
//! when to replace it. Its handles hold an [`Rc`](std::rc::Rc) to the context and are therefore bound to
//! the thread that opened the GPU, which is also the only thread that the context is current on.
//!
//! Rust's guarantees end where a kernel begins: an address is a number here, and a kernel that is
//! handed a wrong one reads and writes device memory that it should not.
//!
//! cudarc is used for its declarations (`sys`) alone. Its safe layer adds events to launches and
//! hides cuBLASLt's heuristics, and both its layers panic where a library or a symbol is missing:
//! here every symbol in use is looked up when a library is opened, so that an old driver is an
//! error like any other.

mod blas;
mod column_major;
mod driver;
mod error;
mod function;
mod guest;
mod kernel;
mod lt;
mod sensors;
mod tensor_map;
mod timing;

pub use blas::Blas;
pub use driver::{Buffer, Gpu, Memory, device_count};
pub use error::GpuError;
pub use function::KernelArgument;
pub use guest::{Guest, GuestKernel, GuestMemory, Stream};
pub use kernel::{Kernel, Module};
pub use lt::LtPlan;
pub use sensors::{Reading, Sensors, installed};
pub use tensor_map::EncodedMap;
pub use timing::{Event, Graph};
