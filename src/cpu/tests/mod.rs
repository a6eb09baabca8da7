//! Tests of the device as a whole: kernels of this program, compiled by NVRTC and executed.

mod counting;
mod families;
mod mutants;
mod rig;
mod robustness;
mod validation;
