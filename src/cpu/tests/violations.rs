//! Violations that each check reports, and valid kernels that it accepts. Needs no compiler.

use crate::cpu::{
    ExecutionCheck, ExecutionChecks, GlobalMemory, KernelParameter, LaunchError, LaunchOptions,
    PtxModule, Violation, ViolationKind, WriteTracking, launch,
};
use ViolationKind::{
    BarrierDivergence, Deadlock, Misaligned, OutOfBounds, Race, Runaway, Trap, Unwritten,
};

/// Runs a block of 64 threads with 1024 bytes of shared and of global memory, all unwritten.
fn outcome(body: &str, checks: ExecutionChecks) -> Result<(), Box<Violation>> {
    let text = format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{{\n\
         .reg .pred %p<9>;\n.reg .b32 %r<30>;\n.reg .b64 %rd<30>;\n\
         .shared .align 16 .b8 s[1024];\n.shared .align 16 .b8 t[1024];\n\
         ld.param.u64 %rd1, [out];\nmov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 2;\n\
         mov.u32 %r2, s;\nadd.u32 %r2, %r2, %r1;\nsetp.eq.u32 %p1, %r0, 0;\n\
         setp.lt.u32 %p2, %r0, 32;\n.loc 1 7 3\n{body}\nret;\n}}\n.file 1 \"kernel.cu\"\n"
    );
    let program = PtxModule::parse(&text).unwrap_or_else(|error| panic!("{body}: {error}"));
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let out = memory.allocate(1024).unwrap();
    let options = LaunchOptions { checks, instruction_budget: 1 << 16, ..LaunchOptions::default() };
    let kernel = program.kernel("k").unwrap();
    let extents = ([1, 1, 1], [64, 1, 1]);
    match launch(kernel, extents, 0, &[KernelParameter::Long(out)], &memory, &options) {
        Ok(_) => Ok(()),
        Err(LaunchError::Violation(violation)) => Err(violation),
        Err(other) => panic!("{body}: {other}"),
    }
}

#[test]
fn every_kind_of_fault_is_reported_with_its_line() {
    for (body, kind, text) in [
        (
            "st.global.u32 [%rd1+1024], 0;",
            OutOfBounds,
            "1024 bytes past the start of an allocation of 1024",
        ),
        ("ld.global.u32 %r3, [0];", OutOfBounds, "no global memory is mapped at 0x0"),
        (
            "st.shared.u32 [s+1024], 0;",
            OutOfBounds,
            "1024 bytes past the start of `s`, which has 1024",
        ),
        ("st.shared.u32 [%r2+4096], 0;", OutOfBounds, "past the start of `s`"),
        ("ld.global.u32 %r3, [%rd1+2];", Misaligned, "2 bytes past a multiple of 4"),
        ("ld.global.u32 %r3, [%rd1];", Unwritten, "4 unwritten bytes of global memory"),
        ("ld.shared.u32 %r3, [%r2];", Unwritten, "4 unwritten bytes of shared memory"),
        (
            "red.global.add.f32 [%rd1], 0f3F800000;",
            Unwritten,
            "4 unwritten bytes of global memory are updated",
        ),
        (
            "red.global.add.v4.f32 [%rd1+8], {0f3F800000, 0f3F800000, 0f3F800000, 0f3F800000};",
            Misaligned,
            "past a multiple of 16",
        ),
        (
            "st.shared.u32 [s], %r0;",
            Race,
            "after lane 0 of warp 0 has written it at kernel.cu:7, with",
        ),
        (
            "st.shared.u32 [%r2], 0; bar.warp.sync -1; ld.shared.u32 %r3, [s];",
            Race,
            "lane 0 of warp 0",
        ),
        (
            "st.shared.u32 [%r2], 0; bar.sync 0; ld.shared.u32 %r3, [s]; st.shared.u32 [%r2], 1;",
            Race,
            "has read",
        ),
        ("@%p1 st.shared.u32 [s], 0; @!%p1 atom.shared.add.u32 %r3, [s], 1;", Race, "has written"),
        ("@%p1 bar.sync 0;", BarrierDivergence, "1 lanes of warp 0 wait here while 31"),
        (
            "@%p2 bra $A; bar.sync 0; bra.uni $B; $A: bar.sync 0; $B:",
            BarrierDivergence,
            "warp 0 waits at PTX line",
        ),
        (
            "@%p1 shfl.sync.bfly.b32 %r3, %r0, 1, 31, -1;",
            BarrierDivergence,
            "31 members of a lane exchange",
        ),
        ("@%p2 bar.sync 1, 64; bar.sync 0;", Deadlock, "barrier 1, 32 threads wait for 64 threads"),
        ("$L: bra.uni $L;", Runaway, "exceeds the budget of 65536 instructions"),
        ("trap;", Trap, "`trap`"),
    ] {
        let violation = *outcome(body, ExecutionChecks::ALL).expect_err(body);
        assert_eq!(violation.kind, kind, "{body}: {violation}");
        assert!(violation.text.contains(text), "{body}: {violation}");
        let line = violation.source_line.as_ref().map(|line| (&*line.file, line.line));
        assert_eq!(line, Some(("kernel.cu", 7)), "{violation}");
        assert_eq!(violation.ptx_line, 19, "{violation}");
    }
}

