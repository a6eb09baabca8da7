//! Accesses to the shared memory of other blocks of a cluster, and the check that those blocks have
//! not ended.

use crate::cpu::checks::{ExecutionCheck, ExecutionChecks, LaneViolation, ViolationKind};
use crate::cpu::vector_clock::VectorClock;

/// Latest access of a warp to the shared memory of another block.
#[derive(Debug, Clone, Copy)]
pub(super) struct RemoteAccess {
    /// Time of the warp at the access; 0 without one.
    pub(super) clock: u32,
    pub(super) step: usize,
    pub(super) lane: usize,
    pub(super) address: u64,
}

/// Ended blocks, and the latest remote accesses of all warps.
#[derive(Debug)]
pub(super) struct RemoteAccesses {
    /// Mask of the ended blocks.
    pub(super) ended: u32,
    pub(super) warps: usize,
    /// For each block, an entry for each warp of the cluster; empty without the check.
    pub(super) last: Vec<RemoteAccess>,
}

/// A remote access that is not ordered before the end of its target block.
#[derive(Debug, Clone, Copy)]
pub(super) struct LateAccess {
    /// Number in the cluster.
    pub(super) warp: usize,
    pub(super) step: usize,
    reach: RemoteAccess,
}

const NEVER: RemoteAccess = RemoteAccess { clock: 0, step: 0, lane: 0, address: 0 };

impl RemoteAccesses {
    /// Creates the state for clusters of `blocks` blocks with `warps_each` warps.
    pub(super) fn new(checks: ExecutionChecks, blocks: usize, warps_each: usize) -> Self {
        let warps = blocks * warps_each;
        let watched = blocks > 1 && checks.has(ExecutionCheck::Race);
        let last = vec![NEVER; if watched { blocks * warps } else { 0 }];
        Self { ended: 0, warps, last }
    }

    pub(super) fn reset(&mut self) {
        self.ended = 0;
        self.last.fill(NEVER);
    }

    /// Records the end of the block of a rank.
    pub(super) fn end(&mut self, rank: usize) {
        self.ended |= 1 << rank;
    }

    /// A remote access to a block that no barrier orders before its end. `final_clocks` yields the
    /// final clocks of the block's warps.
    pub(super) fn late<'c>(
        &self,
        rank: usize,
        final_clocks: impl Iterator<Item = &'c VectorClock> + Clone,
    ) -> Option<LateAccess> {
        let last = self.last.get(rank * self.warps..(rank + 1) * self.warps)?;
        let is_late = |(warp, reach): &(usize, &RemoteAccess)| {
            reach.clock > 0 && !final_clocks.clone().any(|clocks| clocks.covers(*warp, reach.clock))
        };
        let (warp, reach) = last.iter().enumerate().find(is_late)?;
        Some(LateAccess { warp, step: reach.step, reach: *reach })
    }
}

impl LateAccess {
    pub(super) fn violation(&self, rank: usize) -> LaneViolation {
        // The kind is the same whether the block has ended or may have.
        let text = format!(
            "no cluster barrier orders this access before the end of block {rank}, which owns the \
             shared memory"
        );
        LaneViolation::access(ViolationKind::OutOfBounds, self.reach.lane, self.reach.address, text)
    }
}
