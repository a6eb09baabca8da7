//! A pipeline of tensor copies and `wgmma`: a producer warp, a consumer warpgroup and two mbarriers a stage. Mutants of
//! it show that each check of the pipeline works.

use super::checked;
use crate::cpu::{
    GlobalMemory, KernelParameter, LaunchError, PtxModule, Violation, ViolationKind, WriteTracking,
    launch,
};
use crate::model::{Dtype, PlacedMap, Swizzle};
use ViolationKind::{CopyEngine, Deadlock, MatrixUnit, OutOfBounds, Race, Unwritten};

/// Elements along K of all stages: five tiles of 64.
const DEPTH: u64 = 320;

/// Columns of B.
const COLUMNS: u64 = 16;

/// The consumers' loop over tiles. `%r20` is the tile, `%r21` its stage, `%r22` the parity of its phase.
const CONSUME: &str = "
    setp.eq.u32 %p2, %r20, 0;
    shl.b32 %r10, %r21, 3; add.u32 %r11, %r8, %r10;
    full: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r11], %r22; @!%p3 bra full;
    mul.lo.u32 %r12, %r21, 10240; add.u32 %r12, %r12, %r9; shr.u32 %r13, %r12, 4;
    cvt.u64.u32 %rd8, %r13; add.s64 %rd8, %rd8, 0x4000004000010000; add.s64 %rd9, %rd8, 512;
    wgmma.fence.sync.aligned;
    mov.u32 %r14, 0;
    each: setp.ne.u32 %p4, %r14, 0; setp.ne.u32 %p5, %r20, 0; or.pred %p4, %p4, %p5;
    wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16
        {%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7}, %rd8, %rd9, %p4, 1, 1, 0, 0;
    add.s64 %rd8, %rd8, 2; add.s64 %rd9, %rd9, 2;
    add.u32 %r14, %r14, 1; setp.lt.u32 %p4, %r14, 4; @%p4 bra each;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    @%p6 mbarrier.arrive.shared::cta.b64 _, [%r11+16];";

/// The producer's loop.
const PRODUCE: &str = "
    shl.b32 %r10, %r21, 3; add.u32 %r11, %r8, %r10; xor.b32 %r15, %r22, 1;
    free: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r11+16], %r15; @!%p3 bra free;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 10240;
    mul.lo.u32 %r12, %r21, 10240; add.u32 %r12, %r12, %r9; add.u32 %r13, %r12, 8192;
    shl.b32 %r14, %r20, 6;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r12], [%rd5, {%r14, %r16}], [%r11];
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r13], [%rd6, {%r14, %r16}], [%r11];";

const INIT: &str = "
    mbarrier.init.shared::cta.b64 [%r8], 1; mbarrier.init.shared::cta.b64 [%r8+8], 1;
    mbarrier.init.shared::cta.b64 [%r8+16], 4; mbarrier.init.shared::cta.b64 [%r8+24], 4;";

fn kernel((init, produce, consume): (&str, &str, &str)) -> String {
    let next = "add.u32 %r20, %r20, 1; xor.b32 %r21, %r21, 1; setp.eq.u32 %p3, %r21, 0; \
                @%p3 xor.b32 %r22, %r22, 1; setp.lt.u32 %p3, %r20, 5;";
    format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 out, .param .align 64 .b8 a[128], .param .align 64 .b8 b[128])\n\
         {{\n.reg .pred %p<9>;\n.reg .b32 %r<30>;\n.reg .f32 %d<8>;\n.reg .b64 %rd<30>;\n\
         .shared .align 1024 .b8 s[20480];\n.shared .align 8 .b8 bar[32];\n\
         ld.param.u64 %rd1, [out];\nmov.b64 %rd5, a;\ncvta.param.u64 %rd5, %rd5;\n\
         mov.b64 %rd6, b;\ncvta.param.u64 %rd6, %rd6;\n\
         mov.u32 %r0, %tid.x;\nmul.wide.u32 %rd2, %r0, 32;\nadd.s64 %rd2, %rd1, %rd2;\n\
         mov.u32 %r9, s;\nmov.u32 %r8, bar;\nmov.u32 %r16, 0;\n\
         mov.u32 %r20, 0;\nmov.u32 %r21, 0;\nmov.u32 %r22, 0;\n\
         and.b32 %r1, %r0, 31;\nsetp.eq.u32 %p6, %r1, 0;\n\
         setp.ne.u32 %p1, %r0, 128;\n@%p1 bra meet;\n{init}\nmeet: bar.sync 0;\n.loc 1 7 3\n\
         setp.lt.u32 %p1, %r0, 128;\n@%p1 bra consumers;\nsetp.ne.u32 %p1, %r0, 128;\n@%p1 exit;\n\
         produce:\n{produce}\n{next}\n@%p3 bra produce;\nexit;\n\
         consumers:\n{consume}\n{next}\n@%p3 bra consumers;\n\
         st.global.v4.f32 [%rd2], {{%d0, %d1, %d2, %d3}};\n\
         st.global.v4.f32 [%rd2+16], {{%d4, %d5, %d6, %d7}};\nret;\n}}\n.file 1 \"kernel.cu\"\n"
    )
}

