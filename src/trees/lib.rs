//! Gradient-boosted regression trees, by which gemm-tune predicts the times of kernels.
//!
//! A crate of its own, because tests make millions of predictions and compile the rest with little optimisation; the program
//! uses it as a room.

#[path = "mod.rs"]
pub mod trees;
