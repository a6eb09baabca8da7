//! A pipeline of tensor copies and `wgmma` as NVRTC emits it: 64 x 64 sums of 320 products, in three stages, with a
//! producer warpgroup that gives registers away.

use super::checked;
use crate::cpu::{
    GlobalMemory, KernelParameter, LaunchError, PtxModule, ViolationKind, WriteTracking, launch,
};
use crate::model::{Dtype, PlacedMap, Swizzle};

const TEXT: &str = include_str!("ptx/wgmma-13.5-sm_90a.ptx");

/// Elements along K.
const DEPTH: u64 = 320;

/// f16 bits of small powers of two and zero.
fn half(matrix: u64, row: u64, k: u64) -> (u32, f32) {
    let power = (row * 5 + k * 3 + matrix * 7 + row * k) as u32 % 5;
    if power == 4 { (0, 0.0) } else { ((15 + power) << 10, (1 << power) as f32) }
}

fn run(text: &str) -> Result<Vec<f32>, LaunchError> {
    let program = PtxModule::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let out = memory.allocate(64 * 64 * 4).unwrap();
    let mut parameters = vec![KernelParameter::Long(out)];
    for matrix in 0..2 {
        let address = memory.allocate(2 * 64 * DEPTH).unwrap();
        let word = |at: u64| {
            let (row, k) = (2 * at / DEPTH, 2 * at % DEPTH);
            half(matrix, row, k).0 | half(matrix, row, k + 1).0 << 16
        };
        memory.fill_with(address, 64 * DEPTH / 2, word).unwrap();
        parameters.push(KernelParameter::Map(PlacedMap {
            address,
            dtype: Dtype::F16,
            rank: 2,
            extents: [DEPTH, 64, 1, 1, 1],
            strides: [2 * DEPTH, 0, 0, 0],
            tile: [64, 64, 1, 1, 1],
            swizzle: Swizzle::B128,
            rounds_to: None,
        }));
    }
    let extents = ([1; 3], [256, 1, 1]);
    let shared = 3 * 2 * 64 * 128;
    launch(&program.kernels()[0], extents, shared, &parameters, &memory, &checked())?;
    let bytes = memory.read(out, 64 * 64 * 4).unwrap();
    Ok(bytes.chunks(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect())
}

#[test]
fn a_compiled_pipeline_multiplies() {
    let found = run(TEXT).unwrap_or_else(|error| panic!("{error}"));
    for (at, found) in found.into_iter().enumerate() {
        let product = |k| half(0, at as u64 / 64, k).1 * half(1, at as u64 % 64, k).1;
        assert_eq!(found, (0..DEPTH).map(product).sum::<f32>(), "{at}");
    }
}

#[test]
fn mutants_of_a_compiled_pipeline_are_caught() {
    for (from, to, kind) in [
        ("wgmma.fence.sync.aligned;", "", ViolationKind::MatrixUnit),
        ("wgmma.wait_group.sync.aligned 0;", "", ViolationKind::MatrixUnit),
        ("wgmma.wait_group.sync.aligned 1;", "", ViolationKind::Race),
        (
            "wgmma.wait_group.sync.aligned 1;",
            "wgmma.wait_group.sync.aligned 2;",
            ViolationKind::Race,
        ),
        ("4611686293305360384", "4611686568183267328", ViolationKind::Race),
    ] {
        assert!(TEXT.contains(from), "{from}");
        let Err(LaunchError::Violation(violation)) = run(&TEXT.replace(from, to)) else {
            panic!("not caught: {from}");
        };
        assert_eq!(violation.kind, kind, "{from}: {violation}");
    }
}
