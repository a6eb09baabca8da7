//! Tensor copies and mbarriers, and the violations of kernels that misuse them.

use super::checked;
use crate::cpu::{
    CountingMode, Counts, GlobalMemory, InstructionClass, KernelParameter, LaunchError,
    LaunchOptions, PtxModule, ViolationKind, WriteTracking, launch,
};
use crate::model::{CopyRounding, Dtype, PlacedMap, Swizzle};
use ViolationKind::{CopyEngine, Deadlock, Misaligned, Race};

/// A kernel of two warps around some statements. They can use 512 bytes of shared memory at `%r9`,
/// two mbarriers at `%r8`, the address of the tensor map in `%rd6`, coordinates in `%r20` and
/// `%r21`, and `%p1`, true in the first thread. `%r1` is the result of each thread.
fn kernel(body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 out, .param .align 64 .b8 map[128])\n\
         {{\n.reg .pred %p<9>;\n.reg .b32 %r<30>;\n.reg .b64 %rd<30>;\n\
         .shared .align 128 .b8 s[512];\n.shared .align 8 .b8 bar[16];\n\
         ld.param.u64 %rd1, [out];\nmov.b64 %rd5, map;\ncvta.param.u64 %rd6, %rd5;\n\
         mov.u32 %r0, %tid.x;\nsetp.eq.u32 %p1, %r0, 0;\nsetp.lt.u32 %p3, %r0, 32;\n\
         mul.wide.u32 %rd2, %r0, 4;\nadd.s64 %rd2, %rd1, %rd2;\n\
         and.b32 %r6, %r0, 31;\nshl.b32 %r6, %r6, 2;\nmov.u32 %r9, s;\nadd.u32 %r7, %r9, %r6;\n\
         mov.u32 %r8, bar;\nmov.u32 %r1, 7;\nmov.u32 %r20, 0;\nmov.u32 %r21, 0;\n\
         .loc 1 7 3\n{body}\nst.global.u32 [%rd2], %r1;\nret;\n}}\n.file 1 \"kernel.cu\"\n"
    )
}

const INIT: &str = "@%p1 mbarrier.init.shared::cta.b64 [%r8], 1; bar.sync 0;";
const EXPECT: &str = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 128;";
const BOX: &str = "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
                   [%r9], [%rd6, {%r20, %r21}], [%r8];";
const READ: &str = "ld.shared.u32 %r1, [%r7];";

/// Statements that wait for a phase of the first mbarrier.
fn wait(parity: u32) -> String {
    format!(
        "{{ .reg .pred over; again: mbarrier.try_wait.parity.shared::cta.b64 over, [%r8], {parity}; \
         @!over bra again; }}"
    )
}

/// Runs a kernel on a tensor of five rows with 8 elements, `100 row + column`, and boxes of 8 x 4.
fn run(body: &str, options: &LaunchOptions) -> Result<(Vec<u32>, Counts), LaunchError> {
    run_on(body, options, (Dtype::I32, None), |at| (100 * (at / 8) + at % 8) as u32)
}

/// As [`run`], with the type of the elements, what copies round them to, and the elements.
fn run_on(
    body: &str,
    options: &LaunchOptions,
    (dtype, rounds_to): (Dtype, Option<CopyRounding>),
    element: impl Fn(u64) -> u32 + Sync,
) -> Result<(Vec<u32>, Counts), LaunchError> {
    let text = kernel(body);
    let program = PtxModule::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let (matrix, out) = (memory.allocate(160).unwrap(), memory.allocate(256).unwrap());
    memory.fill_with(matrix, 40, element).unwrap();
    let map = PlacedMap {
        address: matrix,
        dtype,
        rank: 2,
        extents: [8, 5, 1, 1, 1],
        strides: [32, 0, 0, 0],
        tile: [8, 4, 1, 1, 1],
        swizzle: Swizzle::None,
        rounds_to,
    };
    let parameters = [KernelParameter::Long(out), KernelParameter::Map(map)];
    let extents = ([1; 3], [64, 1, 1]);
    let counts = launch(&program.kernels()[0], extents, 0, &parameters, &memory, options)?;
    let bytes = memory.read(out, 256).unwrap();
    let word = |chunk: &[u8]| u32::from_le_bytes(chunk.try_into().unwrap());
    Ok((bytes.chunks(4).map(word).collect(), counts))
}

