//! Which blocks form a cluster, and in which order clusters begin.

use std::collections::BTreeSet;

use super::limits::LaunchExtents;
use super::options::BlockSelection;

/// The clusters of a launch. A kernel that asks for none has clusters of one block.
#[derive(Debug)]
pub(super) struct ClusterOrder<'a> {
    grid: [u32; 3],
    cluster: [u32; 3],
    chosen: Option<SelectedBlocks<'a>>,
}

#[derive(Debug)]
struct SelectedBlocks<'a> {
    blocks: &'a [[u32; 3]],
    /// The clusters that they belong to, each once.
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

    /// How many clusters there are to execute.
    pub(super) fn count(&self) -> usize {
        match &self.chosen {
            None => self.grid.iter().map(|extent| *extent as usize).product(),
            Some(chosen) => chosen.clusters.len(),
        }
    }

    /// How many blocks a cluster has.
    pub(super) fn blocks_each(&self) -> usize {
        self.cluster.iter().map(|extent| *extent as usize).product()
    }

    /// The block of a rank in the cluster that begins as number `number`.
    pub(super) fn block(&self, number: usize, rank: usize) -> [u32; 3] {
        let cluster = match &self.chosen {
            None => place(self.grid, number),
            Some(chosen) => chosen.clusters[number],
        };
        let within = place(self.cluster, rank);
        std::array::from_fn(|at| cluster[at] * self.cluster[at] + within[at])
    }

    /// Whether a block is executed for its own sake, not for a cluster's.
    pub(super) fn is_wanted(&self, block: [u32; 3]) -> bool {
        self.chosen.as_ref().is_none_or(|chosen| chosen.blocks.contains(&block))
    }
}

/// How many extents fit into others.
fn quotient(all: [u32; 3], part: [u32; 3]) -> [u32; 3] {
    std::array::from_fn(|at| all[at] / part[at])
}

/// The index in x, y and z of what is number `number` among so many.
fn place(extents: [u32; 3], number: usize) -> [u32; 3] {
    let [x, y, _] = extents.map(|extent| extent as usize);
    [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32]
}
