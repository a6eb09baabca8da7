//! Violations of kernels that misuse `wgmma`, and valid kernels near them.

use super::checked;
use crate::cpu::{
    ExecutionChecks, GlobalMemory, KernelParameter, LaunchError, LaunchOptions, PtxModule,
    Violation, ViolationKind, WriteTracking, launch,
};
use ViolationKind::{BarrierDivergence, MatrixUnit, OutOfBounds, Race, Unwritten};

/// A kernel around some statements. `%r9` is the address of 4096 bytes of shared memory, `%r7` that of the 32 bytes of
/// each of 128 threads. `%rd8` describes a 64 x 16 matrix in the first half, `%rd9` an 8 x 16 matrix in the second. The
/// accumulators are `%d0` to `%d7`. `%p1` is true in the first thread, `%p2` in the first warp.
fn kernel(body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out)\n{{\n\
         .reg .pred %p<9>;\n.reg .b32 %r<30>;\n.reg .b32 %d<8>;\n.reg .b32 %a<4>;\n.reg .b64 %rd<30>;\n\
         .shared .align 1024 .b8 s[4096];\n\
         ld.param.u64 %rd1, [out];\nmov.u32 %r0, %tid.x;\nsetp.eq.u32 %p1, %r0, 0;\n\
         setp.lt.u32 %p2, %r0, 32;\nmul.wide.u32 %rd2, %r0, 4;\nadd.s64 %rd2, %rd1, %rd2;\n\
         mov.u32 %r9, s;\nshl.b32 %r7, %r0, 5;\nadd.u32 %r7, %r9, %r7;\nmov.u32 %r1, 7;\n\
         shr.u32 %r3, %r9, 4;\ncvt.u64.u32 %rd7, %r3;\n\
         add.s64 %rd8, %rd7, 0x800400000;\nadd.s64 %rd9, %rd7, 0x800080080;\n\
         .loc 1 7 3\n{body}\nst.global.u32 [%rd2], %r1;\nret;\n}}\n.file 1 \"kernel.cu\"\n"
    )
}

/// Stores 1.5 everywhere, as f16.
const FILL: &str = "mov.b32 %r4, 0x3e003e00; st.shared.v4.b32 [%r7], {%r4, %r4, %r4, %r4}; \
                    st.shared.v4.b32 [%r7+16], {%r4, %r4, %r4, %r4};";
const PROXY: &str = "fence.proxy.async.shared::cta;";
const MEET: &str = "bar.sync 0;";
const ZERO: &str = "mov.b32 %d0, 0; mov.b32 %d1, 0; mov.b32 %d2, 0; mov.b32 %d3, 0;";
const FENCE: &str = "wgmma.fence.sync.aligned;";
const PRODUCT: &str = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, %rd8, %rd9, 1, 1, 1, 0, 0;";
const OTHER: &str = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d4, %d5, %d6, %d7}, %rd8, %rd9, 0, 1, 1, 0, 0;";
const HALVES: &str = "mov.b32 %a0, %r4; mov.b32 %a1, %r4; mov.b32 %a2, %r4; mov.b32 %a3, %r4;";
const FROM_REGISTERS: &str = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, %rd9, 1, 1, 1, 0;";
const COMMIT: &str = "wgmma.commit_group.sync.aligned;";
const WAIT: &str = "wgmma.wait_group.sync.aligned 0;";
const WAIT_1: &str = "wgmma.wait_group.sync.aligned 1;";
const READ: &str = "mov.b32 %r1, %d3;";

fn outcome(body: &str, threads: u32, options: &LaunchOptions) -> Result<Vec<u32>, Box<Violation>> {
    let text = kernel(body);
    let program = PtxModule::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let out = memory.allocate(1024).unwrap();
    let extents = ([1; 3], [threads, 1, 1]);
    match launch(&program.kernels()[0], extents, 0, &[KernelParameter::Long(out)], &memory, options)
    {
        Ok(_) => {
            let bytes = memory.read(out, 4 * u64::from(threads)).unwrap();
            let word = |chunk: &[u8]| u32::from_le_bytes(chunk.try_into().unwrap());
            Ok(bytes.chunks(4).map(word).collect())
        }
        Err(LaunchError::Violation(violation)) => Err(violation),
        Err(other) => panic!("{body}: {other}"),
    }
}

