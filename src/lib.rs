//! Finds the fastest correct CUDA kernel for a matrix multiplication on the GPU in this machine.
//!
//! The modules are layers, here called rooms. A room uses the rooms before it in this list, never one after it: `files`,
//! `quote`, `model`, `space`, `process`, `render`, `compile`, `gpu`, `cpu`, `worker`, `validate`, `measure`, `predict`, `search`, `tune`, `database`,
//! `lookup`, `session`, `dispatch`, `export`, `runtime`, `inspect`, `report`, `cli`. `ARCHITECTURE.md` has the map.
//!
//! Programs that embed the crate tune one problem with [`tune::tune()`] and several with [`session::run()`], and find a kernel
//! for any problem with [`lookup::Lookup`].

pub mod arithmetic;
pub mod cli;
pub mod compile;
pub mod database;
pub mod dispatch;
pub mod export;
pub mod files;
pub mod gpu;
pub mod inspect;
pub mod lookup;
pub mod measure;
pub mod predict;
pub mod process;
pub mod quote;
pub mod render;
pub mod report;
pub mod runtime;
pub mod search;
pub mod session;
pub mod space;
pub mod tune;
pub mod validate;
pub mod worker;

#[cfg(test)]
#[path = "../tests/support/cases.rs"]
mod cases;

pub use gemm_tune_cpu::cpu;
pub use gemm_tune_model::model;
