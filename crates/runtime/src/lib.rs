//! Multiplies matrices on a GPU with the tuned kernels of a bundle (`gemm-tune export --format bundle`), on a CUDA context
//! and stream of the program.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use gemm_tune_runtime::cudarc::driver::CudaContext;
//! use gemm_tune_runtime::model::{Dtype, Problem};
//! use gemm_tune_runtime::{Multiplier, Operands};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! gemm_tune_runtime::device_count()?; // an error where there is no driver: cudarc panics
//! let context = CudaContext::new(0)?;
//! let stream = context.default_stream();
//! let multiplier = Multiplier::open(&context, Path::new("tuned"))?;
//!
//! let problem = Problem::new("4096x4096x1024".parse()?, Dtype::F32);
//! let a = stream.alloc_zeros::<f32>(4096 * 1024)?;
//! let b = stream.alloc_zeros::<f32>(1024 * 4096)?;
//! let mut d = stream.alloc_zeros::<f32>(4096 * 4096)?;
//! multiplier.multiply(&stream, &problem, Operands::new(&a, &b, &mut d))?;
//! # Ok(())
//! # }
//! ```
//!
//! A product runs the kernel that was tuned for its shape. For other shapes it runs the kernel with the lowest predicted
//! time among those that are correct for the shape, rows and addresses. The first product of a problem chooses and loads
//! the kernel; later ones find it, allocate nothing, and launch. Nothing is searched, measured or compiled.
//!
//! [`Multiplier`] takes slices of cudarc and checks them. Its functions for addresses are `unsafe`, as is everything that
//! [`Runtime`] launches, which works without cudarc's contexts: in the context that is current.
//!
//! Modules and items that the documentation does not show serve gemm-tune itself and change with it.

#[doc(hidden)]
pub mod dispatch_tree;
#[doc(hidden)]
pub mod formula;
#[doc(hidden)]
pub mod gpu;
#[doc(hidden)]
pub mod manifest;
#[doc(hidden)]
pub mod opening;
#[doc(hidden)]
pub mod regular_file;
#[doc(hidden)]
pub mod stored;
#[doc(hidden)]
pub mod time_formula;

mod bundle;
mod catalogue;
mod column_major;
mod driver;
mod error;
mod gemm;
mod multiplier;
mod needed;
mod operands;
mod packing;
mod prepared;
mod question;
mod slice_operands;
mod slices;
mod target;
mod tensor_maps;
mod without_factors;

pub use bundle::Bundle;
#[doc(hidden)]
pub use catalogue::{Catalogue, SelectedKernel, SelectedLaunch};
#[doc(hidden)]
pub use driver::Driver;
pub use error::RuntimeError;
pub use gemm::Runtime;
#[doc(hidden)]
pub use gpu::ForeignContext;
pub use gpu::{GpuError, Stream, device_count};
pub use multiplier::{Multiplier, PackedSlice};
pub use opening::BundleError;
pub use operands::{GemmOperands, SeparateC};
#[doc(hidden)]
pub use operands::{RowsToCopy, RowsToFill};
pub use packing::{GemmFactor, PackedFactor};
#[doc(hidden)]
pub use question::Question;
pub use slice_operands::Operands;
pub use slices::{DeviceOperand, DeviceResult, SliceElement};

/// The crate whose contexts, streams and slices products take.
pub use cudarc;
/// Problems and their words: shapes, dtypes, layouts, epilogues.
pub use gemm_tune_model::model;
