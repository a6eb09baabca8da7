//! Tensor stores in bulk groups, and the violations of kernels that misuse them.

use super::checked;
use crate::cpu::{
    CountingMode, Counts, GlobalMemory, InstructionClass, KernelParameter, LaunchError,
    LaunchOptions, PtxModule, ViolationKind, WriteTracking, launch,
};
use crate::model::{CopyRounding, Dtype, PlacedMap, Swizzle};
use ViolationKind::{CopyEngine, Misaligned, OutOfBounds, Race, Unwritten};

/// A kernel of two warps around some statements. They can use 2048 bytes of shared memory at `%r9`, the address of the
/// tensor map in `%rd6`, coordinates in `%r20` and `%r21`, and `%p1`, true in the first thread.
fn kernel(body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 out, .param .align 64 .b8 map[128])\n\
         {{\n.reg .pred %p<9>;\n.reg .b32 %r<30>;\n.reg .b64 %rd<30>;\n\
         .shared .align 1024 .b8 s[2048];\n\
         ld.param.u64 %rd1, [out];\nmov.b64 %rd5, map;\ncvta.param.u64 %rd6, %rd5;\n\
         mov.u32 %r0, %tid.x;\nsetp.eq.u32 %p1, %r0, 0;\nmov.u32 %r9, s;\nshl.b32 %r7, %r0, 4;\n\
         add.u32 %r7, %r9, %r7;\nmov.u32 %r20, 0;\nmov.u32 %r21, 0;\n\
         .loc 1 7 3\n{body}\nret;\n}}\n.file 1 \"kernel.cu\"\n"
    )
}

/// Stores 4 times the thread's index, and one to three more, to four words.
const FILL: &str = "shl.b32 %r1, %r0, 2; add.u32 %r2, %r1, 1; add.u32 %r3, %r1, 2; add.u32 %r4, %r1, 3; \
                    st.shared.v4.u32 [%r7], {%r1, %r2, %r3, %r4};";
const MEET: &str = "fence.proxy.async.shared::cta; bar.sync 0;";
const STORE: &str =
    "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd6, {%r20, %r21}], [%r9];";
const ADD: &str = "@%p1 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd6, {%r20, %r21}], [%r9];";
const COMMIT: &str = "@%p1 cp.async.bulk.commit_group;";
const WAIT: &str = "@%p1 cp.async.bulk.wait_group 0;";
const WAIT_READ: &str = "@%p1 cp.async.bulk.wait_group.read 0;";

/// Runs a kernel on a tensor of five rows with `columns` elements, and boxes of `columns` x 4.
fn run(
    body: &str,
    of: (Dtype, u32, Swizzle),
    options: &LaunchOptions,
) -> Result<(Vec<u8>, Counts), LaunchError> {
    run_rounding(body, of, None, options)
}

/// As [`run`], through a map that may round elements.
fn run_rounding(
    body: &str,
    (dtype, columns, swizzle): (Dtype, u32, Swizzle),
    rounds_to: Option<CopyRounding>,
    options: &LaunchOptions,
) -> Result<(Vec<u8>, Counts), LaunchError> {
    let text = kernel(body);
    let program = PtxModule::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let row = u64::from(columns) * dtype.bytes();
    let matrix = memory.allocate(5 * row).unwrap();
    memory.fill_with(matrix, 5 * row / 4, |_| 0).unwrap();
    let map = PlacedMap {
        address: matrix,
        dtype,
        rank: 2,
        extents: [columns.into(), 5, 1, 1, 1],
        strides: [row, 0, 0, 0],
        tile: [columns, 4, 1, 1, 1],
        swizzle,
        rounds_to,
    };
    let parameters = [KernelParameter::Long(matrix), KernelParameter::Map(map)];
    let counts =
        launch(&program.kernels()[0], ([1; 3], [64, 1, 1]), 0, &parameters, &memory, options)?;
    Ok((memory.read(matrix, 5 * row).unwrap(), counts))
}

const WORDS: (Dtype, u32, Swizzle) = (Dtype::I32, 8, Swizzle::None);

