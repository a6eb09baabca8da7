//! Accesses to the shared memory of other blocks of a cluster, and the check that those blocks have
//! not ended.

use std::collections::BTreeMap;

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
    /// Latest copy to an mbarrier that another block issued, by the clock entry of the mbarrier.
    copies: BTreeMap<usize, RemoteCopy>,
}

/// A tensor copy to the shared memory of another block. It ends when the phase of its mbarrier does.
#[derive(Debug, Clone, Copy)]
pub(super) struct RemoteCopy {
    /// The block that it writes to.
    pub(super) rank: usize,
    /// Warp that issued it, by its number in the cluster.
    pub(super) warp: usize,
    /// Its clock is that of the mbarrier.
    pub(super) access: RemoteAccess,
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
        Self { ended: 0, warps, last, copies: BTreeMap::new() }
    }

    pub(super) fn reset(&mut self) {
        self.ended = 0;
        self.last.fill(NEVER);
        self.copies.clear();
    }

    /// Records a copy to an mbarrier, whose clock entry is `engine`.
    pub(super) fn copy(&mut self, engine: usize, copy: RemoteCopy) {
        if !self.last.is_empty() {
            self.copies.insert(engine, copy);
        }
    }

    /// Records the end of the block of a rank.
    pub(super) fn end(&mut self, rank: usize) {
        self.ended |= 1 << rank;
    }

    /// A remote access to a block that no barrier orders before its end, or a copy whose phase none of its warps has
    /// seen complete. `final_clocks` yields the final clocks of the block's warps.
    pub(super) fn late<'c>(
        &self,
        rank: usize,
        final_clocks: impl Iterator<Item = &'c VectorClock> + Clone,
    ) -> Option<LateAccess> {
        let last = self.last.get(rank * self.warps..(rank + 1) * self.warps)?;
        let is_late = |(warp, reach): &(usize, &RemoteAccess)| {
            reach.clock > 0 && !final_clocks.clone().any(|clocks| clocks.covers(*warp, reach.clock))
        };
        if let Some((warp, reach)) = last.iter().enumerate().find(is_late) {
            return Some(LateAccess { warp, step: reach.step, reach: *reach });
        }
        let is_in_flight = |(engine, copy): &(&usize, &RemoteCopy)| {
            let clock = copy.access.clock;
            copy.rank == rank && !final_clocks.clone().any(|clocks| clocks.of(**engine) >= clock)
        };
        let (_, RemoteCopy { warp, access, .. }) = self.copies.iter().find(is_in_flight)?;
        Some(LateAccess { warp: *warp, step: access.step, reach: *access })
    }
}

impl LateAccess {
    pub(super) fn violation(&self, rank: usize) -> LaneViolation {
        // The kind is the same whether the block has ended or may have.
        let text = format!(
            "nothing orders this access before the end of block {rank}, which owns the shared \
             memory: no cluster barrier, and no mbarrier that the block waits for"
        );
        LaneViolation::access(ViolationKind::OutOfBounds, self.reach.lane, self.reach.address, text)
    }
}
