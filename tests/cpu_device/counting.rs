//! Counts of memory accesses for kernels with known values, and bank conflicts.

use super::harness::{Case, compile, counted, problem, rendered};
use gemm_tune::cpu::{Counts, InstructionClass, PtxModule};
use gemm_tune::model::Dtype;

fn counts(
    family: &str,
    values: &[(&str, i64)],
    shape: &str,
    layout: &str,
    dtype: Dtype,
) -> Option<Counts> {
    let case = Case::new(problem(shape, dtype, layout));
    let rendered = rendered(family, &case.problem, values);
    let program = PtxModule::parse(&compile(&rendered.source, &[])?).unwrap();
    let (_, mut launches) = case.run(&program, &rendered.plan, &counted()).unwrap();
    launches.pop()
}

#[test]
fn a_naive_block_of_32_x_32_loads_5120_sectors_and_stores_128() {
    let values = [("BLOCK_X", 32), ("BLOCK_Y", 32), ("BOUNDS_CHECK", 0)];
    let Some(counts) = counts("naive", &values, "32x32x32", "nn", Dtype::I32) else { return };
    // Per warp and step along K: one sector of A, which all lanes read, and four of B's row.
    let loads = counts.of(InstructionClass::GlobalLoad);
    assert_eq!(loads.sectors, 32 * 32 * (1 + 4));
    assert_eq!(loads.requests, 32 * 32 * 2);
    assert_eq!(loads.bytes_useful, 32 * 32 * 2 * 128);
    assert_eq!(loads.bytes_moved, 5120 * 32);
    let stores = counts.of(InstructionClass::GlobalStore);
    assert_eq!((stores.sectors, stores.requests), (128, 32));
    let lines: Vec<_> =
        counts.by_line.keys().map(|site| site.source.as_ref().map(|s| s.line)).collect();
    assert!(lines.len() >= 3 && lines.iter().all(Option::is_some), "{lines:?}");
}

#[test]
fn bank_conflicts_of_square_tiles_grow_with_the_tile_until_rows_are_padded() {
    // Reads never conflict: the rows of A that a warp reads are in different banks, and the words
    // of B are consecutive. With a transposed A, a warp fills 32 / TILE columns of the tile, whose
    // rows are TILE words apart: 2, 8 and 32 words per bank. One word of padding spreads them; with
    // 8 and 16, the two ends of a warp still conflict.
    for (layout, tile, pad, stores, conflicts) in [
        ("nn", 8, 0, 2048, 0),
        ("nn", 16, 0, 1024, 0),
        ("nn", 32, 0, 512, 0),
        ("tn", 8, 0, 2048, 1024),
        ("tn", 16, 0, 1024, 512 * 7),
        ("tn", 32, 0, 512, 256 * 31),
        ("tn", 8, 1, 2048, 2048),
        ("tn", 16, 1, 1024, 1024),
        ("tn", 32, 1, 512, 0),
    ] {
        let values = [("TILE", tile), ("PAD", pad)];
        let Some(counts) = counts("tiled", &values, "64x64x64", layout, Dtype::F32) else { return };
        let loads = counts.of(InstructionClass::SharedLoad);
        assert_eq!(loads.bank_conflicts, 0, "{layout} {tile} {pad}");
        let stored = counts.of(InstructionClass::SharedStore);
        assert_eq!(
            (stored.requests, stored.bank_conflicts),
            (stores, conflicts),
            "{layout} {tile} {pad}"
        );
    }
}