#[test]
fn a_race_names_the_variable_and_the_line_of_the_other_access() {
    let body = ".loc 1 3 1\nst.shared.u32 [%r2], 0;\n.loc 1 5 1\nld.shared.u32 %r3, [s+8];";
    let violation = outcome(body, ExecutionChecks::ALL).expect_err(body).to_string();
    let text = "shared memory (byte 8 of `s`) is read after lane 2 of warp 0 has written it at kernel.cu:3, with no barrier \
                in between (kernel `k`, kernel.cu:5, PTX line";
    assert!(violation.contains(text), "{violation}");
}

/// `f` of line 3 is inlined at line 5 of `g`, which is inlined at line 8, or also at line 9.
#[test]
fn a_fault_in_an_inlined_function_names_the_calls_up_to_the_kernel() {
    let call = |line: u32| format!(".loc 1 5 2, function_name g, inlined_at 1 {line} 3\n");
    for (calls, text) in [
        (call(8), "kernel.cu:3 (inlined at line 5, at line 8), PTX line"),
        (call(9) + &call(8), "kernel.cu:3 (inlined at line 5, at line 8 or line 9), PTX line"),
        (String::new(), "kernel.cu:3 (inlined at line 5), PTX line"),
        // A function that calls itself has no outermost call.
        (".loc 1 5 2, function_name f, inlined_at 1 5 2\n".to_owned(), "at line 5, at line 5, "),
    ] {
        let access = ".loc 1 3 1, function_name f, inlined_at 1 5 2\nld.shared.u32 %r3, [%r2];";
        let body = calls + access;
        let violation = outcome(&body, ExecutionChecks::ALL).expect_err(&body).to_string();
        assert!(violation.contains(text), "{violation}");
    }
}

#[test]
fn ordered_accesses_are_valid() {
    for body in [
        "st.shared.u32 [%r2], 0; bar.sync 0; ld.shared.u32 %r3, [s];",
        // A single warp needs only the warp barrier.
        "@!%p2 exit; st.shared.u32 [%r2], 0; bar.warp.sync -1; ld.shared.u32 %r3, [s];",
        "@%p1 st.shared.u32 [s], 0; bar.sync 0; atom.shared.add.u32 %r3, [s], 1;",
        // All threads add to one word.
        "@%p1 st.global.u32 [%rd1], 0; bar.sync 0; red.global.add.f32 [%rd1], 0f3F800000;",
        // Bytes of one word by different threads.
        "mov.u32 %r4, s; add.u32 %r4, %r4, %r0; st.shared.u8 [%r4], 0;",
        // The first warp arrives, the second waits.
        "@%p2 bra $A; bar.sync 1, 64; ld.shared.u32 %r3, [s]; exit; $A: st.shared.u32 [%r2], 0; bar.arrive 1, 64;",
        // The first warp ends; the barrier no longer waits for it.
        "@%p2 exit; bar.sync 0;",
    ] {
        outcome(body, ExecutionChecks::ALL)
            .unwrap_or_else(|violation| panic!("{body}: {violation}"));
    }
}

#[test]
fn a_check_that_is_off_reports_nothing() {
    for (body, check) in [
        ("ld.shared.u32 %r3, [%r2];", ExecutionCheck::Unwritten),
        ("ld.global.u32 %r3, [%rd1];", ExecutionCheck::Unwritten),
        ("st.shared.u32 [s], %r0;", ExecutionCheck::Race),
        ("@%p2 bra $A; bar.sync 0; bra.uni $B; $A: bar.sync 0; $B:", ExecutionCheck::Divergence),
    ] {
        outcome(body, ExecutionChecks::NONE)
            .unwrap_or_else(|violation| panic!("{body}: {violation}"));
        outcome(body, ExecutionChecks::NONE.with(check)).expect_err(body);
    }
}

#[test]
fn an_asynchronous_copy_arrives_when_it_is_waited_for() {
    let copy = "st.global.u32 [%rd1], 5; @%p1 cp.async.ca.shared.global [s], [%rd1], 4;";
    for (rest, expected) in [
        ("cp.async.wait_all; bar.sync 0; ld.shared.u32 %r3, [s];", None),
        ("cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; ld.shared.u32 %r3, [s];", None),
        (
            "cp.async.commit_group; cp.async.wait_group 1; bar.sync 0; ld.shared.u32 %r3, [s];",
            Some(Unwritten),
        ),
        ("bar.sync 0; ld.shared.u32 %r3, [s];", Some(Unwritten)),
        ("cp.async.wait_all; ld.shared.u32 %r3, [s];", Some(Race)),
    ] {
        let kind =
            outcome(&format!("{copy} {rest}"), ExecutionChecks::ALL).err().map(|found| found.kind);
        assert_eq!(kind, expected, "{rest}");
    }
}
