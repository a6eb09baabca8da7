//! The `cpu` device: executes the PTX that NVRTC emits on the host's processor, warp by warp. It
//! checks every access and counts the memory traffic a GPU would have.
//!
//! The device gives the results of a kernel, not its speed. Where PTX leaves an order open, the
//! device has one fixed order: the warps of a block run in turn, each until it waits. Finding a
//! compiler (`compile`), launch plans (`model`) and reference results (`validate`) are elsewhere.
//!
//! [`PtxModule::parse`] reads a module once; [`launch`] runs one of its kernels on a
//! [`GlobalMemory`].
//!
//! `parse` makes a syntax tree of the text, `decode` makes operations of the tree, and `execute`
//! runs operations. The last two share only plain data: `operation` and `kernel_code`.

mod access_cost;
mod access_record;
mod allocation;
mod async_reads;
mod byte_marks;
mod checks;
mod counts;
mod decode;
mod error;
mod execute;
mod host_sums;
mod kernel_code;
mod lanes;
mod latency;
mod layout;
mod memory;
mod module;
mod numeric;
mod operation;
mod parse;
mod shadow;
mod step_counts;
mod swizzle;
mod tensor_map;
#[cfg(test)]
mod tests;
mod trace;
mod types;
mod vector_clock;

pub use access_record::AccessRecord;
pub use allocation::{MemoryError, WriteTracking};
pub use checks::{ExecutionCheck, ExecutionChecks, Violation, ViolationKind};
pub use counts::{AccessSite, Counts, InstructionClass, MemoryCounts, WarpClocks};
pub use error::{PtxError, SourceLine};
pub use execute::{
    BlockSelection, CountingMode, KernelParameter, LaunchError, LaunchOptions, launch,
};
pub use host_sums::add_products;
pub use memory::{Elements, GlobalMemory};
pub use module::{Facts, PtxKernel, PtxLoadError, PtxModule};
pub use trace::{MemoryAccess, Movement};