/// Sum of 16 products of 1.5.
const SUM: f32 = 36.0;

#[test]
fn ordered_products_are_valid() {
    let start = [FILL, PROXY, MEET, ZERO];
    for (rest, expected) in [
        (vec![FENCE, PRODUCT, COMMIT, WAIT, READ], SUM),
        // Products of one shape share their accumulators, without a fence.
        (vec![FENCE, PRODUCT, PRODUCT, COMMIT, PRODUCT, COMMIT, WAIT, READ], 3.0 * SUM),
        (vec![FENCE, PRODUCT, COMMIT, WAIT, READ, PRODUCT, COMMIT, WAIT, READ], 2.0 * SUM),
        (vec![FENCE, PRODUCT, COMMIT, WAIT, ZERO, FENCE, PRODUCT, COMMIT, WAIT, READ], SUM),
        // The group of the first product is complete.
        (vec![FENCE, PRODUCT, COMMIT, OTHER, COMMIT, WAIT_1, READ], SUM),
        // A group may be empty.
        (vec![FENCE, PRODUCT, COMMIT, COMMIT, WAIT_1, READ], SUM),
        (vec![HALVES, FENCE, FROM_REGISTERS, FROM_REGISTERS, COMMIT, WAIT, READ], 2.0 * SUM),
        // Fragments are only read.
        (vec![HALVES, FENCE, FROM_REGISTERS, COMMIT, "mov.b32 %r1, %a0;", WAIT, READ], SUM),
        (vec![HALVES, FENCE, FROM_REGISTERS, COMMIT, WAIT, HALVES, READ], SUM),
        // The operands are overwritten after the products of all warps.
        (vec![FENCE, PRODUCT, COMMIT, WAIT, MEET, FILL, READ], SUM),
        (vec!["setmaxnreg.inc.sync.aligned.u32 240;", FENCE, PRODUCT, COMMIT, WAIT, READ], SUM),
    ] {
        let body = [&start[..], &rest].concat().join("\n");
        let found =
            outcome(&body, 128, &checked()).unwrap_or_else(|error| panic!("{body}: {error}"));
        assert_eq!(found, [expected.to_bits(); 128], "{body}");
    }
    // The fence may follow the barrier.
    let late = [FILL, MEET, PROXY, ZERO, FENCE, PRODUCT, COMMIT, WAIT, READ].join("\n");
    assert!(outcome(&late, 128, &checked()).is_ok());
    // Two warpgroups.
    let twice = ["shl.b32 %r7, %r0, 4; add.u32 %r7, %r9, %r7;", &FILL.replace("[%r7+16]", "[%r7]")];
    let twice = [&twice[..], &[PROXY, MEET, ZERO, FENCE, PRODUCT, COMMIT, WAIT, READ]].concat();
    assert_eq!(outcome(&twice.join("\n"), 256, &checked()), Ok(vec![SUM.to_bits(); 256]));
}

/// Checks that statements commit a violation.
fn check(body: &[&str], threads: u32, (kind, text): (ViolationKind, &str)) {
    let body = body.join("\n");
    let violation = *outcome(&body, threads, &checked()).expect_err(&body);
    assert_eq!(violation.kind, kind, "{body}: {violation}");
    assert!(violation.text.contains(text), "{body}: {violation}");
    assert_eq!(violation.source_line.as_ref().map(|line| line.line), Some(7), "{violation}");
}

