//! Grouping of blocks into clusters, and the order in which clusters begin.

use std::collections::BTreeSet;

use super::limits::LaunchExtents;
use super::options::BlockSelection;

/// The clusters of a launch. Without clusters, each block is a cluster.
#[derive(Debug)]
pub(super) struct ClusterOrder<'a> {
    grid: [u32; 3],
    cluster: [u32; 3],
    chosen: Option<SelectedBlocks<'a>>,
}

#[derive(Debug)]
struct SelectedBlocks<'a> {
    blocks: &'a [[u32; 3]],
    /// Clusters of the selected blocks, without duplicates.
    clusters: Vec<[u32; 3]>,
}

impl<'a> ClusterOrder<'a> {
    pub(super) fn new(extents: LaunchExtents, blocks: &'a BlockSelection) -> Self {
        let LaunchExtents { grid, cluster, .. } = extents;
        let chosen = match blocks {
            BlockSelection::All => None,
            BlockSelection::Selected(blocks) => {
                let mut seen = BTreeSet::new();
                let clusters = blocks.iter().map(|block| quotient(*block, cluster));
                let clusters = clusters.filter(|cluster| seen.insert(*cluster)).collect();
                Some(SelectedBlocks { blocks, clusters })
            }
        };
        Self { grid: quotient(grid, cluster), cluster, chosen }
    }

    /// Number of clusters to execute.
    pub(super) fn count(&self) -> usize {
        match &self.chosen {
            None => self.grid.iter().map(|extent| *extent as usize).product(),
            Some(chosen) => chosen.clusters.len(),
        }
    }

    /// Blocks of a cluster.
    pub(super) fn blocks_each(&self) -> usize {
        self.cluster.iter().map(|extent| *extent as usize).product()
    }

    /// Index of the block of a rank in cluster `number`.
    pub(super) fn block(&self, number: usize, rank: usize) -> [u32; 3] {
        let cluster = match &self.chosen {
            None => place(self.grid, number),
            Some(chosen) => chosen.clusters[number],
        };
        let within = place(self.cluster, rank);
        std::array::from_fn(|at| cluster[at] * self.cluster[at] + within[at])
    }

    /// Whether a block was selected itself, rather than executed because its cluster was.
    pub(super) fn is_selected(&self, block: [u32; 3]) -> bool {
        self.chosen.as_ref().is_none_or(|chosen| chosen.blocks.contains(&block))
    }
}

/// Component-wise quotient of extents.
fn quotient(all: [u32; 3], part: [u32; 3]) -> [u32; 3] {
    std::array::from_fn(|at| all[at] / part[at])
}

/// Index in x, y and z of a linear number.
fn place(extents: [u32; 3], number: usize) -> [u32; 3] {
    let [x, y, _] = extents.map(|extent| extent as usize);
    [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32]
}
