//! How the blocks of a cluster of `wgmma` add up parts of K: right kernels pass, and the same kernels with a fault are refused.

use super::warpgroups::{Fault, check_refused, check_right};
use gemm_tune::model::{Dtype, Layout};

/// Faults in how the blocks of a cluster add up parts of K.
const CLUSTER_SUM_FAULTS: &[Fault] = &[
    (
        "a block sends sums to another that may not have begun",
        "wait_for_cluster();  // all blocks have begun",
        "",
        "orders the start of block",
    ),
    (
        "sums are added up before all blocks have sent them",
        "wait();\n#pragma unroll",
        "#pragma unroll",
        "unwritten bytes of shared memory",
    ),
    (
        "a block waits for fewer warps than send",
        "ARRIVALS = (SPLIT_K - 1) * CONSUMERS / 32",
        "ARRIVALS = (SPLIT_K - 1) * CONSUMERS / 32 - 1",
        "has written it",
    ),
    (
        "a block stores the share of another",
        "/ STEP % SPLIT_K != work.split",
        "/ STEP % SPLIT_K != SPLIT_K - 1 - work.split",
        "wrong",
    ),
    (
        "the sums of a part of K are added twice",
        "sums[i] += of_part[part][i];",
        "sums[i] += of_part[1][i];",
        "wrong",
    ),
    (
        "two parts are sent to one place",
        "part < block ? part : part - 1",
        "part / 2",
        "has written it",
    ),
];

/// Faults in how the sums of a cluster take the place of its rings.
const SUMS_IN_RING_FAULTS: &[Fault] = &[
    (
        "sums take the place of tiles that another block multiplies",
        "asm volatile(\"barrier.cluster.arrive.release.aligned;\" ::: \"memory\");\n            wait_for_cluster();",
        "",
        "orders the start of block",
    ),
    (
        "sums are sent before a block's last products are done",
        "wait_for_products<0>();\n            hold(sums);\n            release(former);\n            // Sums take the place of the ring, once all blocks have multiplied. Warps that have ended need not arrive.\n            asm volatile(\"barrier.cluster.arrive.release.aligned;\" ::: \"memory\");\n            wait_for_cluster();",
        "asm volatile(\"barrier.cluster.arrive.release.aligned;\" ::: \"memory\");\n            wait_for_cluster();\n            wait_for_products<0>();\n            hold(sums);\n            release(former);",
        "while a matrix product of warp",
    ),
    (
        "warps arrive and end before those that multiply arrive",
        "if (warp == CONSUMERS / 32 && is_elected()) {",
        "asm volatile(\"barrier.cluster.arrive.relaxed.aligned;\" ::: \"memory\");\n        if (warp == CONSUMERS / 32 && is_elected()) {",
        "may end before its whole block has arrived",
    ),
];

#[test]
fn faults_of_sums_that_meet_in_a_cluster_are_refused() {
    let words = [("SCHEDULER", 0), ("EPILOGUE", 0), ("REDUCTION", 1)];
    let values = [("WARPGROUPS", 2), ("BN", 32), ("SPLIT_K", 3)].into_iter().chain(words);
    let values: Vec<_> = values.collect();
    check_refused("128x32x640", &values, CLUSTER_SUM_FAULTS);
}

/// Tiles of 128 x 256 leave no room for sums beside four stages.
#[test]
fn faults_of_sums_in_the_place_of_the_ring_are_refused() {
    let tile = [("WARPGROUPS", 2), ("BN", 256), ("STAGES", 4), ("SPLIT_K", 2)];
    let words = [("SCHEDULER", 0), ("EPILOGUE", 0), ("REDUCTION", 1), ("SWAP", 0)];
    let values: Vec<_> = tile.into_iter().chain(words).collect();
    check_refused("128x256x640", &values, SUMS_IN_RING_FAULTS);
}

/// Warpgroups that load, integers, and more parts of K than shares of a tile.
#[test]
fn sums_in_the_place_of_the_ring_are_right() {
    let words = [("SCHEDULER", 0), ("EPILOGUE", 0), ("REDUCTION", 1), ("SWAP", 0)];
    let wide = [("WARPGROUPS", 2), ("BN", 256), ("STAGES", 4), ("SPLIT_K", 3)];
    let narrow = [("WARPGROUPS", 3), ("BN", 56), ("STAGES", 7), ("SPLIT_K", 8)];
    for (dtype, shape, tile, unaligned) in [
        (Dtype::Bf16, "128x256x645", wide, 1),
        (Dtype::I8, "128x256x1536", wide, 0),
        (Dtype::Bf16, "192x56x1024", narrow, 0),
    ] {
        let loads = [("UNALIGNED", unaligned), ("LOADERS", 1)];
        let values: Vec<_> = tile.into_iter().chain(words).chain(loads).collect();
        check_right((shape, dtype, Layout::Nt), &values, "once all blocks have multiplied");
    }
}
