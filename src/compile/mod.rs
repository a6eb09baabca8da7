//! From CUDA source to machine code for the GPU at hand: finds NVRTC or provides it, compiles in
//! parallel, keeps what it compiled on disk.
//!
//! Not here: rendering a source (that comes before) and loading a cubin (that comes after; no
//! driver is needed to compile). The room reads no environment variable and prints nothing: its
//! callers pass in where to look, and receive events, errors and warnings as values.
//!
//! In the order of a run: [`acquire()`] opens an [`Nvrtc`], a [`Compiler`] puts a [`CubinCache`]
//! before it, and a [`CompilePool`] runs that on several threads.

pub mod acquire;
pub mod cache;
pub mod compiler;
pub mod disassemble;
pub mod fingerprint;
pub mod libraries;
pub mod nvrtc;
pub mod pool;
pub mod provide;
mod queue;
pub mod resources;
pub mod target;

pub use acquire::{AcquireError, Rejection, Wanted, acquire};
pub use cache::{CacheStats, CacheWarning, CubinCache};
pub use compiler::{Compile, CompileError, CompileRequest, Compiled, Compiler};
pub use disassemble::{DisassembleError, disassemble};
pub use fingerprint::Fingerprint;
pub use libraries::SearchPaths;
pub use nvrtc::{Nvrtc, NvrtcError};
pub use pool::{CompilePool, CompileResult, CompileThreads, PoolError};
pub use provide::{Network, ProvideError, ProvideEvent, Tool};
pub use resources::KernelResources;
pub use target::{Architecture, Target};

#[cfg(test)]
pub(crate) mod testing;