fn half(matrix: u64, row: u64, k: u64) -> u32 {
    (row * 5 + k * 3 + matrix * 7 + row * k) as u32 % 8
}

/// f16 bits of 0 to 7.
fn bits(value: u32) -> u32 {
    [0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700][value as usize]
}

/// Runs the kernel on A of 64 x 320 and B of 16 x 320.
fn run(parts: (&str, &str, &str)) -> Result<Vec<f32>, Box<Violation>> {
    let text = kernel(parts);
    let program = PtxModule::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let mut parameters = vec![KernelParameter::Long(memory.allocate(4096).unwrap())];
    let KernelParameter::Long(out) = parameters[0] else { unreachable!() };
    for (matrix, rows) in [(0, 64), (1, COLUMNS)] {
        let address = memory.allocate(2 * rows * DEPTH).unwrap();
        let word = |at: u64| {
            let (row, k) = (2 * at / DEPTH, 2 * at % DEPTH);
            bits(half(matrix, row, k)) | bits(half(matrix, row, k + 1)) << 16
        };
        memory.fill_with(address, rows * DEPTH / 2, word).unwrap();
        parameters.push(KernelParameter::Map(PlacedMap {
            address,
            dtype: Dtype::F16,
            rank: 2,
            extents: [DEPTH, rows, 1, 1, 1],
            strides: [2 * DEPTH, 0, 0, 0],
            tile: [64, rows as u32, 1, 1, 1],
            swizzle: Swizzle::B128,
            rounds_to: None,
        }));
    }
    let extents = ([1; 3], [160, 1, 1]);
    match launch(&program.kernels()[0], extents, 0, &parameters, &memory, &checked()) {
        Ok(_) => {
            let bytes = memory.read(out, 4096).unwrap();
            let word = |chunk: &[u8]| f32::from_le_bytes(chunk.try_into().unwrap());
            Ok(bytes.chunks(4).map(word).collect())
        }
        Err(LaunchError::Violation(violation)) => Err(violation),
        Err(other) => panic!("{text}: {other}"),
    }
}

fn is_right(found: &[f32]) -> bool {
    found.iter().enumerate().all(|(at, found)| {
        let (thread, register) = (at / 8, at % 8);
        let row = thread / 32 * 16 + thread % 32 / 4 + register / 2 % 2 * 8;
        let column = register / 4 * 8 + thread % 4 * 2 + register % 2;
        let product = |k| half(0, row as u64, k) * half(1, column as u64, k);
        *found == (0..DEPTH).map(product).sum::<u32>() as f32
    })
}

#[test]
fn a_pipeline_multiplies() {
    let found = run((INIT, PRODUCE, CONSUME)).unwrap_or_else(|error| panic!("{error}"));
    assert!(is_right(&found));
    // One group stays in flight: the stage of the tile before is free then.
    let late = CONSUME.replace("wait_group.sync.aligned 0", "wait_group.sync.aligned 1").replace(
        "@%p6 mbarrier.arrive.shared::cta.b64 _, [%r11+16];",
        "setp.eq.u32 %p4, %r20, 0; xor.b32 %r10, %r10, 8; add.u32 %r10, %r10, %r8;
         not.pred %p4, %p4; and.pred %p4, %p4, %p6; @%p4 mbarrier.arrive.shared::cta.b64 _, [%r10+16];
         setp.ne.u32 %p4, %r20, 4; @%p4 bra more; wgmma.wait_group.sync.aligned 0; more:",
    );
    let found = run((INIT, PRODUCE, &late)).unwrap_or_else(|error| panic!("{error}"));
    assert!(is_right(&found));
}

