//! Clusters of blocks: special registers, the cluster barrier, and shared memory of other blocks.

use super::checked;
use crate::cpu::{
    BlockSelection, CountingMode, GlobalMemory, InstructionClass, KernelParameter, LaunchError,
    LaunchOptions, PtxModule, Violation, ViolationKind, WriteTracking, launch,
};
use ViolationKind::{BarrierDivergence, Deadlock, OutOfBounds, Race, Unwritten};

/// Barrier of the whole cluster.
const MEET: &str = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";

/// A barrier of one warp, where another warp may go on.
const PASS: &str = "bar.sync 1, 32;";

/// A kernel with clusters of 2 x 2 blocks around some statements. They can use 1024 bytes of shared
/// memory at `s`, the rank of the block in `%r2`, the next rank in `%r3`, and global memory at
/// `%rd1`. `%rd2` is the address of the thread's own word.
fn kernel(directives: &str, body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n\
         {directives}\n{{\n.reg .pred %p<9>;\n.reg .b32 %r<30>;\n.reg .f32 %f<9>;\n\
         .reg .b64 %rd<30>;\n.shared .align 16 .b8 s[1024];\n\
         ld.param.u64 %rd1, [out];\nmov.u32 %r0, %tid.x;\nmov.u32 %r2, %cluster_ctarank;\n\
         add.u32 %r3, %r2, 1;\nand.b32 %r3, %r3, 3;\nmov.u32 %r4, %ctaid.y;\n\
         mov.u32 %r5, %nctaid.x;\nmov.u32 %r6, %ctaid.x;\nmad.lo.u32 %r4, %r4, %r5, %r6;\n\
         mov.u32 %r5, %ntid.x;\nmad.lo.u32 %r4, %r4, %r5, %r0;\nmul.wide.u32 %rd2, %r4, 4;\n\
         add.s64 %rd2, %rd1, %rd2;\nshl.b32 %r6, %r0, 2;\nmov.u32 %r7, s;\nadd.u32 %r7, %r7, %r6;\n\
         setp.eq.u32 %p1, %r2, 0;\n.loc 1 7 3\n{body}\nret;\n}}\n.file 1 \"kernel.cu\"\n"
    )
}

const PAIRS: &str = ".explicitcluster\n.reqnctapercluster 2, 2, 1";

/// Launches the first kernel of a module; returns the words of global memory and the counts.
fn run_text(
    text: &str,
    (grid, threads): ([u32; 3], u32),
    options: &LaunchOptions,
) -> Result<(Vec<u32>, crate::cpu::Counts), LaunchError> {
    let program = PtxModule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let out = memory.allocate(8192).unwrap();
    memory.fill_with(out, 2048, |_| u32::MAX).unwrap();
    let extents = (grid, [threads, 1, 1]);
    let parameters = [KernelParameter::Long(out)];
    let counts = launch(&program.kernels()[0], extents, 0, &parameters, &memory, options)?;
    let bytes = memory.read(out, 8192).unwrap();
    let word = |chunk: &[u8]| u32::from_le_bytes(chunk.try_into().unwrap());
    Ok((bytes.chunks(4).map(word).collect(), counts))
}

/// Value of `%r1` in the first thread of each of 4 x 2 blocks.
fn words(body: &str) -> Vec<u32> {
    let text = kernel(PAIRS, &format!("{body} st.global.u32 [%rd2], %r1;"));
    let (words, _) = run_text(&text, ([4, 2, 1], 1), &checked()).unwrap_or_else(|error| {
        panic!("{body}: {error}");
    });
    words[..8].to_vec()
}

