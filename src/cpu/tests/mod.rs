//! Tests of the device as a whole: kernels of this program, compiled by NVRTC and executed.

mod arithmetic;
mod counting;
mod families;
mod instructions;
mod mutants;
mod rig;
mod robustness;
mod validation;
mod violations;