#[test]
fn registers_of_products_are_checked() {
    let unfenced = "was written by another instruction with no `wgmma.fence` in between";
    let unwaited = "with no `wgmma.wait_group` for it in between";
    let wide = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7}, \
                %rd8, %rd9, 1, 1, 1, 0, 0;";
    let of_sums = FROM_REGISTERS.replace("{%a0, %a1, %a2, %a3}", "{%d4, %d5, %d6, %d7}");
    let start = [FILL, PROXY, MEET, ZERO, HALVES];
    for (rest, text) in [
        (vec![PRODUCT, COMMIT, WAIT], "no `wgmma.fence` is before the warp's first `wgmma`"),
        (vec![FENCE, ZERO, PRODUCT], unfenced),
        (vec![FENCE, "@%p1 mov.b32 %d0, 1;", PRODUCT], unfenced),
        (vec![FENCE, PRODUCT, COMMIT, WAIT, ZERO, PRODUCT], unfenced),
        (vec![FENCE, HALVES, FROM_REGISTERS], "a register fragment of this `wgmma` was written"),
        (vec![FENCE, PRODUCT, COMMIT, READ], unwaited),
        (vec![FENCE, PRODUCT, READ], unwaited),
        (vec![FENCE, PRODUCT, WAIT, READ], unwaited),
        (vec![FENCE, PRODUCT, COMMIT, WAIT_1, READ], unwaited),
        (vec![FENCE, OTHER, COMMIT, PRODUCT, COMMIT, WAIT_1, READ], unwaited),
        (vec![FENCE, PRODUCT, COMMIT, ZERO], "an accumulator of the `wgmma` at PTX line"),
        (
            vec![FENCE, FROM_REGISTERS, COMMIT, HALVES, WAIT],
            "a register fragment of the `wgmma` at PTX line",
        ),
        (
            vec![FENCE, PRODUCT, COMMIT, wide],
            "an accumulator of this `wgmma` is an accumulator of the one",
        ),
        (
            vec![FENCE, OTHER, COMMIT, &of_sums],
            "a register fragment of this `wgmma` is an accumulator of the one at PTX line",
        ),
    ] {
        check(&[&start[..], &rest].concat(), 128, (MatrixUnit, text));
    }
    let body = [&start[..], &[PRODUCT, READ]].concat().join("\n");
    assert!(outcome(&body, 128, &LaunchOptions::default()).is_ok(), "the check is off");
}

