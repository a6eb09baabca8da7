//! Whether a kernel's results are right: operands that can be made again anywhere, a reference in
//! f64 on the device, an error bound that grows with K as the error analysis says, an exact run on
//! small integers, and guard zones around everything. A wrong kernel is an outcome, not an error.
//!
//! Nothing is timed here. The device's part is `kernels.cu`, driven through an
//! [`Executor`](crate::worker::Executor).

pub mod bound;
pub mod inputs;
mod launches;
pub mod reference;
mod validator;
mod zone;

pub use launches::{KERNELS, compile_options};
pub use validator::{Subject, Validator};
pub use zone::{GUARD_BYTES, Zone};
