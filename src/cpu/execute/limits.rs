//! Extents of a launch, and the limits that CUDA devices and clusters put on them.

use super::options::BlockSelection;
use crate::cpu::layout::{MAX_CLUSTER, MAX_SHARED};
use crate::cpu::module::PtxKernel;
use crate::cpu::parse::ClusterDirectives;

/// Extents of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaunchExtents {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) dynamic_shared: u32,
    /// Blocks of a cluster; one without clusters.
    pub(super) cluster: [u32; 3],
}

/// Checks the extents against the limits of CUDA devices.
pub(super) fn check_extents(extents: LaunchExtents) -> Result<(), String> {
    let threads: u64 = extents.block.iter().map(|extent| u64::from(*extent)).product();
    if threads == 0 || threads > 1024 || extents.block.iter().any(|extent| *extent > 1024) {
        return Err(format!("a block has 1 to 1024 threads, not {threads}"));
    }
    let [x, y, z] = extents.grid;
    if x == 0 || y == 0 || z == 0 || x > i32::MAX as u32 || y > 65_535 || z > 65_535 {
        return Err(format!("a grid of {x} x {y} x {z} blocks exceeds the limits of CUDA"));
    }
    if u64::from(extents.dynamic_shared) > MAX_SHARED {
        return Err(format!(
            "{} bytes of dynamic shared memory exceed the limit of {MAX_SHARED}",
            extents.dynamic_shared
        ));
    }
    Ok(())
}

/// Checks the cluster directives of a kernel.
pub(super) fn check_cluster(kernel: &PtxKernel, extents: LaunchExtents) -> Result<(), String> {
    let ClusterDirectives { explicit, extents: given, most, .. } = kernel.code.clusters;
    if explicit && given.is_none() {
        return Err("it is compiled for clusters without a cluster size".to_owned());
    }
    let blocks: u64 = extents.cluster.iter().map(|extent| u64::from(*extent)).product();
    let most = most.map_or(MAX_CLUSTER, |most| most.min(MAX_CLUSTER));
    if blocks == 0 || blocks > u64::from(most) {
        return Err(format!("a cluster must have 1 to {most} blocks, not {blocks}"));
    }
    let whole = extents.grid.iter().zip(extents.cluster).all(|(grid, cluster)| grid % cluster == 0);
    if !whole {
        let list = |[x, y, z]: [u32; 3]| format!("{x} x {y} x {z}");
        let (grid, cluster) = (list(extents.grid), list(extents.cluster));
        return Err(format!("a grid of {grid} blocks is not a multiple of clusters of {cluster}"));
    }
    Ok(())
}

/// Checks that the selected blocks are in the grid.
pub(super) fn check_blocks(extents: LaunchExtents, blocks: &BlockSelection) -> Result<(), String> {
    let BlockSelection::Selected(blocks) = blocks else { return Ok(()) };
    let inside = |block: &[u32; 3]| block.iter().zip(extents.grid).all(|(at, end)| *at < end);
    match blocks.iter().find(|block| !inside(block)) {
        None => Ok(()),
        Some(block) => Err(format!("the selected block {block:?} is not in the grid")),
    }
}
