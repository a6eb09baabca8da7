//! libFuzzer's entry to the parser `trace`, with the mutations of `fuzz/targets` beside its own.

#![no_main]
#![allow(dead_code, reason = "one of the targets is used")]

#[path = "../targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|case: &[u8]| {
    let target = targets::TARGETS.iter().find(|target| target.name == "trace");
    (target.expect("a target").run)(case);
});

libfuzzer_sys::fuzz_mutator!(|case: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed % 2 == 0 {
        return libfuzzer_sys::fuzzer_mutate(case, size, max_size);
    }
    let mut random = fastrand::Rng::with_seed(seed.into());
    let changed = targets::mutation::mutated(&case[..size], &case[..size], &mut random);
    let kept = changed.len().min(max_size);
    case[..kept].copy_from_slice(&changed[..kept]);
    kept
});
