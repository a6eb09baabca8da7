//! How warps of `wgmma` share stages, tiles and rows: kernels with a fault of it are refused, and the same kernels without
//! it pass.

use super::contracts::verdict;
use gemm_tune::model::{Dtype, Epilogue, GemmType, Layout, ProblemPattern};

/// A name, what is replaced and by what, and a part of what is said of it.
pub(super) type Fault = (&'static str, &'static str, &'static str, &'static str);

/// A fault in how `wgmma` is used, by what is replaced, and a part of what is said of it.
const PIPELINE_FAULTS: &[Fault] = &[
    (
        "the registers of the sums are not given to the tensor cores",
        "wgmma.fence.sync.aligned;",
        "",
        "matrix unit",
    ),
    (
        "sums are read before the products are done",
        "wait_for_products<0>();",
        "wait_for_products<1>();",
        "matrix unit",
    ),
    ("a descriptor has another stride", "64ull << 32", "32ull << 32", "elements wrong"),
    ("a descriptor has another swizzle", "| 1ull << 62", "| 2ull << 62", "elements wrong"),
    (
        "tiles are multiplied before they are there",
        "if (!is_full)\n                    wait(stage.full(), stage.phase);",
        "",
        "",
    ),
    (
        "the first tile is multiplied before it is there",
        "bool is_full = is_over(stage.full(), stage.phase);",
        "bool is_full = is_over(stage.full(), stage.phase ^ 1);",
        "",
    ),
    ("a stage is released while it is multiplied", "wait_for_products<1>();", "", ""),
    (
        "a stage is filled before it is empty",
        "wait(stage.empty(), stage.phase ^ 1);",
        "",
        "copy engine",
    ),
    (
        "a barrier expects one arrival too many",
        "begin_barrier(first_empty + 8 * at, RELEASES);",
        "begin_barrier(first_empty + 8 * at, RELEASES + 1);",
        "deadlock",
    ),
    (
        "a barrier expects fewer bytes than are copied",
        "arrive_expecting(stage.full(), STAGE_BYTES);",
        "arrive_expecting(stage.full(), STAGE_BYTES - 128);",
        "",
    ),
];

/// Faults in how a tile takes the place of the ring.
const STORE_FAULTS: &[Fault] = &[
    (
        "a tile is laid out while another warpgroup multiplies",
        "asm volatile(\"bar.sync 1, %0;\" ::\"n\"(CONSUMERS) : \"memory\");",
        "",
        "",
    ),
    (
        "boxes are copied that other threads write",
        "fence.proxy.async.shared::cta;\" ::: \"memory\");\n            meet();",
        "\" ::: \"memory\");\n            meet();",
        "",
    ),
    ("boxes of C are added before they are there", "wait_for_boxes<SOURCE>();", "", ""),
    (
        "a barrier expects fewer bytes of boxes than are copied",
        "(end - first) * BOX_BYTES",
        "(end - first) * BOX_BYTES - 128",
        "",
    ),
    (
        "C is added twice",
        "value += output.beta * to_value(former);",
        "value += 2 * output.beta * to_value(former);",
        "wrong",
    ),
    (
        "the box of another warp is read",
        "16 * (threadIdx.x / 32 % 4);",
        "16 * (threadIdx.x / 32 % 4 ^ 1);",
        "",
    ),
];

/// Faults in how boxes of an operand are copied to shared memory and C is stored from there, where a block has several tiles.
const BOX_FAULTS: &[Fault] = &[
    (
        "a box is copied to while it is stored",
        "asm volatile(\"cp.async.bulk.wait_group.read 0;\" ::: \"memory\");  // boxes that were here have been stored",
        "",
        "",
    ),
    (
        "boxes are read before their copies are done",
        "asm volatile(\"cp.async.wait_all;\" ::: \"memory\");",
        "",
        "",
    ),
    (
        "boxes are read before other lanes have copied",
        "meet();  // the copies of all lanes",
        "",
        "",
    ),
    (
        "elements are overwritten before other lanes have read them",
        "__syncwarp();  // lanes have read what others overwrite",
        "",
        "",
    ),
    (
        "an operand is read beyond the last row",
        "row < output.M ? max(0, min(output.N - column, WIDTH)) : 0",
        "max(0, min(output.N - column, WIDTH))",
        "",
    ),
];

/// Faults in how the blocks of a cluster share tiles.
const CLUSTER_FAULTS: &[Fault] = &[
    (
        "a block ends while another releases stages that it filled",
        "for (int at = 0; at < STAGES; ++at, stage.advance())\n                wait(stage.empty(), stage.phase ^ 1);",
        "",
        "of the cluster has ended",
    ),
    (
        "a block copies to another that may not have begun",
        "asm volatile(\"barrier.cluster.arrive.relaxed.aligned;\" ::: \"memory\");  // the fence publishes the barriers\n    wait_for_cluster();",
        "__syncthreads();",
        "orders the start of block",
    ),
    (
        "the barriers are not published",
        "asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");",
        "",
        "",
    ),
];

