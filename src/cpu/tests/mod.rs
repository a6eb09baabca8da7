//! Tests of the device as a whole: kernels of this program, compiled by NVRTC and executed.

mod arithmetic;
mod clusters;
mod counting;
mod engine;
mod families;
mod instructions;
mod modules;
mod mutants;
mod rare;
mod rig;
mod robustness;
mod snippet;
mod validation;
mod violations;
