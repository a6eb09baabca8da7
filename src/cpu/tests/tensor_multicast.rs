//! Tensor copies to several blocks of a cluster at once.

use super::checked;
use crate::cpu::{
    GlobalMemory, KernelParameter, LaunchError, PtxModule, ViolationKind, WriteTracking, launch,
};
use crate::model::{Dtype, PlacedMap, Swizzle};
use ViolationKind::{CopyEngine, Deadlock, OutOfBounds, Race};

const MEET: &str = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
const INIT: &str = "mbarrier.init.shared::cta.b64 [%r8], 1; fence.mbarrier_init.release.cluster;";
const EXPECT: &str = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 128;";
const COPY: &str = "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster \
                    [%r9], [%rd6, {%r20, %r20}], [%r8], %h1;";
const WAIT: &str =
    "again: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0; @!%p2 bra again;";
const READ: &str = "ld.shared.u32 %r1, [%r9+124]; st.global.u32 [%rd2], %r1;";

/// Runs a cluster of four blocks with one thread each. The first one has `%p1`. `%h1` is the mask 11.
fn run(body: &[&str]) -> Result<Vec<u32>, LaunchError> {
    let body = body.join("\n");
    let text = format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 out, .param .align 64 .b8 map[128])\n\
         .explicitcluster\n.reqnctapercluster 4, 1, 1\n\
         {{\n.reg .pred %p<9>;\n.reg .b16 %h<4>;\n.reg .b32 %r<30>;\n.reg .b64 %rd<30>;\n\
         .shared .align 128 .b8 s[128];\n.shared .align 8 .b8 bar[8];\n\
         ld.param.u64 %rd1, [out];\nmov.b64 %rd5, map;\ncvta.param.u64 %rd6, %rd5;\n\
         mov.u32 %r0, %cluster_ctarank;\nsetp.eq.u32 %p1, %r0, 0;\nmov.u32 %r9, s;\nmov.u32 %r8, bar;\n\
         setp.ne.u32 %p3, %r0, 2;\nmul.wide.u32 %rd2, %r0, 4;\nadd.s64 %rd2, %rd1, %rd2;\n\
         mov.u32 %r20, 0;\nmov.u16 %h1, 11;\n{body}\nret;\n}}\n"
    );
    let program = PtxModule::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let (matrix, out) = (memory.allocate(128).unwrap(), memory.allocate(16).unwrap());
    memory.fill_with(matrix, 32, |at| at as u32).unwrap();
    memory.fill_with(out, 4, |_| 77).unwrap();
    let map = PlacedMap {
        address: matrix,
        dtype: Dtype::I32,
        rank: 2,
        extents: [8, 4, 1, 1, 1],
        strides: [32, 0, 0, 0],
        tile: [8, 4, 1, 1, 1],
        swizzle: Swizzle::None,
        rounds_to: None,
    };
    let parameters = [KernelParameter::Long(out), KernelParameter::Map(map)];
    let extents = ([4, 1, 1], [1, 1, 1]);
    launch(&program.kernels()[0], extents, 0, &parameters, &memory, &checked())?;
    let bytes = memory.read(out, 16).unwrap();
    Ok(bytes.chunks(4).map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap())).collect())
}

#[test]
fn the_blocks_of_the_mask_receive_the_box() {
    let some = "@!%p3 bra past;";
    let body = [INIT, MEET, some, EXPECT, COPY, WAIT, READ, "past:", MEET];
    assert_eq!(run(&body), Ok(vec![31, 31, 77, 31]));
    // The copier need not be among them.
    let others = COPY.replace("@%p1", "@!%p3");
    let some = "@!%p3 bra copy;";
    let body = [INIT, MEET, some, EXPECT, WAIT, READ, "bra past; copy:", &others, "past:", MEET];
    assert_eq!(run(&body), Ok(vec![31, 31, 77, 31]));
    // Blocks that have waited for the copy may end.
    let all = COPY.replace("%h1", "15");
    assert_eq!(run(&[INIT, MEET, EXPECT, &all, WAIT, READ]), Ok(vec![31; 4]));
}

#[test]
fn violations_of_multicasts_are_reported() {
    let all = COPY.replace("%h1", "15");
    for (body, kind, text) in [
        (vec![INIT, MEET, EXPECT, COPY, WAIT, READ, MEET], Deadlock, "4 of 4 warps wait forever"),
        (
            vec![INIT, MEET, "mov.u16 %h1, 0;", EXPECT, COPY],
            CopyEngine,
            "of a multicast names no block",
        ),
        (
            vec![INIT, MEET, "mov.u16 %h1, 17;", EXPECT, COPY],
            CopyEngine,
            "or one beyond the 4 of the cluster",
        ),
        (
            vec![INIT, MEET, EXPECT, &all, "@%p1 bra past;", WAIT, "past:", READ, MEET],
            Race,
            "has not waited",
        ),
        (
            vec![INIT, MEET, EXPECT, &all, READ, MEET],
            Race,
            "has not waited for the phase of its mbarrier",
        ),
        // A block that may not have started, or that ends.
        (vec![INIT, EXPECT, &all], Race, "orders the start of block 1 before this access"),
        (
            vec![INIT, MEET, EXPECT, &all, "@!%p1 bra past;", WAIT, READ, "past:"],
            OutOfBounds,
            "before the end of block 1",
        ),
    ] {
        let violation = match run(&body) {
            Err(LaunchError::Violation(violation)) => violation,
            other => panic!("{body:?}: {other:?}"),
        };
        assert_eq!(violation.kind, kind, "{body:?}: {violation}");
        assert!(violation.text.contains(text), "{body:?}: {violation}");
    }
}
