//! Finds the fastest correct CUDA kernel for a matrix multiplication on the GPU in this machine.
//!
//! The modules are the rooms of one house, in the order in which data walks through them; a room
//! uses the rooms before it, never one after it (`ARCHITECTURE.md` has the map).

pub mod compile;
pub mod model;
