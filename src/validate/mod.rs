//! Whether a kernel's results are right: operands that can be made again anywhere, a reference in
//! f64 on the device, an error bound that grows with K as the error analysis says, an exact run on
//! small integers, and guard zones around everything. A wrong kernel is an outcome, not an error.
//!
//! Nothing is timed here. On a GPU the device's part is `kernels.cu`, driven through an
//! [`Executor`](crate::worker::Executor); what the `cpu` device executes is judged by the host.

pub mod bound;
mod host;
pub mod inputs;
mod launches;
pub mod reference;
mod region;
mod sample;
mod trial;
mod validator;
mod zone;

pub use host::{Executed, HostFailure, HostValidator};
pub use launches::{KERNELS, compile_options};
pub use sample::Places;
pub use validator::{Subject, Validator};
pub use zone::{GUARD_BYTES, Zone};