fn words(body: &str) -> Vec<u32> {
    run(body, &checked()).unwrap_or_else(|error| panic!("{body}: {error}")).0
}

#[test]
fn a_box_has_zeros_outside_of_the_tensor() {
    for (column, row) in [(0, 0), (4, -2), (-4, 3), (0, 4), (8, 0), (0, -4), (-100, 100)] {
        let place = format!("mov.u32 %r20, {column}; mov.u32 %r21, {row};");
        let found = words(&[INIT, &place, EXPECT, BOX, &wait(0), READ].join("\n"));
        for (thread, word) in found.into_iter().enumerate() {
            let place = thread as i64 % 32;
            let (column, row) = (column + place % 8, row + place / 8);
            let inside = (0..8).contains(&column) && (0..5).contains(&row);
            let expected = if inside { 100 * row + column } else { 0 };
            assert_eq!(i64::from(word), expected, "{column} {row}");
        }
    }
}

#[test]
fn a_map_that_rounds_makes_tf32_of_the_elements_of_a_box() {
    let elements = [0x3f80_1000, 0x3f80_3000, 0x3f80_1001, 0x0000_1001, 0x7f7f_f000, 0xffc0_0001];
    let rounded = [0x3f80_0000, 0x3f80_4000, 0x3f80_2000, 0x0000_2000, 0x7f80_0000, 0x7fff_e000];
    let element = |at: u64| elements[at as usize % 6];
    let body = [INIT, EXPECT, BOX, &wait(0), READ].join("\n");
    for (rounds_to, expected) in [(None, elements), (Some(CopyRounding::Tf32), rounded)] {
        let of = (Dtype::F32, rounds_to);
        let (found, _) = run_on(&body, &checked(), of, element).unwrap();
        for (thread, word) in found.into_iter().enumerate() {
            assert_eq!(word, expected[thread % 32 % 6], "{rounds_to:?}, thread {thread}");
        }
    }
}

#[test]
fn phases_complete_in_sequence() {
    let next = "bar.sync 0; mov.u32 %r21, 1;";
    let twice = [INIT, EXPECT, BOX, &wait(0), READ, next, EXPECT, BOX, &wait(1), READ].join("\n");
    assert_eq!(words(&twice)[31], 407);
    // One warp waits for the phase, the other for a block barrier.
    let told = format!("@!%p3 bra meet;\n{}\nmeet: bar.sync 0;", wait(0));
    assert_eq!(words(&[INIT, EXPECT, BOX, &told, READ].join("\n"))[63], 307);
    // Each of 64 arrivals returns its phase; the last one completes it.
    let all = "@%p1 mbarrier.init.shared::cta.b64 [%r8], 64; bar.sync 0; st.shared.u32 [%r7], %r0;\n\
               { .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%r8];\n\
               again: mbarrier.test_wait.shared::cta.b64 %p2, [%r8], state; @!%p2 bra again; }\n\
               ld.shared.u32 %r1, [%r9];";
    let once = all.replace("st.shared", "@%p3 st.shared");
    assert_eq!(words(&once), [0; 64]);
    // Bytes may be expected after the copy was started.
    let late = "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r8], 128;\n\
                @%p1 mbarrier.arrive.release.cta.shared::cta.b64 _, [%r8], 1;";
    assert_eq!(words(&[INIT, BOX, late, &wait(0), READ].join("\n"))[31], 307);
}

