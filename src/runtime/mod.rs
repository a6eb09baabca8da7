//! Matrix products in a program of one's own: [`Runtime::gemm`] picks the kernel for a problem from a
//! bundle or a database, loads it once, and launches it on the caller's context and stream.
//!
//! Nothing is searched, and nothing is measured. The first call for a problem picks, compiles where the
//! kernel comes from a database, and loads; every later one finds what was prepared and allocates
//! nothing. A [`Runtime`] serves all threads, on each of which the context has to be current.
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
//! runtime.gemm(Stream::default(), &problem, &operands)?;
//! # Ok(())
//! # }
//! ```

mod bundle;
mod catalogue;
mod database;
mod driver;
mod error;
mod gemm;
mod operands;
mod prepared;
mod tensor_maps;
#[cfg(test)]
mod tests;

pub use bundle::Bundle;
pub use catalogue::{Catalogue, SelectedKernel, SelectedLaunch};
pub use database::DatabaseKernels;
pub use driver::Driver;
pub use error::RuntimeError;
pub use gemm::Runtime;
pub use operands::GemmOperands;
