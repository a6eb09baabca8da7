//! Finds the fastest correct CUDA kernel for a matrix multiplication on the GPU in this machine.
//!
//! A program that knows its shapes at run time asks [`lookup::Lookup`] for the kernel. It needs no GPU for that:
//!
//! ```
//! use gemm_tune::lookup::{Lookup, Question};
//! use gemm_tune::model::{Device, Dtype, Problem, Regime};
//! use gemm_tune::predict::{LearnedModel, Predictor};
//! use gemm_tune::render::{Templates, launches};
//! use gemm_tune::space::{Families, Family};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::h200();
//! let families: Vec<Family> = Families::built_in()?.iter().cloned().collect();
//! let templates = Templates::built_in()?;
//! let (predictor, _notes) = Predictor::new(LearnedModel::built_in(&device)?, &families, &templates);
//!
//! // Records of `gemm_tune::database::Database` go into the first argument; without any, predictions decide.
//! let lookup = Lookup::new([], &families, &templates, &device, Regime::default()).with_predictor(predictor);
//!
//! let problem = Problem::new("960x1100x2048".parse()?, Dtype::F32);
//! let question = Question::packed(problem);
//! let answer = lookup.answer(&question)?;
//! println!("{} {}, because {}", answer.family.name, answer.configuration, answer.because());
//! # assert!(answer.predicted.is_some());
//!
//! // The launches of the kernel: grid, block, shared memory, arguments.
//! let plan = launches(answer.family, answer.configuration, &question.problem, &question.storage, &device)?;
//! assert!(!plan.kernels.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! [`tune::tune()`] tunes one problem and [`session::run()`] several; `examples/session.rs` runs one on the host. [`runtime`] multiplies
//! with the kernels of a bundle or database on a user's CUDA stream.
//!
//! The modules are layers, here called rooms. A room uses the rooms before it in this list, never one after it: `files`,
//! `quote`, `model`, `arithmetic`, `space`, `process`, `render`, `compile`, `gpu`, `cpu`, `worker`, `validate`, `measure`, `predict`,
//! `search`, `tune`, `database`, `lookup`, `session`, `dispatch`, `export`, `runtime`, `inspect`, `report`, `cli`.
//! `ARCHITECTURE.md` has the map.

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
pub use gemm_tune_trees::trees;
