//! The memory analysis of the texts that this program's ladder is built from, and bank conflicts.

use super::rig::{Case, compile, counted, problem, rendered};
use crate::cpu::{Counts, InstructionClass, Program};
use crate::model::Dtype;

fn counts(family: &str, values: &[(&str, i64)], shape: &str, dtype: Dtype) -> Option<Counts> {
    let case = Case::new(problem(shape, dtype, "nn"));
    let rendered = rendered(family, &case.problem, values);
    let program = Program::parse(&compile(&rendered.source, &[])?).unwrap();
    let (_, counts) = case.run(&program, &rendered.plan, &counted()).unwrap();
    Some(counts)
}

#[test]
fn a_naive_block_of_32_x_32_loads_5120_sectors_and_stores_128() {
    let values = [("BLOCK_X", 32), ("BLOCK_Y", 32), ("BOUNDS_CHECK", 0)];
    let Some(counts) = counts("naive", &values, "32x32x32", Dtype::I32) else { return };
    // A warp and k step: one sector of A, which all lanes read, and four of B's row.
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
fn bank_conflicts_of_square_tiles_shrink_as_tiles_grow() {
    // A k step of a warp of the 8 x 8 tile reads four rows of A that lie 8 words apart, in four
    // banks, and one row of B; stores are to 32 neighbouring words. With 32 x 32, one word of A.
    for (tile, conflicts) in [(8, 0), (16, 0), (32, 0)] {
        let Some(counts) = counts("tiled", &[("TILE", tile)], "64x64x64", Dtype::F32) else {
            return;
        };
        let loads = counts.of(InstructionClass::SharedLoad);
        println!("tile {tile}: {loads:?} {:?}", counts.of(InstructionClass::SharedStore));
        assert_eq!(loads.bank_conflicts, conflicts, "tile {tile}");
    }
}
