//! Errors of a device operation.

use thiserror::Error;

/// Error of a device operation.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum WorkerError {
    /// The driver rejected the operation or the kernel faulted.
    #[error("{message}")]
    Device {
        /// The driver's message.
        message: String,
        /// Whether the context is lost, which requires a new worker.
        sticky: bool,
    },
    /// There is no GPU, or no driver for one.
    #[error("{message}")]
    NoDevice {
        /// The driver's message, or the missing file.
        message: String,
    },
    /// The device has too little free memory.
    #[error("{message}")]
    OutOfMemory {
        /// Message with the figures.
        message: String,
    },
    /// The deadline passed; the worker was killed.
    #[error("the device did not answer within {seconds:.1} s")]
    TimedOut {
        /// The deadline.
        seconds: f64,
    },
    /// The caller's flag ended the operation.
    #[error("it was interrupted")]
    Interrupted,
    /// The worker process ended.
    #[error("the GPU worker ended unexpectedly ({how})")]
    Exited {
        /// Exit status and last error output.
        how: String,
    },
    /// The worker could not be started, or has another protocol version.
    #[error("the GPU worker could not be started: {why}")]
    Unavailable {
        /// The reason.
        why: String,
    },
}

impl WorkerError {
    /// Whether the worker must be restarted before the next operation.
    pub fn ends_worker(&self) -> bool {
        match self {
            Self::Device { sticky, .. } => *sticky,
            Self::OutOfMemory { .. } | Self::NoDevice { .. } | Self::Interrupted => false,
            Self::TimedOut { .. } | Self::Exited { .. } | Self::Unavailable { .. } => true,
        }
    }
}
