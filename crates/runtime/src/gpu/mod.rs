//! The CUDA driver: contexts of embedding programs, kernels loaded into them, launches, tensor maps and errors.
//!
//! gemm-tune's worker uses these too. Only cudarc's declarations (`sys`) are used here: its safe layer adds events to
//! launches, and it panics when the library or a symbol is missing. Every symbol in use is looked up when the library is
//! opened, so that an old driver is an ordinary error.

mod cubin;
mod error;
mod foreign;
mod function;
mod library;
mod stream;
mod tensor_map;

pub use cubin::check_cubin;
pub use error::{GpuError, check, failed, require_symbols};
pub use foreign::{ForeignBuffer, ForeignContext, ForeignKernel};
pub use function::{KernelArgument, LoadedFunction, figure};
pub use library::{SYMBOLS, describe, device_count};
pub use stream::Stream;
pub use tensor_map::{EncodedMap, encode};
