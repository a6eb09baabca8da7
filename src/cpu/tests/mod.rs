//! Tests of the whole device on PTX texts. Kernels that NVRTC compiles are in `tests/cpu_device` of the program.

mod arithmetic;
mod clusters;
mod counting;
mod instructions;
mod latency;
mod modules;
mod programmatic_launches;
mod rare_instructions;
mod robustness;
mod snippet;
mod swizzles;
mod tensor_copies;
mod tensor_multicast;
mod tensor_stores;
mod violations;
mod warpgroup_compiled;
mod warpgroup_kernel;
mod warpgroup_pipeline;
mod warpgroup_products;
mod warpgroup_violations;

use super::{ExecutionChecks, LaunchOptions};

/// Options with all checks.
fn checked() -> LaunchOptions {
    LaunchOptions {
        checks: ExecutionChecks::ALL,
        instruction_budget: 1 << 24,
        ..LaunchOptions::default()
    }
}