/// Faults in how warpgroups load lines of operands and shift them.
const LOAD_FAULTS: &[Fault] = &[
    ("lines are shifted before they are there", "wait_for_groups<LOAD_STAGES - 1>();", "", ""),
    (
        "lines are shifted before other lanes have copied",
        "__syncwarp();  // lanes see each other's copies",
        "",
        "",
    ),
    (
        "vectors are overwritten before other lanes have read them",
        "__syncwarp();  // lanes have read what others overwrite",
        "",
        "",
    ),
    (
        "products read what was not published to them",
        "asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");  // products read what was stored",
        "",
        "",
    ),
    ("a stage is filled while products read it", "wait(stage.empty(), stage.phase ^ 1);", "", ""),
    (
        "a vector is read beyond the end of a row",
        "max(0, min((int)sizeof(Vector), left))",
        "(int)sizeof(Vector)",
        "",
    ),
    ("a line is shifted by too little", "8 * (shift & 3)", "0", "wrong"),
];

/// Faults in how a warp stores rows that begin anywhere.
const LINES_FAULTS: &[Fault] = &[
    (
        "rows are stored before all lanes have laid them out",
        "__syncwarp();  // all lanes have laid out",
        "",
        "",
    ),
    (
        "rows are laid out before those before them are stored",
        "__syncwarp();  // the rows before have been stored",
        "",
        "",
    ),
    ("a vector is stored beyond the end of a row", "row.skip + at + 16 <= row.bytes", "true", ""),
    ("the last element of a row is left out", ": row.bytes)) {", ": row.bytes - SIZE)) {", ""),
];

/// Faults in how warps that lay out a box together wait for each other.
const SHARED_BOX_FAULTS: &[Fault] = &[
    (
        "a box is copied before all warps have laid it out",
        "meet();  // all threads have written",
        "__syncwarp();",
        "",
    ),
    (
        "a box is laid out while it is stored",
        "asm volatile(\"cp.async.bulk.wait_group.read %0;\" ::\"n\"(BOXES - 1) : \"memory\");",
        "",
        "",
    ),
    (
        "two warps have the same rows of a box",
        "threadIdx.x / 32 % BOX_WARPS * 16, first_column",
        "threadIdx.x / 32 % 2 * 16, first_column",
        "",
    ),
    (
        "matrices of a box change places",
        "column = first_column + lane / 16 * 8;",
        "column = first_column + lane / 8 % 2 * 8;",
        "",
    ),
];

/// Faults in boxes as wide as a tile, of which a warp has room for one.
const WHOLE_ROW_FAULTS: &[Fault] = &[
    ("a warp has room for two boxes", "BOXES = 4352 *", "BOXES = 8704 *", ""),
    (
        "a box is laid out while it is stored",
        "asm volatile(\"cp.async.bulk.wait_group.read %0;\" ::\"n\"(BOXES - 1) : \"memory\");",
        "",
        "",
    ),
];

/// Checks that each fault in a configuration of `wgmma` is refused, and the kernel without it is not.
pub(super) fn check_refused(shape: &str, values: &[(&str, i64)], faults: &[Fault]) {
    check_refused_with("", shape, values, faults);
}

/// The same with an epilogue.
fn check_refused_with(epilogue: &str, shape: &str, values: &[(&str, i64)], faults: &[Fault]) {
    let epilogue = epilogue.parse().unwrap();
    let pattern = ProblemPattern { types: GemmType::of(Dtype::Bf16), layout: Layout::Nt, epilogue };
    let problem = pattern.problem(shape.parse().unwrap());
    let mut unnoticed = Vec::new();
    for (name, from, to, expected) in faults {
        let Some(right) = verdict(("wgmma", values), &problem, (from, from)) else { return };
        right.unwrap_or_else(|wrong| panic!("{problem} is right: {wrong}"));
        match verdict(("wgmma", values), &problem, (from, to)) {
            Some(Err(failure)) if failure.to_string().contains(expected) => {}
            other => unnoticed.push(format!("{name}: {other:?}")),
        }
    }
    assert!(unnoticed.is_empty(), "{}", unnoticed.join("\n"));
}

/// Checks that a configuration of `wgmma` is right, and that its source has a text.
pub(super) fn check_right(
    (shape, dtype, layout): (&str, Dtype, Layout),
    values: &[(&str, i64)],
    text: &str,
) {
    let types = GemmType::of(dtype);
    let pattern = ProblemPattern { types, layout, epilogue: Epilogue::NONE };
    let problem = pattern.problem(shape.parse().unwrap());
    if let Some(verdict) = verdict(("wgmma", values), &problem, (text, text)) {
        assert!(verdict.is_ok(), "{problem}: {verdict:?}");
    }
}

#[test]
fn faults_of_a_pipeline_of_warpgroup_products_are_refused() {
    // More tiles along K than the ring has stages.
    check_refused("64x64x640", &[], PIPELINE_FAULTS);
}

#[test]
fn faults_of_a_tile_that_takes_the_place_of_the_ring_are_refused() {
    let words = [("SCHEDULER", 0), ("EPILOGUE", 1), ("REDUCTION", 0), ("SPLIT_K", 1)];
    let values: Vec<_> = [("WARPGROUPS", 2), ("BN", 32)].into_iter().chain(words).collect();
    check_refused("128x32x640", &values, STORE_FAULTS);
}