#[test]
fn special_registers_describe_the_cluster() {
    for (register, expected) in [
        ("%clusterid.x", [0, 0, 1, 1, 0, 0, 1, 1]),
        ("%clusterid.y", [0; 8]),
        ("%clusterid.z", [0; 8]),
        ("%nclusterid.x", [2; 8]),
        ("%nclusterid.y", [1; 8]),
        ("%nclusterid.z", [1; 8]),
        ("%cluster_ctaid.x", [0, 1, 0, 1, 0, 1, 0, 1]),
        ("%cluster_ctaid.y", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("%cluster_ctaid.z", [0; 8]),
        ("%cluster_nctaid.x", [2; 8]),
        ("%cluster_nctaid.y", [2; 8]),
        ("%cluster_nctaid.z", [1; 8]),
        ("%cluster_ctarank", [0, 1, 0, 1, 2, 3, 2, 3]),
        ("%cluster_nctarank", [4; 8]),
        ("%ctaid.x", [0, 1, 2, 3, 0, 1, 2, 3]),
        ("%nctaid.x", [4; 8]),
    ] {
        assert_eq!(words(&format!("mov.u32 %r1, {register};")), expected, "{register}");
    }
    let explicit = "mov.pred %p1, %is_explicit_cluster; selp.b32 %r1, 1, 2, %p1;";
    assert_eq!(words(explicit), [1; 8]);
}

#[test]
fn loads_and_stores_reach_other_blocks() {
    // Each block stores its rank at s, and 100 more at s + 4.
    let fill = format!(
        "add.u32 %r8, %r2, 100; st.shared.v4.u32 [s], {{%r2, %r8, %r2, %r8}}; {MEET} \
         cvt.u64.u32 %rd5, %r7; cvta.shared.u64 %rd6, %rd5;"
    );
    let next = [1, 2, 1, 2, 3, 0, 3, 0];
    let far = next.map(|rank| 100 + rank);
    for (body, expected) in [
        ("mapa.shared::cluster.u32 %r9, s, %r3; ld.shared::cluster.u32 %r1, [%r9];", next),
        ("mapa.shared::cluster.u32 %r9, s+4, %r3; ld.shared::cluster.u32 %r1, [%r9];", far),
        ("mapa.shared::cluster.u32 %r9, %r7, %r3; ld.shared::cluster.u32 %r1, [%r9+4];", far),
        ("mapa.shared::cluster.u32 %r9, %r7+4, %r3; ld.shared::cluster.u32 %r1, [%r9];", far),
        ("mapa.shared::cluster.u64 %rd7, %rd5+4, %r3; ld.shared::cluster.u32 %r1, [%rd7];", far),
        ("mapa.shared::cluster.u32 %r9, s, %r3; ld.shared::cluster.v2.u32 {%r8, %r1}, [%r9];", far),
        (
            "mapa.shared::cluster.u32 %r9, s, %r3; ld.shared::cluster.v4.u32 {%r8, %r8, %r8, %r1}, [%r9];",
            far,
        ),
        ("mapa.shared::cluster.u32 %r9, s, %r3; ld.volatile.shared::cluster.u32 %r1, [%r9];", next),
        (
            "mapa.shared::cluster.u32 %r9, s, %r3; ld.relaxed.cluster.shared::cluster.u32 %r1, [%r9];",
            next,
        ),
        // Generic addresses.
        ("mapa.u64 %rd7, %rd6, %r3; ld.u32 %r1, [%rd7+4];", far),
        (
            "mapa.shared::cluster.u64 %rd7, %rd5, %r3; cvta.shared::cluster.u64 %rd7, %rd7; ld.u32 %r1, [%rd7+4];",
            far,
        ),
        // The own block: by its own address, by its rank, and by a remapped address of another
        // rank.
        ("ld.shared::cluster.u32 %r1, [s];", [0, 1, 0, 1, 2, 3, 2, 3]),
        (
            "mapa.shared::cluster.u32 %r9, s, %r3; mapa.shared::cluster.u32 %r9, %r9, %r2; ld.shared::cluster.u32 %r1, [%r9];",
            [0, 1, 0, 1, 2, 3, 2, 3],
        ),
        ("mapa.shared::cluster.u32 %r9, s, %r3; getctarank.shared::cluster.u32 %r1, %r9;", next),
        ("mapa.u64 %rd7, %rd6, %r3; getctarank.u64 %r1, %rd7;", next),
        ("getctarank.shared::cluster.u32 %r1, s;", [0, 1, 0, 1, 2, 3, 2, 3]),
        ("getctarank.u64 %r1, %rd6;", [0, 1, 0, 1, 2, 3, 2, 3]),
    ] {
        assert_eq!(words(&format!("{fill} {body} {MEET}")), expected, "{body}");
    }
    // Each block stores its rank in the next one.
    for store in [
        "mapa.shared::cluster.u32 %r9, s, %r3; st.shared::cluster.u32 [%r9], %r2;",
        "mapa.u64 %rd7, %rd6, %r3; st.u32 [%rd7], %r2;",
    ] {
        let got = words(&format!("{fill} {MEET} {store} {MEET} ld.shared.u32 %r1, [s];"));
        assert_eq!(got, [3, 0, 3, 0, 1, 2, 1, 2], "{store}");
    }
    let sum = format!(
        "st.shared.u32 [s], %r2; {MEET} mapa.shared::cluster.u32 %r9, s, 0; \
         red.shared::cluster.add.u32 [%r9], 10; {MEET} ld.shared.u32 %r1, [s];"
    );
    assert_eq!(words(&sum), [40, 1, 40, 1, 2, 3, 2, 3]);
}

/// Runs a cluster of 4 blocks of 64 threads with all checks.
fn outcome(body: &str) -> Result<(), Box<Violation>> {
    let options = LaunchOptions { instruction_budget: 1 << 16, ..checked() };
    match run_text(&kernel(PAIRS, body), ([2, 2, 1], 64), &options) {
        Ok(_) => Ok(()),
        Err(LaunchError::Violation(violation)) => Err(violation),
        Err(other) => panic!("{body}: {other}"),
    }
}

#[test]
fn violations_of_a_cluster_are_reported_with_their_block() {
    let next = "mapa.shared::cluster.u32 %r9, s, %r3; ";
    let own = "st.shared.u32 [%r7], %r0; ";
    let first = "setp.lt.u32 %p2, %r0, 32; @!%p2 bra $A;";
    for (body, kind, text, block) in [
        (
            format!("{own} {next} ld.shared::cluster.u32 %r1, [%r9];"),
            Race,
            "orders the start of block 1 before this access",
            [0, 0, 0],
        ),
        (
            format!("{MEET} {next} ld.shared::cluster.u32 %r1, [%r9];"),
            Unwritten,
            "4 unwritten bytes of shared memory of block 1 of the cluster (byte 0 of `s`) are read",
            [0, 0, 0],
        ),
        (
            format!(
                "{MEET} @%p1 bra $A; {own} $A: {next} ld.shared::cluster.u32 %r1, [%r9]; {MEET}"
            ),
            Unwritten,
            "block 1 of the cluster",
            [0, 0, 0],
        ),
        (
            format!("{MEET} {own} {next} @!%p1 ld.shared::cluster.u32 %r1, [%r9]; {MEET}"),
            Unwritten,
            "block 2 of the cluster",
            [1, 0, 0],
        ),
        (
            format!("{own} {MEET} {next} @%p1 ld.shared::cluster.u32 %r1, [%r9]; {own} {MEET}"),
            Race,
            "shared memory of block 1 of the cluster (byte 0 of `s`) is written after lane 0 of warp 0 of block 0 has read it",
            [1, 0, 0],
        ),
        (
            format!(
                "{own} {MEET} setp.eq.u32 %p2, %r2, 3; {next} @%p2 ld.shared::cluster.u32 %r1, [%r9];"
            ),
            OutOfBounds,
            "block 0 of the cluster has ended",
            [1, 1, 0],
        ),
        // Block 1 still runs when block 0 reads, but no barrier guarantees that.
        (
            format!("{own} {MEET} {next} @%p1 ld.shared::cluster.u32 %r1, [%r9];"),
            OutOfBounds,
            "orders this access before the end of block 1",
            [0, 0, 0],
        ),
        (
            format!(
                "{MEET} mapa.shared::cluster.u32 %r9, s, 4; ld.shared::cluster.u32 %r1, [%r9]; {MEET}"
            ),
            OutOfBounds,
            "belongs to no block of the cluster of 4 blocks",
            [0, 0, 0],
        ),
        (
            format!(
                "{MEET} mapa.shared::cluster.u32 %r9, s, 255; ld.shared::cluster.u32 %r1, [%r9]; {MEET}"
            ),
            OutOfBounds,
            "belongs to no block of the cluster",
            [0, 0, 0],
        ),
        (
            format!("{MEET} {next} ld.shared::cluster.u32 %r1, [%r9+1024]; {MEET}"),
            OutOfBounds,
            "1024 bytes past the start of `s`, which has 1024",
            [0, 0, 0],
        ),
        (
            format!("{MEET} {next} ld.shared.u32 %r1, [%r9]; {MEET}"),
            OutOfBounds,
            "a `.shared::cluster` address is used in `.shared::cta` memory",
            [0, 0, 0],
        ),
        (
            format!("{MEET} mapa.u64 %rd7, %rd1, %r3; st.u32 [%rd7+8192], %r1; {MEET}"),
            OutOfBounds,
            "8192 bytes past the start of an allocation",
            [0, 0, 0],
        ),
        (
            format!("@%p1 bar.sync 1, 128; {MEET}"),
            Deadlock,
            "8 of 8 warps wait forever; at barrier 1, 64 threads wait for 128",
            [0, 0, 0],
        ),
        (
            format!(
                "@!%p1 bra $A; {MEET} $A: setp.eq.u32 %p2, %r2, 1; @%p2 bar.sync 1, 128; {MEET}"
            ),
            Deadlock,
            "8 of 8 warps wait forever; 2 have not arrived at the cluster barrier",
            [0, 0, 0],
        ),
        (
            "barrier.cluster.wait;".to_owned(),
            BarrierDivergence,
            "without arriving first",
            [0, 0, 0],
        ),
        (
            "barrier.cluster.arrive; barrier.cluster.arrive;".to_owned(),
            BarrierDivergence,
            "again without waiting there first",
            [0, 0, 0],
        ),
        (
            format!("{first} barrier.cluster.arrive; exit; $A: {PASS} {PASS} {PASS} {MEET}"),
            BarrierDivergence,
            "may end before its whole block has arrived",
            [0, 0, 0],
        ),
        // The other warp arrives before, and nothing orders that.
        (
            format!("{first} barrier.cluster.arrive; {PASS} {PASS} exit; $A: {MEET}"),
            BarrierDivergence,
            "may end before its whole block has arrived",
            [0, 0, 0],
        ),
        (
            "setp.eq.u32 %p2, %r0, 0; @%p2 barrier.cluster.arrive;".to_owned(),
            BarrierDivergence,
            "1 lanes of warp 0 wait here while 31",
            [0, 0, 0],
        ),
    ] {
        let violation = *outcome(&body).expect_err(&body);
        assert_eq!(violation.kind, kind, "{body}: {violation}");
        assert!(violation.text.contains(text), "{body}: {violation}");
        assert_eq!(violation.block, block, "{body}: {violation}");
        assert_eq!(violation.ptx_line, 31, "{body}: {violation}");
        assert!(violation.source_line.is_some(), "{body}: {violation}");
    }
}

#[test]
fn accesses_ordered_by_the_cluster_barrier_are_valid() {
    let read = "mapa.shared::cluster.u32 %r9, s, %r3; ld.shared::cluster.u32 %r1, [%r9];";
    for body in [
        format!("st.shared.u32 [%r7], %r0; {MEET} {read} {MEET}"),
        // Other work between arrival and wait.
        format!(
            "st.shared.u32 [%r7], %r0; barrier.cluster.arrive.release; \
             st.shared.u32 [%r7+512], %r0; barrier.cluster.wait.acquire; {read} {MEET}"
        ),
        format!(
            "st.shared.u32 [%r7], %r0; fence.acq_rel.cluster; \
             barrier.cluster.arrive.relaxed; barrier.cluster.wait; {read} {MEET}"
        ),
        // The barrier does not wait for threads that have exited.
        format!("@%p1 exit; {MEET}"),
        // Warps that arrive with their whole block need not wait.
        "barrier.cluster.arrive; bar.sync 0; setp.lt.u32 %p2, %r0, 32; @%p2 exit; \
         barrier.cluster.wait;"
            .to_owned(),
        format!(
            "{MEET} barrier.cluster.arrive; bar.sync 0; setp.lt.u32 %p2, %r0, 32; @!%p2 bra $A; \
             bar.sync 1, 32; exit; $A: barrier.cluster.wait; barrier.cluster.arrive; \
             barrier.cluster.wait;"
        ),
        // The last block reads nothing and need not wait.
        format!(
            "st.shared.u32 [%r7], %r0; {MEET} {read} barrier.cluster.arrive; barrier.cluster.wait;"
        ),
    ] {
        outcome(&body).unwrap_or_else(|violation| panic!("{body}: {violation}"));
    }
    // Without the fence, a relaxed arrival publishes nothing.
    let relaxed = format!(
        "st.shared.u32 [%r7], %r0; {MEET} st.shared.u32 [%r7], %r0; \
         barrier.cluster.arrive.relaxed; barrier.cluster.wait; {read} {MEET}"
    );
    assert_eq!(outcome(&relaxed).expect_err(&relaxed).kind, Race);
}

#[test]
fn a_launch_beyond_the_limits_of_devices_is_an_error() {
    let take = |directives: &str, grid| {
        let text = kernel(directives, "");
        run_text(&text, (grid, 32), &checked()).map(|_| ()).map_err(|error| error.to_string())
    };
    for (directives, grid, what) in [
        (PAIRS, [3, 2, 1], "a grid of 3 x 2 x 1 blocks is not a multiple of clusters of 2 x 2 x 1"),
        (".reqnctapercluster 4", [4, 1, 1], ""),
        (".reqnctapercluster 4", [2, 2, 1], "not a multiple of clusters of 4 x 1 x 1"),
        (".reqnctapercluster 2, 8, 1", [2, 8, 1], "a cluster must have 1 to 8 blocks, not 16"),
        (".reqnctapercluster 0", [2, 8, 1], "a cluster must have 1 to 8 blocks, not 0"),
        (".maxclusterrank 2\n.reqnctapercluster 4", [4, 1, 1], "1 to 2 blocks, not 4"),
        (".maxclusterrank 8", [3, 1, 1], ""),
        (".explicitcluster", [4, 1, 1], "without a cluster size"),
    ] {
        match take(directives, grid) {
            Ok(()) => assert_eq!(what, "", "{directives}"),
            Err(error) => {
                assert!(!what.is_empty() && error.contains(what), "{directives}: {error}")
            }
        }
    }
    let error =
        PtxModule::parse(&kernel(".blocksareclusters", "")).expect_err("it counts clusters");
    assert!(error.to_string().contains("grids that count clusters"), "{error}");
}

#[test]
fn the_cluster_of_a_selected_block_is_executed_once() {
    let text = kernel(PAIRS, &format!("{MEET} st.global.u32 [%rd2], %r2;"));
    let chosen = vec![[3, 0, 0], [2, 1, 0], [3, 0, 0]];
    let counting = CountingMode::Traced;
    let options = LaunchOptions { blocks: BlockSelection::Selected(chosen), counting, ..checked() };
    let (words, counts) = run_text(&text, ([4, 2, 1], 1), &options).unwrap();
    let untouched = u32::MAX;
    assert_eq!(words[..8], [untouched, untouched, 0, 1, untouched, untouched, 2, 3]);
    assert_eq!(counts.blocks, 4);
    assert_eq!(counts.instructions[&InstructionClass::GlobalStore], 4);
    // The trace contains the selected blocks only.
    assert_eq!(counts.accesses.len(), 2);
    let outside = LaunchOptions {
        blocks: BlockSelection::Selected(vec![[4, 0, 0]]),
        ..LaunchOptions::default()
    };
    let error = run_text(&text, ([4, 2, 1], 1), &outside).expect_err("no such block");
    assert!(error.to_string().contains("not in the grid"), "{error}");
}
