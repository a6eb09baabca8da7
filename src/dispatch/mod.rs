//! A few kernels for many shapes, and a decision tree that says which: chosen from a table of measured
//! times, shapes x kernels. Pure: who measures, reads and writes is not known here.
//!
//! [`TimeTable`] holds the times, [`cover()`] finds the smallest set of kernels whose loss is small enough,
//! [`DispatchNode::fit`] grows the tree, and [`Dispatch::of`] does all that and says what it costs on shapes that
//! the tree has not seen.

mod cover;
mod set;
mod table;
#[cfg(test)]
mod tests;
mod tree;

pub use cover::{CoverError, CoverGoal, KernelCover, cover};
pub use set::{Dispatch, DispatchLoss};
pub use table::{DispatchKernel, SCHEMA, TimeTable, TimeTableError};
pub use tree::{Dimension, DispatchNode};
