//! Error of a launch.

use thiserror::Error;

use crate::cpu::checks::Violation;

/// Error of a launch.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum LaunchError {
    /// The kernel committed a violation. With violations in several blocks, the first in the order
    /// of execution.
    #[error(transparent)]
    Violation(#[from] Box<Violation>),
    /// The caller's flag ended it.
    #[error("the execution was interrupted")]
    Interrupted,
    /// The arguments do not match the kernel's parameters.
    #[error("kernel `{kernel}` is launched with {given}, but takes {expected}")]
    Arguments {
        /// Name of the kernel.
        kernel: String,
        /// Sizes of the arguments.
        given: String,
        /// Sizes of the parameters.
        expected: String,
    },
    /// The launch exceeds a limit of CUDA devices.
    #[error("kernel `{kernel}` cannot be launched: {what}")]
    Limit {
        /// Name of the kernel.
        kernel: String,
        /// The violated limit, with figures.
        what: String,
    },
}
