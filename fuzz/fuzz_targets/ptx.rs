//! Any text is a program or an error, and a program's kernels run to an end or a violation.

#![no_main]

use gemm_tune::cpu::{Checks, Counting, Memory, Options, Parameter, Program, Tracking, launch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(program) = Program::parse(text) else { return };
    let mut memory = Memory::new(Tracking::Written);
    let Ok(address) = memory.allocate(4096) else { return };
    let options = Options {
        checks: Checks::ALL,
        counting: Counting::On,
        instruction_budget: 10_000,
        ..Options::default()
    };
    for kernel in program.kernels() {
        let value = |bytes: &u64| if *bytes == 8 { Parameter::Long(address) } else { Parameter::Word(8) };
        let parameters: Vec<_> = kernel.facts().parameters.iter().map(value).collect();
        // Whatever comes of it, it comes.
        let _ = launch(kernel, ([1, 1, 1], [40, 1, 1]), 256, &parameters, &memory, &options);
    }
});
