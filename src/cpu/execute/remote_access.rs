//! Accesses to the shared memory of other blocks of the cluster, for the check that those blocks still exist.

use crate::cpu::checks::{ExecutionCheck, ExecutionChecks, LaneViolation, ViolationKind};
use crate::cpu::vector_clock::VectorClock;

/// The last access of a warp to the shared memory of a block that is not its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct RemoteAccess {
    /// The warp's time then; 0 where there was none.
    pub(super) clock: u32,
    pub(super) step: usize,
    pub(super) lane: usize,
    pub(super) address: u64,
}

/// Which blocks have ended, and who reached into which.
#[derive(Debug)]
pub(super) struct RemoteAccesses {
    /// A bit for each block.
    pub(super) ended: u32,
    pub(super) warps: usize,
    /// For each block, for each warp of the cluster; empty where nobody asks.
    pub(super) last: Vec<RemoteAccess>,
}

/// An access that a block's end may have come before.
#[derive(Debug, Clone, Copy)]
pub(super) struct LateAccess {
    /// By its number in the cluster.
    pub(super) warp: usize,
    pub(super) step: usize,
    reach: RemoteAccess,
}

const NEVER: RemoteAccess = RemoteAccess { clock: 0, step: 0, lane: 0, address: 0 };

impl RemoteAccesses {
    /// For clusters of `blocks` blocks of `warps_each` warps.
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

    /// The block of a rank ends.
    pub(super) fn end(&mut self, rank: usize) {
        self.ended |= 1 << rank;
    }

    /// An access to what a block had that no barrier puts before its end; `known` is what its warps
    /// knew at last.
    pub(super) fn late<'c>(
        &self,
        rank: usize,
        known: impl Iterator<Item = &'c VectorClock> + Clone,
    ) -> Option<LateAccess> {
        let last = self.last.get(rank * self.warps..(rank + 1) * self.warps)?;
        let is_late = |(warp, reach): &(usize, &RemoteAccess)| {
            reach.clock > 0 && !known.clone().any(|clocks| clocks.knows(*warp, reach.clock))
        };
        let (warp, reach) = last.iter().enumerate().find(is_late)?;
        Some(LateAccess { warp, step: reach.step, reach: *reach })
    }
}

impl LateAccess {
    pub(super) fn violation(&self, rank: usize) -> LaneViolation {
        // The same kind whether the block has ended already or only may have.
        let text = format!(
            "no barrier of the cluster keeps block {rank} of it from ending before this access to its \
             shared memory"
        );
        LaneViolation::access(ViolationKind::OutOfBounds, self.reach.lane, self.reach.address, text)
    }
}
