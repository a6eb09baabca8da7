//! State of the barriers of a cluster's blocks, and of the cluster's own barrier.

use crate::cpu::operation::ReductionResult;
use crate::cpu::vector_clock::VectorClock;

/// How many barriers a block has (ISA section 9.7.13.1).
pub(super) const BARRIERS: usize = 16;

/// A barrier that some warps have come to.
#[derive(Debug, Clone, Default)]
pub(super) struct BlockBarrier {
    /// Threads that came; warps count whole.
    pub(super) arrived: u32,
    /// Threads that it waits for; `None` for all of the block.
    pub(super) wanted: Option<u32>,
    pub(super) waiting: Vec<WaitingWarp>,
    /// How many threads `bar.red` asked, and of how many it holds.
    pub(super) asked: u32,
    pub(super) holding: u32,
    /// What the warps that came know.
    pub(super) known: Option<VectorClock>,
}

/// A warp that waits at a barrier.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitingWarp {
    /// By its number in the cluster.
    pub(super) warp: usize,
    pub(super) step: u32,
    pub(super) reduction: Option<ReductionInput>,
}

/// The answer of a warp's lanes to `bar.red`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReductionInput {
    pub(super) asks: ReductionResult,
    pub(super) asked: u32,
    pub(super) holding: u32,
}

/// The barriers of a cluster.
#[derive(Debug)]
pub(super) struct BarrierStates {
    /// Those of the block of rank 0, then of the next.
    pub(super) of_blocks: Vec<BlockBarrier>,
    /// What the warps know that have come to the cluster's barrier.
    pub(super) arriving: Option<VectorClock>,
    /// What all knew together when they had come to it.
    pub(super) met: Option<VectorClock>,
}

impl BarrierStates {
    pub(super) fn new(blocks: usize) -> Self {
        Self {
            of_blocks: vec![BlockBarrier::default(); blocks * BARRIERS],
            arriving: None,
            met: None,
        }
    }

    /// Forgets everything: another cluster begins.
    pub(super) fn reset(&mut self) {
        self.of_blocks.fill(BlockBarrier::default());
        (self.arriving, self.met) = (None, None);
    }

    /// What a barrier of a block waits for.
    pub(super) fn describe(&self, at: usize) -> String {
        let barrier = &self.of_blocks[at];
        let (id, wanted) = (at % BARRIERS, thread_count(barrier.wanted));
        format!("at barrier {id}, {} threads wait for {wanted}", barrier.arrived)
    }
}

pub(super) fn thread_count(wanted: Option<u32>) -> String {
    match wanted {
        Some(threads) => format!("{threads} threads"),
        None => "all threads".to_owned(),
    }
}
