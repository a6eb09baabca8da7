//! Compilation of CUDA source to machine code: finds or installs NVRTC, compiles in parallel, and
//! caches the results on disk.
//!
//! Rendering comes before this room and loading a cubin after it; compiling needs no driver. The
//! room reads no environment variable and prints nothing. Callers pass in search paths and receive
//! events, errors and warnings as values.
//!
//! In the order of a run: [`acquire()`] opens an [`Nvrtc`], a [`Compiler`] puts a [`CubinCache`] in
//! front of it, and a [`CompilePool`] runs that on several threads. Each thread compiles in this process
//! or, at the caller's choice, in a child process ([`children`]).

pub mod acquire;
pub mod cache;
pub mod children;
pub mod compiler;
pub mod disassemble;
pub mod errors;
pub mod fingerprint;
mod in_flight;
pub mod includes;
pub mod libraries;
pub mod nvrtc;
pub mod pool;
pub mod provide;
mod releases;
pub mod resources;
pub mod target;
mod threads;
mod warpgroup_products;
mod wheel;

pub use acquire::{AcquireError, NvrtcRequirements, Rejection, acquire};
pub use cache::{CacheStats, CacheWarning, CubinCache};
pub use children::CompileChildren;
pub use compiler::{Compile, CompileError, CompileRequest, Compiled, Compiler};
pub use disassemble::{DisassembleError, disassemble};
pub use errors::{located_error, located_log};
pub use fingerprint::Fingerprint;
pub use libraries::SearchPaths;
pub use nvrtc::{Nvrtc, NvrtcError};
pub use pool::{CompilePool, CompileResult};
pub use provide::{Network, ProvideError, ProvideEvent, Tool};
pub use resources::KernelResources;
pub use target::{Architecture, CompileTarget, Features};
pub use threads::{CompileThreads, ThreadsError};
pub use warpgroup_products::lost_overlap;
pub use wheel::WheelError;

#[cfg(test)]
pub(crate) mod testing;
