//! Any text is a program or a located error, and a program's kernels run to an end or a violation.
//!
//! Half of the mutations work on lines and words (`mutation.rs`): bytes alone seldom hit another
//! instruction that is understood.

#![no_main]

mod mutation;

use gemm_tune::cpu::{
    CountingMode, ExecutionChecks, GlobalMemory, KernelParameter, LaunchOptions, PtxLoadError,
    PtxModule, WriteTracking, launch,
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|text: &str| {
    match PtxModule::parse(text) {
        Ok(program) => run(&program),
        Err(PtxLoadError::Ptx(error)) => {
            // Behind the last line there may be an end that was not expected.
            let lines = text.lines().count() as u32 + 1;
            assert!((1..=lines).contains(&error.line()), "{error}");
        }
        Err(PtxLoadError::Memory(error)) => panic!("{error}"),
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let text = std::str::from_utf8(&data[..size]).unwrap_or("");
    if seed % 2 == 0 || text.is_empty() {
        return fuzzer_mutate(data, size, max_size);
    }
    let mutated = mutation::mutated(text, &mut fastrand::Rng::with_seed(seed.into()));
    let kept = mutated.len().min(max_size);
    data[..kept].copy_from_slice(&mutated.as_bytes()[..kept]);
    kept
});

/// Runs every kernel with two warps, the second not whole, and everything watched. Whatever comes
/// of it is a result or a violation.
fn run(program: &PtxModule) {
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let Ok(address) = memory.allocate(4096) else { return };
    let options = LaunchOptions {
        checks: ExecutionChecks::ALL,
        counting: CountingMode::On,
        instruction_budget: 10_000,
        ..LaunchOptions::default()
    };
    for kernel in program.kernels() {
        let value = |bytes: &u64| {
            if *bytes == 8 { KernelParameter::Long(address) } else { KernelParameter::Word(8) }
        };
        let parameters: Vec<_> = kernel.facts().parameters.iter().map(value).collect();
        let _ = launch(kernel, ([1, 1, 1], [40, 1, 1]), 256, &parameters, &memory, &options);
    }
}
