//! Errors of a product.

use thiserror::Error;

use crate::gpu::GpuError;
use crate::model::storage::StorageError;
use crate::model::{Dtype, EpilogueOp};
use crate::opening::BundleError;

/// Errors of a product.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The bundle is damaged.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The bundle has no kernel for the problem.
    #[error("the bundle has no kernel for {problem}{}: export it again with more records", .storage)]
    NoKernel {
        /// The problem.
        problem: String,
        /// Its storage and its memory for workspaces, where they are not as usual.
        storage: String,
    },
    /// A source of kernels other than a bundle has none for the problem, or cannot make it.
    #[error(transparent)]
    Source(Box<dyn std::error::Error + Send + Sync>),
    /// The storage of the operands is not possible.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A factor is none of the problem's type.
    #[error("{name} is {value}: give a whole number of 32 bits for i32")]
    Factor {
        /// `alpha` or `beta`.
        name: &'static str,
        /// The given value.
        value: f64,
    },
    /// An operation of the epilogue lacks its operand.
    #[error(
        "the epilogue's `{operation}` has the address {address}: give the address of its operand of {dtype} in device memory"
    )]
    EpilogueOperand {
        /// The operation.
        operation: EpilogueOp,
        /// The given address; 0 for none.
        address: u64,
        /// Dtype of the operand.
        dtype: Dtype,
    },
    /// C in a buffer of its own cannot be read.
    #[error(
        "C is at {address} with rows of {ldc} elements: give the address of an element, rows of at least {n}, and those of D in its place"
    )]
    SeparateC {
        /// The given address.
        address: u64,
        /// The given elements from a row to the next.
        ldc: u64,
        /// Elements of a row.
        n: u64,
    },
    /// The launch exceeds the limits of every device.
    #[error("{problem} needs a launch that no device supports: {what}")]
    Launch {
        /// The problem.
        problem: String,
        /// The exceeded limit.
        what: String,
    },
    /// A slice has elements of another dtype.
    #[error(
        "{operand} has elements of {given}, and the problem needs {needed}: give a slice of {needed}, or a problem of these types"
    )]
    WrongDtype {
        /// The operand.
        operand: &'static str,
        /// Dtype of the given elements.
        given: Dtype,
        /// Dtype that the problem needs.
        needed: Dtype,
    },
    /// A slice has too few elements.
    #[error("{operand} has {given} elements, and the problem needs {needed}: give a longer slice")]
    TooShort {
        /// The operand.
        operand: &'static str,
        /// Number of elements of the slice.
        given: u64,
        /// Number of elements from the first to the last.
        needed: u64,
    },
    /// An operand belongs to another context than the kernels.
    #[error(
        "{operand} belongs to another CUDA context than the kernels: open the bundle in its context"
    )]
    OtherContext {
        /// The operand.
        operand: &'static str,
    },
    /// A factor is another one than the one that was packed.
    #[error("{operand} is not the factor that was packed: give the same one, or pack this one")]
    OtherFactor {
        /// The operand.
        operand: &'static str,
    },
    /// No slice was given for an operation of the epilogue.
    #[error("the epilogue's `{operation}` has no operand: give it with `Operands::with`")]
    MissingOperand {
        /// The operation.
        operation: EpilogueOp,
    },
    /// A slice was given for an operation that the epilogue does not have.
    #[error(
        "the problem's epilogue has no `{operation}`, whose operand was given: leave the operand out, or name the operation"
    )]
    UnusedOperand {
        /// The operation.
        operation: EpilogueOp,
    },
    /// Columns of a column-major matrix would overlap.
    #[error("{name} is {given}: columns of {operand} have {least} elements, give at least as many")]
    Columns {
        /// `lda`, `ldb` or `ldd`.
        name: &'static str,
        /// The given value.
        given: u64,
        /// The operand.
        operand: char,
        /// The elements of a column.
        least: u64,
    },
    /// The context was destroyed or closed.
    #[error(
        "the CUDA context of these kernels is gone ({call} gave {code}): open the bundle again in a context that lives"
    )]
    ContextLost {
        /// The function that found out.
        call: &'static str,
        /// The error's name.
        code: String,
    },
    /// The bundle has no code for the device.
    #[error(
        "the bundle has no code for {device} ({architecture}): it has {code}; export it again with `--arch {architecture}`"
    )]
    Device {
        /// Name of the device.
        device: String,
        /// Its architecture.
        architecture: String,
        /// Architectures of the bundle's code.
        code: String,
    },
    /// The driver returned an error.
    #[error(transparent)]
    Gpu(GpuError),
}

impl RuntimeError {
    /// An error of a source of kernels.
    #[doc(hidden)]
    pub fn of_source(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Source(Box::new(error))
    }
}

/// Names of errors of calls in a context that is gone.
const LOST: [&str; 3] =
    ["CUDA_ERROR_CONTEXT_IS_DESTROYED", "CUDA_ERROR_DEINITIALIZED", "CUDA_ERROR_INVALID_CONTEXT"];

impl From<GpuError> for RuntimeError {
    fn from(error: GpuError) -> Self {
        match error {
            GpuError::Call { call, code, .. } if LOST.contains(&code.as_str()) => {
                Self::ContextLost { call, code }
            }
            other => Self::Gpu(other),
        }
    }
}
