//! Dispatch: a few kernels for many shapes, and the decision tree that selects among them, fitted
//! to a table of measured times (shapes x kernels). Pure: this room measures, reads and writes
//! nothing.
//!
//! [`TimeTable`] holds the times. [`cover()`] finds the smallest set of kernels with a small enough
//! loss. `tree` grows the tree. [`Dispatch::of`] combines both and reports the loss
//! on held-out shapes.

mod cover;
mod set;
mod table;
#[cfg(test)]
mod tests;
mod tree;

pub use cover::{CoverError, CoverGoal, KernelCover, cover};
pub use gemm_tune_runtime::dispatch_tree::{Dimension, DispatchNode};
pub use set::{Dispatch, DispatchLoss};
pub use table::{DispatchKernel, SCHEMA, TimeTable, TimeTableError};
