//! Validation of kernel results: reproducible operands, an f64 reference on the device, an error
//! bound that grows with K, an exact run on small integers, and guard bytes around every buffer. A
//! wrong kernel is an outcome, not an error.
//!
//! Nothing is timed here. On a GPU the device's part is `kernels.cu`, run through an
//! [`Executor`](crate::worker::Executor); results of the `cpu` device are checked on the host.

mod element;
mod guarded_buffer;
mod host;
mod host_launches;
pub mod inputs;
mod kernels;
mod matrix;
mod parts;
mod readback;
pub mod reference;
mod references;
mod region;
mod run;
mod sample;
mod sequence;
mod validator;

pub use guarded_buffer::{GUARD_BYTES, GuardedBuffer};
pub use host::{ExecutedCandidate, HostFailure, HostValidator};
pub use kernels::{KERNELS, compile_options};
pub use sample::BlockCoverage;
pub use validator::{ValidationSubject, Validator};