#[test]
fn violations_of_tensor_copies_are_reported() {
    let (first, second) = (wait(0), wait(1));
    let (first, second) = (first.as_str(), second.as_str());
    let other_box = BOX.replace("[%r9]", "[%r10]");
    let beside = format!("add.u32 %r10, %r9, 128; {other_box}");
    let told_one = format!("@!%p3 bra past;\n{first}\npast: ");
    let again = "mbarrier.arrive.shared::cta.b64 _, [%r8];";
    for (body, kind, text) in [
        // No warp waits, or only one.
        (vec![INIT, EXPECT, BOX, READ], Race, "has not waited for the phase of its mbarrier"),
        (vec![INIT, EXPECT, BOX, &told_one, READ], Race, "has not waited for the phase"),
        (
            vec![INIT, EXPECT, BOX],
            Race,
            "the block ends while 128 bytes of this copy may be in flight",
        ),
        // The wrong phase.
        (vec![INIT, EXPECT, BOX, second, READ], Race, "has not waited for the phase"),
        (
            vec![INIT, EXPECT, BOX, first, READ, "bar.sync 0;", EXPECT, BOX, first, READ],
            Race,
            "has not waited for the phase",
        ),
        // The wrong number of bytes.
        (
            vec![INIT, &EXPECT.replace("128", "256"), BOX, first],
            Deadlock,
            "2 of 2 warps wait forever; the phase of the mbarrier still expects 0 arrivals and 128 bytes",
        ),
        (
            vec![INIT, &EXPECT.replace("128", "64"), BOX, first],
            Deadlock,
            "0 arrivals and -64 bytes",
        ),
        (
            vec![INIT, EXPECT, BOX, &beside, first, "ld.shared.u32 %r1, [%r7+128];"],
            Race,
            "has not waited for the phase",
        ),
        (vec![INIT, BOX, first], Deadlock, "1 arrivals and -128 bytes"),
        // A destination that other threads may still access.
        (
            vec![INIT, EXPECT, BOX, first, READ, "setp.eq.u32 %p1, %r0, 63;", EXPECT, BOX],
            Race,
            "of warp 0 has read it at kernel.cu:7, with no barrier in between",
        ),
        (
            vec![
                "@%p3 st.shared.u32 [%r7], %r1; setp.eq.u32 %p1, %r0, 63;",
                INIT.trim_end_matches("bar.sync 0;"),
                EXPECT,
                BOX,
            ],
            Race,
            "has written it at kernel.cu:7, with no barrier in between",
        ),
        (
            vec![INIT, EXPECT, BOX, "st.shared.u32 [%r7], %r1;"],
            Race,
            "while a tensor copy may write it",
        ),
        // Mbarriers.
        (vec![first], CopyEngine, "no mbarrier is initialised at this address"),
        (
            vec!["@%p1 st.shared.u64 [%r8], %rd1; bar.sync 0;", first],
            CopyEngine,
            "no mbarrier is initialised at this address",
        ),
        (
            vec![INIT.trim_end_matches("bar.sync 0;"), first],
            Race,
            "is written after lane 0 of warp 0 has written it at kernel.cu:7, with no barrier in between",
        ),
        (vec![INIT, INIT], CopyEngine, "initialised again without invalidation"),
        (
            vec![&INIT.replace("], 1", "], 0")],
            CopyEngine,
            "an mbarrier supports 1 to 1048575 arrivals, not 0",
        ),
        (vec![INIT, EXPECT, again], CopyEngine, "1 arrivals at an mbarrier whose phase expects 0"),
        (
            vec![INIT, &EXPECT.replace("128", "1048576")],
            CopyEngine,
            "a phase of an mbarrier expects 1048576 bytes, more than the limit of 1048575",
        ),
        (
            vec![INIT, EXPECT, BOX, "@%p1 mbarrier.inval.shared::cta.b64 [%r8];"],
            CopyEngine,
            "the mbarrier is invalidated while a copy is in flight",
        ),
        (vec!["add.u32 %r8, %r8, 4;", INIT], Misaligned, "8-byte access to shared memory"),
        // Boxes.
        (
            vec![INIT, "add.u32 %r9, %r9, 64;", EXPECT, BOX],
            Misaligned,
            "128-byte access to shared memory",
        ),
        (
            vec![INIT, EXPECT, "mov.u32 %r20, 3;", BOX],
            CopyEngine,
            "the box begins at column 3, byte 12 of its rows: boxes begin at multiples of 16 bytes",
        ),
        (
            vec![INIT, EXPECT, &BOX.replace("2d", "3d").replace("%r21}", "%r21, %r21}")],
            CopyEngine,
            "a tensor map of 2 dimensions is used with 3 coordinates",
        ),
        (
            vec![INIT, EXPECT, &BOX.replace("%rd6", "%rd1")],
            CopyEngine,
            "the address is not in the kernel's parameters",
        ),
        (
            vec![INIT, "add.s64 %rd6, %rd6, -64;", EXPECT, BOX],
            CopyEngine,
            "the parameter at this address is not a tensor map",
        ),
    ] {
        let body = body.join("\n");
        let violation = match run(&body, &checked()) {
            Err(LaunchError::Violation(violation)) => violation,
            other => panic!("{body}: {other:?}"),
        };
        assert_eq!(violation.kind, kind, "{body}: {violation}");
        assert!(violation.text.contains(text), "{body}: {violation}");
        assert_eq!(violation.source_line.as_ref().map(|line| line.line), Some(7), "{violation}");
    }
}

