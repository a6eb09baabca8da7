//! Tests of the whole device: kernels of this program, compiled by NVRTC and executed.

mod arithmetic;
mod clusters;
mod counting;
mod families;
mod harness;
mod instructions;
mod modules;
mod mutants;
mod rare_instructions;
mod robustness;
mod snippet;
mod tensor_copies;
mod validation;
mod violations;
