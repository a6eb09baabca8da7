//! Errors of a launch.

use thiserror::Error;

use crate::cpu::checks::Violation;

/// A launch that did not come to its end.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum LaunchError {
    /// The kernel did something wrong. Of several blocks, the first in the order of execution
    /// that did.
    #[error(transparent)]
    Violation(#[from] Box<Violation>),
    /// The arguments are not those of the kernel.
    #[error("kernel `{kernel}` is called with {given}, but takes {wanted}")]
    Arguments {
        /// The kernel.
        kernel: String,
        /// The sizes of what it was called with.
        given: String,
        /// The sizes of its parameters.
        wanted: String,
    },
    /// No device accepts the launch.
    #[error("kernel `{kernel}` cannot be launched: {what}")]
    Limit {
        /// The kernel.
        kernel: String,
        /// Which limit is broken, with the figures.
        what: String,
    },
}
