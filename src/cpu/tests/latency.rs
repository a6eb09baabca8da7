//! Clocks of warps that no other delays, of statements whose dependencies are known.

use super::snippet::kernel;
use crate::cpu::{
    CountingMode, GlobalMemory, KernelParameter, LaunchOptions, PtxModule, WarpClocks,
    WriteTracking, launch,
};

/// Clocks and waits that statements add to an empty kernel, in a block of `threads` threads.
fn added(body: &str, threads: u32) -> (f64, f64) {
    let (own, empty) = (clocks(body, threads), clocks("", threads));
    (own.own - empty.own, own.waits - empty.waits)
}

fn clocks(body: &str, threads: u32) -> WarpClocks {
    let program = PtxModule::parse(&kernel("", body)).unwrap();
    let mut memory = GlobalMemory::new(WriteTracking::Off);
    let out = memory.allocate(8192).unwrap();
    let options = LaunchOptions { counting: CountingMode::On, ..LaunchOptions::default() };
    let extents = ([1, 1, 1], [threads, 1, 1]);
    let parameters = [KernelParameter::Long(out)];
    launch(program.kernel("k").unwrap(), extents, 0, &parameters, &memory, &options)
        .unwrap()
        .warp_clocks
}

const CHAIN: &str = "fma.rn.f32 %f1, %f1, %f1, %f1;";

#[test]
fn dependent_instructions_wait_for_each_other_and_others_do_not() {
    let [(short, _), (long, waits)] = [16, 32].map(|count| added(&CHAIN.repeat(count), 32));
    assert!((long - short - 64.0).abs() <= 4.0 && waits == 0.0, "{short} {long} {waits}");
    // They fit beside the wait for the kernel's parameter.
    let independent: String =
        (1..=16).map(|at| format!("fma.rn.f32 %f{at}, %f0, %f0, %f0;")).collect();
    let (own, waits) = added(&independent, 32);
    assert!(own < 8.0 && waits == 0.0, "{own} {waits}");
}

#[test]
fn loads_that_are_used_at_once_wait_and_loads_together_wait_once() {
    let load = |at: u32| format!("ld.global.f32 %f{at}, [%rd1+{}];", 4 * at);
    let use_of = |at: u32| format!("add.f32 %f20, %f{at}, %f{at};");
    let together: String = (1..=4).map(load).chain((1..=4).map(use_of)).collect();
    let (_, waits) = added(&together, 32);
    assert!((0.8..=1.1).contains(&waits), "{waits}");
    let addresses: String = (1..=4)
        .map(|_| {
            "ld.global.u32 %r1, [%rd1]; and.b32 %r1, %r1, 0; cvt.u64.u32 %rd3, %r1; add.s64 %rd1, %rd1, %rd3;"
        })
        .collect();
    let (_, waits) = added(&addresses, 32);
    assert!((3.7..=4.3).contains(&waits), "each address depends on the load before: {waits}");
}

#[test]
fn a_loop_counts_every_pass_and_what_a_pass_waits_for() {
    let looped = |body: &str| {
        format!(
            "mov.u32 %r2, 0; $L: {body} add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 10; @%p1 bra $L;"
        )
    };
    let (own, _) = added(&looped(&CHAIN.repeat(8)), 32);
    assert!((300.0..=360.0).contains(&own), "ten passes of eight dependent steps: {own}");
    // Stored in the pass that loads it, and in the next one, when it has arrived.
    let at_once = "ld.global.f32 %f1, [%rd1]; st.shared.f32 [s], %f1;";
    let (_, waits) = added(&looped(at_once), 32);
    assert!((9.0..=10.5).contains(&waits), "{waits}");
    let work: String = CHAIN.replace("%f1", "%f2").repeat(200);
    let ahead = format!("st.shared.f32 [s], %f1; ld.global.f32 %f1, [%rd1]; {work}");
    let (_, waits) = added(&looped(&ahead), 32);
    assert!(waits < 1.0, "{waits}");
}

#[test]
fn steps_stay_on_their_side_of_a_barrier() {
    let (_, apart) = added("ld.global.f32 %f1, [%rd1]; bar.sync 0; st.shared.f32 [s], %f1;", 64);
    assert!((0.8..=1.1).contains(&apart), "the wait crosses the barrier: {apart}");
    let chain = CHAIN.repeat(16);
    let other = chain.replace("%f1", "%f2");
    let (overlapped, _) = added(&format!("{chain}{other}"), 64);
    let (fenced, _) = added(&format!("{chain} bar.sync 0; {other}"), 64);
    assert!(fenced > 1.5 * overlapped, "{fenced} {overlapped}");
}

#[test]
fn the_warps_that_do_most_count() {
    let body = format!(
        "setp.ge.u32 %p1, %r0, 32; @%p1 bra $END; mov.u32 %r2, 0; $L: {} add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 10; @%p2 bra $L; $END:",
        CHAIN.repeat(8)
    );
    let (alone, _) = added(&body, 32);
    let (among_eight, _) = added(&body, 256);
    assert!((alone - among_eight).abs() < 0.1 * alone, "{alone} {among_eight}");
}
