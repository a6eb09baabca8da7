//! Tensor copies of maps with a swizzle.

use super::checked;
use crate::cpu::{
    GlobalMemory, KernelParameter, LaunchError, PtxModule, ViolationKind, WriteTracking, launch,
};
use crate::model::{Dtype, PlacedMap, Swizzle};

/// Copies a box of 16 rows to byte `to` of a block's shared memory, and the first 1024 words there to global memory.
fn run(swizzle: Swizzle, columns: u32, to: u32) -> Result<Vec<u32>, LaunchError> {
    let bytes = 16 * 4 * columns;
    let text = format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 out, .param .align 64 .b8 map[128])\n\
         {{\n.reg .pred %p<9>;\n.reg .b32 %r<30>;\n.reg .b64 %rd<30>;\n\
         .shared .align 1024 .b8 s[4096];\n.shared .align 8 .b8 bar[8];\n\
         ld.param.u64 %rd1, [out];\nmov.b64 %rd5, map;\ncvta.param.u64 %rd6, %rd5;\n\
         mov.u32 %r0, %tid.x;\nmov.u32 %r20, 0;\nmov.u32 %r8, bar;\nmov.u32 %r9, s;\n\
         mbarrier.init.shared::cta.b64 [%r8], 1;\n\
         again: st.shared.u32 [%r9], 0;\nadd.u32 %r9, %r9, 4;\nadd.u32 %r20, %r20, 1;\n\
         setp.lt.u32 %p1, %r20, 1024;\n@%p1 bra again;\n\
         mov.u32 %r20, 0;\nmov.u32 %r9, s;\nadd.u32 %r10, %r9, {to};\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], {bytes};\n\
         cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
         [%r10], [%rd6, {{%r20, %r20}}], [%r8];\n\
         wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r8], 0;\n@!%p1 bra wait;\n\
         next: ld.shared.u32 %r1, [%r9];\nst.global.u32 [%rd1], %r1;\nadd.u32 %r9, %r9, 4;\n\
         add.s64 %rd1, %rd1, 4;\nadd.u32 %r20, %r20, 1;\nsetp.lt.u32 %p1, %r20, 1024;\n@%p1 bra next;\n\
         ret;\n}}\n"
    );
    let program = PtxModule::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let (matrix, out) = (memory.allocate(64 * 64).unwrap(), memory.allocate(4096).unwrap());
    memory.fill_with(matrix, 1024, |at| at as u32 + 1).unwrap();
    let map = PlacedMap {
        address: matrix,
        dtype: Dtype::F32,
        rank: 2,
        extents: [columns.into(), 16, 1, 1, 1],
        strides: [128, 0, 0, 0],
        tile: [columns, 16, 1, 1, 1],
        swizzle,
        rounds_to: None,
    };
    let parameters = [KernelParameter::Long(out), KernelParameter::Map(map)];
    let extents = ([1; 3], [1, 1, 1]);
    launch(&program.kernels()[0], extents, 0, &parameters, &memory, &checked())?;
    let bytes = memory.read(out, 4096).unwrap();
    Ok(bytes.chunks(4).map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap())).collect())
}

#[test]
fn the_chunks_of_a_box_are_permuted_by_their_addresses() {
    for (swizzle, columns, chunk_mask) in
        [(Swizzle::None, 8, 0), (Swizzle::B32, 8, 1), (Swizzle::B64, 16, 3), (Swizzle::B128, 32, 7)]
    {
        // Also where the box begins within a pattern.
        for to in [0, 128, 1024, 1920] {
            let found = run(swizzle, columns, to).unwrap_or_else(|error| panic!("{error}"));
            let mut expected = vec![0; 1024];
            for row in 0..16 {
                for column in 0..columns {
                    let address = to + 4 * (row * columns + column);
                    let swizzled = address ^ (((address / 128) & chunk_mask) * 16);
                    expected[swizzled as usize / 4] = row * 32 + column + 1;
                }
            }
            assert_eq!(found, expected, "{swizzle:?} {to}");
        }
    }
}

#[test]
fn a_box_that_does_not_fill_the_rows_of_its_swizzle_is_refused() {
    let Err(LaunchError::Violation(violation)) = run(Swizzle::B128, 8, 0) else {
        panic!("it was copied");
    };
    assert_eq!(violation.kind, ViolationKind::CopyEngine);
    let text = "a row of the box has 32 bytes; this device supports only rows of 128 bytes";
    assert!(violation.text.contains(text), "{violation}");
}