#[test]
fn faults_of_boxes_that_a_warp_copies_are_refused() {
    let words = [("SCHEDULER", 1), ("EPILOGUE", 1), ("REDUCTION", 0), ("SPLIT_K", 1)];
    let values: Vec<_> = [("WARPGROUPS", 1), ("BN", 8)].into_iter().chain(words).collect();
    check_refused_with("residual", "1030x72x64", &values, BOX_FAULTS);
}

/// 136 columns are 8 times a prime number, so that a box is as wide as the tile or has 8 columns.
#[test]
fn faults_of_boxes_as_wide_as_a_tile_are_refused() {
    for swap in [0, 1] {
        let tile = [("WARPGROUPS", 1), ("INSTRUCTIONS_M", 2), ("BN", 136), ("SWAP", swap)];
        let words = [("SCHEDULER", 1), ("EPILOGUE", 1), ("REDUCTION", 0), ("SPLIT_K", 1)];
        let values: Vec<_> = tile.into_iter().chain(words).collect();
        check_refused("200x216x128", &values, WHOLE_ROW_FAULTS);
    }
}

#[test]
fn faults_of_tiles_that_a_cluster_shares_are_refused() {
    let words = [("SCHEDULER", 0), ("EPILOGUE", 0), ("REDUCTION", 0), ("SPLIT_K", 1)];
    let values = [("WARPGROUPS", 1), ("BN", 32), ("CLUSTER_M", 2), ("CLUSTER_N", 1)];
    let values: Vec<_> = values.into_iter().chain(words).collect();
    check_refused("128x32x640", &values, CLUSTER_FAULTS);
}

/// Blocks beyond the edges of C are part of the cluster and copy for the others.
#[test]
fn clusters_of_eight_blocks_are_right() {
    for (cluster_m, cluster_n) in [(2, 4), (4, 2)] {
        for layout in [Layout::Nt, Layout::Tn] {
            let cluster = [("CLUSTER_M", cluster_m), ("CLUSTER_N", cluster_n), ("STAGES", 3)];
            let tile = [("WARPGROUPS", 1), ("BN", 40), ("SCHEDULER", 0), ("SWAP", 0)];
            let words = [("REDUCTION", 0), ("SPLIT_K", 1), ("EPILOGUE", 1)];
            let values: Vec<_> = cluster.into_iter().chain(tile).chain(words).collect();
            check_right(("168x104x328", Dtype::Bf16, layout), &values, "__cluster_dims__(CLUSTER,");
        }
    }
}

#[test]
fn faults_of_lines_that_warpgroups_load_are_refused() {
    // Rows of 1,290 bytes.
    let tile = [("WARPGROUPS", 1), ("BN", 64), ("SCHEDULER", 0), ("EPILOGUE", 0), ("SPLIT_K", 1)];
    let loads = [("REDUCTION", 0), ("SWAP", 0), ("UNALIGNED", 1), ("LOADERS", 2), ("STAGES", 4)];
    let values: Vec<_> = tile.into_iter().chain(loads).collect();
    check_refused("64x64x645", &values, LOAD_FAULTS);
}

#[test]
fn faults_of_rows_that_begin_anywhere_are_refused() {
    let words = [("SCHEDULER", 0), ("EPILOGUE", 2), ("REDUCTION", 0), ("SPLIT_K", 1), ("SWAP", 0)];
    let tile = [("WARPGROUPS", 1), ("INSTRUCTIONS_M", 2), ("BN", 64), ("STAGES", 4)];
    let values: Vec<_> = tile.into_iter().chain(words).collect();
    check_refused("128x133x64", &values, LINES_FAULTS);
}

/// The last tile has one column, so that rows end before the first multiple of 16 bytes. C is read in one of two runs.
#[test]
fn an_element_of_c_that_two_lanes_read_is_a_race() {
    let words = [("SCHEDULER", 0), ("EPILOGUE", 2), ("REDUCTION", 0), ("SPLIT_K", 1), ("SWAP", 0)];
    let tile = [("WARPGROUPS", 1), ("INSTRUCTIONS_M", 1), ("BN", 8), ("STAGES", 4)];
    let values: Vec<_> = tile.into_iter().chain(words).collect();
    let guard = "max(row.bytes - row.skip, 0)";
    let fault = ("two lanes read an element", guard, "(row.bytes - row.skip)", "race");
    check_refused("40x65x64", &values, &[fault]);
}

#[test]
fn faults_of_boxes_that_warps_share_are_refused() {
    // More boxes of a tile than there is room for.
    let words = [("SCHEDULER", 1), ("EPILOGUE", 1), ("REDUCTION", 0), ("SPLIT_K", 1), ("SWAP", 1)];
    let values: Vec<_> =
        [("WARPGROUPS", 1), ("BN", 256), ("STAGES", 4)].into_iter().chain(words).collect();
    check_refused("1030x72x64", &values, SHARED_BOX_FAULTS);
}