#[test]
fn a_loop_of_copies_without_waits_ends() {
    // Without checks, since the second copy is a race.
    let body = [INIT, "again:", BOX, "@%p1 bra again;"].join("\n");
    let Err(LaunchError::Violation(violation)) = run(&body, &LaunchOptions::default()) else {
        panic!("they went on for ever");
    };
    let text = "1048576 bytes are in flight at once, more than the 1048575 that an mbarrier counts";
    assert_eq!((violation.kind, violation.text.as_str()), (CopyEngine, text));
}

#[test]
fn unsupported_instructions_are_errors() {
    for (body, text) in [
        (BOX.replace(".tile", ".im2col"), "modifier `.im2col` is not supported"),
        (
            BOX.replace("::bytes ", "::bytes.multicast::cluster "),
            "does not support the instruction with these operands",
        ),
        (BOX.replace(".tensor.2d", ""), "only bulk copies with a tensor map"),
        (BOX.replace("{%r20, %r21}", "{%r20}"), "the box has 1 coordinates for 2 dimensions"),
        (
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.min.bulk_group [%rd6, {%r20, %r21}], [%r9];"
                .to_owned(),
            "only bulk groups from shared to global memory are supported, of copies and of `.add`",
        ),
        (
            "cp.async.bulk.tensor.2d.global.shared::cta.tile [%rd6, {%r20, %r21}], [%r9];".to_owned(),
            "only tensor copies to shared memory with an mbarrier",
        ),
        ("cp.reduce.async.global [%rd6], [%r9];".to_owned(), "only `cp.reduce.async.bulk` is supported"),
        (
            "mbarrier.arrive.noComplete.shared::cta.b64 %rd3, [%r8], 1;".to_owned(),
            "modifier `.noComplete` is not supported",
        ),
        ("mbarrier.init.b64 [%rd1], 1;".to_owned(), "only mbarriers in `.shared` memory"),
        ("fence.proxy.alias;".to_owned(), "only the `.async` proxy is supported"),
    ] {
        let error = PtxModule::parse(&kernel(&body)).unwrap_err().to_string();
        assert!(error.contains(text), "{body}: {error}");
    }
}

#[test]
fn copies_are_counted_and_traced() {
    let options = LaunchOptions { counting: CountingMode::Traced, ..LaunchOptions::default() };
    let body = [INIT, "mov.u32 %r20, 4;", EXPECT, BOX, &wait(0), READ].join("\n");
    let (_, counts) = run(&body, &options).unwrap();
    let copies = counts.of(InstructionClass::AsyncCopy);
    assert_eq!((copies.requests, copies.sectors), (1, 4));
    assert_eq!((copies.bytes_useful, copies.bytes_moved, copies.wavefronts), (64, 128, 1));
    assert_eq!(counts.accesses.len(), 8 + 2, "16 bytes each, and what two warps store");
}
