//! Errors of a product.

use thiserror::Error;

use crate::compile::CompileError;
use crate::export::BundleError;
use crate::gpu::GpuError;
use crate::lookup::NoAnswer;
use crate::model::storage::StorageError;
use crate::render::RenderError;

/// Why there is no product.
#[derive(Debug, Error)]
pub enum RuntimeError {
    /// The bundle is not whole.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The bundle has nothing for the problem.
    #[error("no kernel of the bundle is right for {problem}{}: export it again with more records", .storage)]
    NoKernel {
        /// The problem.
        problem: String,
        /// How it is stored, where that is not packed.
        storage: String,
    },
    /// The database has nothing for the problem.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// Its kernel has no source.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Or does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The operands cannot lie so.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The launch is beyond what any device takes.
    #[error("{problem} needs a launch that no device takes: {what}")]
    Launch {
        /// The problem.
        problem: String,
        /// Which limit.
        what: String,
    },
    /// The GPU refuses.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}
