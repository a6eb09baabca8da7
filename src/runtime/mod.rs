//! Runtime for embedding programs. [`Runtime::gemm`] selects the kernel for a problem from a bundle
//! or a database, loads it once, and launches it on the caller's context and stream.
//!
//! The runtime is the crate `gemm-tune-runtime`, which programs that only run bundles use without the rest of
//! gemm-tune. Here are kernels of a database besides: [`DatabaseKernels`].
//!
//! The runtime neither searches nor measures. The first call for a problem selects and loads the
//! kernel, and compiles it where it comes from a database. Later calls reuse it and allocate
//! nothing. A [`Runtime`] serves all threads; each of them needs the context to be current.
//!
//! ```no_run
//! use gemm_tune::gpu::Stream;
//! use gemm_tune::model::{Dtype, Problem};
//! use gemm_tune::runtime::{GemmOperands, Runtime};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (a, b, c) = (0, 0, 0);
//! let runtime = Runtime::open_bundle("tuned".as_ref())?; // in the current context
//! let problem = Problem::new("4096x4096x1024".parse()?, Dtype::F32);
//! let operands = GemmOperands::packed(&problem, a, b, c); // device addresses
//! // SAFETY: the addresses are operands of the problem in the current context.
//! unsafe { runtime.gemm(Stream::default(), &problem, &operands)? };
//! # Ok(())
//! # }
//! ```

mod database;
#[cfg(test)]
mod tests;

pub use crate::model::EpilogueAddresses;
pub use database::DatabaseKernels;
pub use gemm_tune_runtime::{
    Bundle, Catalogue, Driver, GemmOperands, RowsToCopy, RowsToFill, Runtime, RuntimeError,
    SelectedKernel, SelectedLaunch, SeparateC,
};