#[test]
fn mutants_of_the_pipeline_are_caught() {
    let changed = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    };
    let consume =
        |from: &str, to: &str| (INIT.to_owned(), PRODUCE.to_owned(), changed(CONSUME, from, to));
    let produce =
        |from: &str, to: &str| (INIT.to_owned(), changed(PRODUCE, from, to), CONSUME.to_owned());
    let init =
        |from: &str, to: &str| (changed(INIT, from, to), PRODUCE.to_owned(), CONSUME.to_owned());
    let reads_early = "16 unwritten bytes of shared memory (byte ";
    let overwrites = "is written while a matrix product of warp";
    for (parts, kind, text) in [
        (
            consume("wgmma.fence.sync.aligned;", ""),
            MatrixUnit,
            "no `wgmma.fence` is before the warp's first",
        ),
        (consume("wgmma.wait_group.sync.aligned 0;", ""), Race, overwrites),
        (consume("aligned 0;", "aligned 1;"), Race, overwrites),
        (consume("wgmma.commit_group.sync.aligned;", ""), Race, overwrites),
        // The stage is free before its products are complete.
        (
            consume(
                "wgmma.commit_group",
                "@%p6 mbarrier.arrive.shared::cta.b64 _, [%r11+16]; bra past; wgmma.commit_group",
            ),
            Race,
            overwrites,
        ),
        // The wrong phase, or none.
        (consume("[%r11], %r22", "[%r11], %r23"), Unwritten, reads_early),
        (consume("[%r11], %r22", "[%r11], %r16"), Deadlock, "1 of 5 warps wait forever"),
        (
            consume(
                "full: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r11], %r22; @!%p3 bra full;",
                "",
            ),
            Unwritten,
            reads_early,
        ),
        (
            produce("xor.b32 %r15, %r22, 1;", "mov.b32 %r15, %r22;"),
            Deadlock,
            "5 of 5 warps wait forever",
        ),
        (
            produce(
                "free: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r11+16], %r15; @!%p3 bra free;",
                "",
            ),
            CopyEngine,
            "1 arrivals at an mbarrier whose phase expects 0",
        ),
        // Counts of arrivals and bytes.
        (init("[%r8+16], 4", "[%r8+16], 3"), Race, overwrites),
        (init("[%r8+16], 4", "[%r8+16], 5"), Deadlock, "still expects 1 arrivals"),
        (init("[%r8], 1;", "[%r8], 2;"), Deadlock, "still expects 1 arrivals"),
        (
            produce(
                "10240;\n", "8192;
",
            ),
            Race,
            "has not waited for the phase of its mbarrier",
        ),
        // Strides of the descriptors.
        (
            consume("0x4000004000010000", "0x4000080000010000"),
            OutOfBounds,
            "past the start of `bar`",
        ),
        // This one reaches the next stage.
        (consume("0x4000004000010000", "0x4000040000010000"), Race, "has not waited for the phase"),
    ] {
        let (init, produce, mut consume) = parts;
        if consume.contains("bra past;") {
            consume.push_str(" past:");
        }
        let init = format!("mov.u32 %r23, 1; {init}");
        let violation = match run((&init, &produce, &consume)) {
            Err(violation) => violation,
            Ok(found) => panic!("not caught ({}): {consume}", is_right(&found)),
        };
        assert_eq!(violation.kind, kind, "{init}{produce}{consume}: {violation}");
        assert!(violation.text.contains(text), "{consume}: {violation}");
    }
    // A wrong stride within the stage: no violation, but a wrong result.
    let (init, produce, consume) = consume("0x4000004000010000", "0x4000002000010000");
    let found = run((&init, &produce, &consume)).unwrap_or_else(|error| panic!("{error}"));
    assert!(!is_right(&found));
}