#[test]
fn operands_in_shared_memory_are_checked() {
    let run = [ZERO, FENCE, PRODUCT, COMMIT];
    let start = |rest: &[&'static str]| [&[FILL, PROXY, MEET][..], &run, rest].concat();
    let overwritten = "is written while a matrix product of warp";
    let other_warp = "setp.lt.u32 %p3, %r0, 96; @!%p3 st.shared.b32 [%r9], %r4;";
    for rest in [
        vec!["st.shared.b32 [%r7], %r4;"],
        vec![MEET, "@%p1 st.shared.b32 [%r9], %r4;"],
        // Warp 3 has only waited for itself.
        vec![WAIT, other_warp],
        vec![WAIT_1, MEET, other_warp],
        vec![MEET, WAIT, "@%p1 st.shared.b32 [%r9+2048], %r4;"],
        vec![MEET, "@%p1 cp.async.ca.shared.global [%r9], [%rd1], 4;"],
        vec![MEET, "@%p1 red.shared.add.u32 [%r9], %r4;"],
    ] {
        let mut body = vec!["st.global.b32 [%rd2], %r0;"];
        body.extend(start(&rest));
        check(&body, 128, (Race, overwritten));
    }
    let unfenced = "with no `fence.proxy.async` in between";
    check(&[&[FILL, MEET][..], &run].concat(), 128, (Race, unfenced));
    check(&[&[PROXY, FILL, MEET][..], &run].concat(), 128, (Race, unfenced));
    check(&[&[FILL, "@%p2 fence.proxy.async;", MEET][..], &run].concat(), 128, (Race, unfenced));
    check(&[&[FILL, "fence.proxy.async.global;", MEET][..], &run].concat(), 128, (Race, unfenced));
    // An ordinary asynchronous copy is no access of the async proxy.
    let copy = "st.global.b32 [%rd2], %r0; @%p1 cp.async.ca.shared.global [%r9], [%rd1], 4; cp.async.wait_all;";
    check(&[&[FILL, PROXY, MEET, copy, MEET][..], &run].concat(), 128, (Race, unfenced));
    // Without a barrier, the first warp is ahead of the others' stores.
    check(&[&[FILL, PROXY][..], &run].concat(), 128, (Unwritten, "16 unwritten bytes"));
    let again = [&[FILL, PROXY, MEET, FILL, PROXY][..], &run].concat();
    check(&again, 128, (Race, overwritten));
    check(
        &[&["@%p2 st.shared.b32 [%r7], %r1;", PROXY, MEET][..], &run].concat(),
        128,
        (Unwritten, "16 unwritten"),
    );
}

#[test]
fn descriptors_are_checked() {
    let with = |change: &'static str| vec![FILL, PROXY, MEET, change, ZERO, FENCE, PRODUCT];
    for (change, kind, text) in [
        // A stride of 1024 in place of 128 bytes, and a start beyond the end.
        ("add.s64 %rd8, %rd8, 0x3800000000;", OutOfBounds, "past the start of `s`, which has 4096"),
        ("add.s64 %rd9, %rd9, 0x80;", OutOfBounds, "past the start of `s`, which has 4096"),
        ("add.s64 %rd8, %rd8, 0x4002000000000000;", MatrixUnit, "with a base offset"),
        ("add.s64 %rd8, %rd8, 0x4000;", MatrixUnit, "has bits outside of its fields"),
        ("@%p1 add.s64 %rd8, %rd8, 1;", MatrixUnit, "differs between the lanes of a warp"),
        ("@%p2 add.s64 %rd8, %rd8, 1;", BarrierDivergence, "differ between warps of a warpgroup"),
    ] {
        check(&with(change), 128, (kind, text));
    }
    let scale = PRODUCT.replace("%rd9, 1,", "%rd9, %p1,");
    check(
        &[FILL, PROXY, MEET, ZERO, FENCE, &scale],
        128,
        (MatrixUnit, "`scale-d` differs between"),
    );
}

#[test]
fn a_warpgroup_executes_products_together() {
    let start = [FILL, PROXY, MEET, ZERO];
    let missing = "warp 3 ends without this instruction, which its warpgroup executes";
    let skip = "setp.lt.u32 %p3, %r0, 96; @!%p3 bra past;";
    for (rest, threads, text) in [
        (vec![skip, FENCE, PRODUCT, COMMIT, WAIT, "past:"], 128, missing),
        (vec![FENCE, skip, PRODUCT, COMMIT, WAIT, "past:"], 128, missing),
        (vec![FENCE, PRODUCT, COMMIT, skip, WAIT, "past:"], 128, missing),
        (vec!["@%p2 bra past;", FENCE, PRODUCT, COMMIT, WAIT, "past:"], 128, "warp 0 ends without"),
        (
            vec![FENCE, "@%p2 bra one;", PRODUCT, "bra.uni past; one:", OTHER, "past:"],
            128,
            "where another warp of its warpgroup executes the one at PTX line",
        ),
        (vec![FENCE, "@%p1 bra past;", PRODUCT, "past:"], 128, "by 31 lanes instead of all 32"),
        (vec![FENCE], 96, "of a block of 3 warps is in no warpgroup of four"),
        (
            vec!["setp.lt.u32 %p3, %r0, 128; @%p3 bra past;", FENCE, "past:"],
            192,
            "warp 4 of a block of 6",
        ),
    ] {
        let start = if threads == 128 { &start[..] } else { &[][..] };
        check(&[start, &rest].concat(), threads, (BarrierDivergence, text));
    }
}

#[test]
fn invalid_synchronisation_is_refused() {
    for (body, text) in [
        ("wgmma.wait_group.sync.aligned %r1;", "with these operands"),
        ("wgmma.fence.aligned;", "`wgmma` needs `.sync.aligned`"),
        ("wgmma.other.sync.aligned;", "does not support the instruction"),
        ("setmaxnreg.inc.sync.aligned.u32 236;", "no multiple of 8 in 24..256"),
        ("setmaxnreg.dec.sync.aligned.u32 16;", "no multiple of 8 in 24..256"),
        ("setmaxnreg.dec.sync.aligned.u32 264;", "no multiple of 8 in 24..256"),
        ("setmaxnreg.sync.aligned.u32 64;", "only `.inc` and `.dec`"),
        ("griddepcontrol.other;", "modifier `.other` is not supported"),
    ] {
        let error = PtxModule::parse(&kernel(body)).unwrap_err().to_string();
        assert!(error.contains(text), "{body}: {error}");
    }
    for body in [
        "setmaxnreg.dec.sync.aligned.u32 24;",
        "griddepcontrol.wait;",
        "griddepcontrol.launch_dependents;",
    ] {
        assert!(outcome(body, 128, &checked()).is_ok(), "{body}");
    }
    let checks = ExecutionChecks::NONE;
    assert!(outcome(FENCE, 128, &LaunchOptions { checks, ..checked() }).is_ok());
}
