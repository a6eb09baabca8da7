//! The cpu device of gemm-tune: executes PTX on the host's processor.
//!
//! A crate of its own, so that tests execute kernels in optimised code while the program is compiled fast.

#[path = "mod.rs"]
pub mod cpu;

pub use gemm_tune_model::model;
