//! What tuning needs besides a problem: kernels to choose from, a compiler and a machine.

use std::sync::Arc;

use super::machine::Machine;
use crate::compile::{Compile, CompileThreads};
use crate::predict::Predictor;
use crate::render::Templates;
use crate::space::Family;

/// Kernels to choose from, a compiler and a machine.
pub struct Kit {
    /// The families to choose from.
    pub families: Vec<Family>,
    /// Their templates.
    pub templates: Templates,
    /// The compiler for the device's architecture: to cubins for a GPU, to PTX for the host.
    pub compiler: Arc<dyn Compile>,
    /// The threads that compile. Other kits may share them.
    pub threads: CompileThreads,
    /// What executes candidates.
    pub machine: Machine,
    /// Gives times on the cpu device, which measures none, for families that it has a learned model of.
    pub predictor: Arc<Predictor>,
}
