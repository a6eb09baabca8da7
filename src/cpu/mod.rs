//! A device made of this host's processor: executes the PTX that NVRTC emits, block by block and
//! warp by warp, checks every access and counts what a GPU would have moved.
//!
//! It gives the results of a kernel, not its speed. What PTX leaves open it decides in one way:
//! warps of a block run in turn, each until it waits. Not here: finding a compiler (`compile`), the
//! launch plan of a configuration (`model`), what results are compared with (`validate`).
//!
//! A text becomes a [`Program`] once; [`launch`] runs one of its kernels on a [`Memory`].

mod checks;
mod counts;
mod decode;
mod error;
mod execute;
mod layout;
mod map;
mod memory;
mod numeric;
mod operation;
mod parse;
mod program;
mod shadow;
#[cfg(test)]
mod tests;
mod trace;
mod types;

pub use checks::{Check, Checks, Violation, ViolationKind};
pub use counts::{AccessSite, Counts, InstructionClass, MemoryCounts};
pub use error::{PtxError, SourceLine};
pub use execute::{Blocks, Counting, LaunchError, Options, Parameter, launch};
pub use memory::{Memory, MemoryError, Tracking};
pub use program::{Facts, Kernel, LoadError, Program};
pub use trace::{Access, Movement};
