//! Errors of a product.

use thiserror::Error;

use crate::compile::CompileError;
use crate::export::BundleError;
use crate::gpu::GpuError;
use crate::lookup::NoAnswer;
use crate::model::storage::StorageError;
use crate::model::{Dtype, EpilogueOp};
use crate::render::RenderError;

/// Errors of a product.
#[derive(Debug, Error)]
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
    /// The database has no kernel for the problem.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// The kernel cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The kernel does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
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
    /// The driver returned an error.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}
