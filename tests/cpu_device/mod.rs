//! Kernels of this program and others, compiled by NVRTC and executed on the cpu device: results, counts, and what
//! the checks report of planted faults. `src/cpu/tests` has the tests that need no compiler.

mod cluster_sums;
mod clusters;
mod contracts;
mod counting;
mod families;
mod harness;
mod mutants;
mod rounded_operands;
mod tensor_products;
mod validation;
mod warpgroups;