fn words(body: &[&str], of: (Dtype, u32, Swizzle)) -> Vec<u32> {
    let body = body.join("\n");
    let (bytes, _) = run(&body, of, &checked()).unwrap_or_else(|error| panic!("{body}: {error}"));
    bytes.chunks(4).map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

#[test]
fn a_box_is_stored_where_it_is_inside_of_the_tensor() {
    for (column, row) in [(0, 0), (4, -2), (-4, 3), (0, 4), (8, 0), (0, -4), (-100, 100)] {
        let place = format!("mov.u32 %r20, {column}; mov.u32 %r21, {row};");
        for wait in [WAIT, WAIT_READ] {
            let found = words(&[FILL, MEET, &place, STORE, COMMIT, wait], WORDS);
            for (at, word) in found.into_iter().enumerate() {
                let (x, y) = (at as i64 % 8 - column, at as i64 / 8 - row);
                let inside = (0..8).contains(&x) && (0..4).contains(&y);
                let expected = if inside { y * 8 + x } else { 0 };
                assert_eq!(i64::from(word), expected, "{column} {row}");
            }
        }
    }
}

#[test]
fn a_swizzled_box_is_stored_in_order() {
    for (columns, swizzle, mask) in
        [(8, Swizzle::B32, 1), (16, Swizzle::B64, 3), (32, Swizzle::B128, 7)]
    {
        for start in [0, 128, 384] {
            let from = format!("add.u32 %r9, %r9, {start};");
            let fill =
                [FILL, "add.u32 %r7, %r7, 1024; st.shared.v4.u32 [%r7], {%r1, %r2, %r3, %r4};"];
            let found = words(
                &[&fill[..], &[MEET, &from, STORE, COMMIT, WAIT]].concat(),
                (Dtype::F32, columns, swizzle),
            );
            for (at, word) in found.iter().take(4 * columns as usize).enumerate() {
                let address = start + 4 * at as u32;
                let swizzled = address ^ (((address >> 7) & mask) << 4);
                assert_eq!(*word, swizzled / 4 % 256, "{swizzle:?} {start} {at}");
            }
        }
    }
}

#[test]
fn additions_accumulate() {
    let halves = "mov.b32 %r1, 0x40003c00; st.shared.v4.b32 [%r7], {%r1, %r1, %r1, %r1};";
    let brains = halves.replace("0x40003c00", "0x40003f80");
    let singles = halves.replace("0x40003c00", "0x3fc00000");
    for (fill, dtype, columns, expected) in [
        (FILL, Dtype::I32, 8, 6),
        (halves, Dtype::F16, 16, 0x4400_4000),
        (&brains, Dtype::Bf16, 16, 0x4080_4000),
        (&singles, Dtype::F32, 8, 0x4040_0000),
    ] {
        let of = (dtype, columns, Swizzle::None);
        let found = words(&[fill, MEET, ADD, ADD, COMMIT, WAIT], of);
        assert_eq!(found[3], expected, "{dtype:?}");
        assert_eq!(found[32..], [0; 8], "{dtype:?}");
    }
    // Two groups, of which the first has been stored when the second waits.
    let read = "@%p1 ld.global.u32 %r5, [%rd1+4]; @%p1 st.global.u32 [%rd1+128], %r5;";
    let one = "@%p1 cp.async.bulk.wait_group 1;";
    let found = words(&[FILL, MEET, STORE, COMMIT, ADD, COMMIT, one, read, WAIT], WORDS);
    assert_eq!((found[1], found[32]), (2, 1));
    let found = words(&[FILL, MEET, STORE, COMMIT, WAIT_READ, read, WAIT], WORDS);
    assert_eq!((found[1], found[32]), (1, 0), "only the reads are complete");
}

#[test]
fn violations_of_tensor_stores_are_reported() {
    let overwritten =
        "is written while a bulk store of warp 0 may read it; no `cp.async.bulk.wait_group.read`";
    let unread = "the warp ends while a bulk store may still read shared memory";
    let other = "setp.eq.u32 %p1, %r0, 63;";
    // The wait and the barrier in the wrong order.
    let late = "@%p1 cp.async.bulk.wait_group.read 0; setp.eq.u32 %p2, %r0, 32; @%p2 st.shared.u32 [%r9], %r1;";
    for (body, kind, text) in [
        (vec![FILL, MEET, STORE, COMMIT, FILL], Race, overwritten),
        (vec![FILL, MEET, STORE, WAIT_READ, "bar.sync 0;", FILL], Race, overwritten),
        (vec![FILL, MEET, STORE, COMMIT, "bar.sync 0;", late], Race, overwritten),
        (
            vec![
                FILL,
                MEET,
                STORE,
                COMMIT,
                "@%p1 cp.async.bulk.wait_group.read 1;",
                "bar.sync 0;",
                FILL,
            ],
            Race,
            overwritten,
        ),
        (
            vec![FILL, MEET, STORE, COMMIT, WAIT_READ, STORE, COMMIT, "bar.sync 0;", FILL],
            Race,
            overwritten,
        ),
        (vec![FILL, MEET, STORE], Race, unread),
        (vec![FILL, MEET, STORE, COMMIT], Race, unread),
        (vec![FILL, MEET, STORE, WAIT], Race, unread),
        (vec![FILL, "bar.sync 0;", STORE], Race, "with no `fence.proxy.async` in between"),
        (vec![FILL, "fence.proxy.async;", other, STORE], Race, "with no barrier in between"),
        (vec![STORE], Unwritten, "unwritten bytes of shared memory"),
        (vec![FILL, MEET, "add.u32 %r9, %r9, 64;", STORE], Misaligned, "128-byte access"),
        (vec![FILL, MEET, "add.u32 %r9, %r9, 2048;", STORE], OutOfBounds, "past the start of `s`"),
        (
            vec![FILL, MEET, "add.s64 %rd6, %rd6, 64;", STORE],
            CopyEngine,
            "not in the kernel's parameters",
        ),
    ] {
        let body = body.join("\n");
        let violation = match run(&body, WORDS, &checked()) {
            Err(LaunchError::Violation(violation)) => violation,
            other => panic!("{body}: {other:?}"),
        };
        assert_eq!(violation.kind, kind, "{body}: {violation}");
        assert!(violation.text.contains(text), "{body}: {violation}");
        assert_eq!(violation.source_line.as_ref().map(|line| line.line), Some(7), "{violation}");
    }
    let bytes = (Dtype::I8, 32, Swizzle::None);
    let Err(LaunchError::Violation(violation)) =
        run(&[FILL, MEET, ADD].join("\n"), bytes, &checked())
    else {
        panic!("it was added");
    };
    assert!(violation.text.contains("cannot add elements of 8 bits"), "{violation}");
}

#[test]
fn a_store_through_a_map_that_rounds_is_refused() {
    let of = (Dtype::F32, 8, Swizzle::None);
    for store in [STORE, ADD] {
        let body = [FILL, MEET, store, COMMIT, WAIT].join("\n");
        let found = run_rounding(&body, of, Some(CopyRounding::Tf32), &checked());
        let Err(LaunchError::Violation(violation)) = found else { panic!("{body}: it was stored") };
        assert_eq!(violation.kind, CopyEngine, "{violation}");
        let text =
            "through a map that rounds elements to tf32: the elements that it writes are unknown";
        assert!(violation.text.contains(text), "{violation}");
    }
}

#[test]
fn a_staging_buffer_is_reused_after_its_reads() {
    let again =
        [FILL, MEET, STORE, COMMIT, WAIT_READ, "bar.sync 0;", FILL, MEET, STORE, COMMIT, WAIT];
    assert_eq!(words(&again, WORDS)[31], 31);
    // Many stores are written before their wait.
    let many = "mov.u32 %r5, 0; again: @%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group \
                [%rd6, {%r20, %r21}], [%r9]; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 9000; @%p2 bra again;";
    assert_eq!(words(&[FILL, MEET, many, COMMIT, WAIT], WORDS)[31], 31);
    // Another lane's group does not matter.
    let other = "setp.eq.u32 %p2, %r0, 1; @%p2 cp.async.bulk.commit_group;";
    assert_eq!(words(&[FILL, MEET, other, STORE, COMMIT, WAIT], WORDS)[31], 31);
}

#[test]
fn stores_are_counted_and_end() {
    let options = LaunchOptions { counting: CountingMode::On, ..LaunchOptions::default() };
    let body = [FILL, MEET, "mov.u32 %r20, 4;", STORE, COMMIT, WAIT].join("\n");
    let (_, counts) = run(&body, WORDS, &options).unwrap();
    let copies = counts.of(InstructionClass::AsyncCopy);
    assert_eq!((copies.requests, copies.sectors, copies.bytes_useful), (1, 4, 64));
    let forever = [FILL, MEET, "again:", STORE, "@%p1 bra again;"].join("\n");
    let Err(LaunchError::Violation(violation)) = run(&forever, WORDS, &LaunchOptions::default())
    else {
        panic!("they went on for ever");
    };
    assert!(violation.text.contains("tensor stores of a warp are never waited for"), "{violation}");
}
