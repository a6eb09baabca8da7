//! State of the barriers of a cluster's blocks, and of the cluster's own barrier.

use crate::cpu::operation::ReductionResult;
use crate::cpu::vector_clock::VectorClock;

/// Barriers of a block (ISA section 9.7.13.1).
pub(super) const BARRIERS: usize = 16;

/// A barrier of a block.
#[derive(Debug, Clone, Default)]
pub(super) struct BlockBarrier {
    /// Threads that have arrived; a warp counts as 32.
    pub(super) arrived: u32,
    /// Threads that the barrier waits for; `None` for all threads of the block.
    pub(super) expected: Option<u32>,
    pub(super) waiting: Vec<WaitingWarp>,
    /// Threads that take part in `bar.red`, and those whose predicate is true.
    pub(super) participants: u32,
    pub(super) true_lanes: u32,
    /// Merged clocks of the warps that have arrived.
    pub(super) clock: Option<VectorClock>,
}

/// A warp that waits at a barrier.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitingWarp {
    /// Number in the cluster.
    pub(super) warp: usize,
    pub(super) step: u32,
    pub(super) reduction: Option<ReductionInput>,
}

/// A warp's contribution to `bar.red`: its lanes, and those whose predicate is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReductionInput {
    pub(super) result: ReductionResult,
    pub(super) participants: u32,
    pub(super) true_lanes: u32,
}

/// The barriers of a cluster.
#[derive(Debug)]
pub(super) struct BarrierStates {
    /// Barriers of the block of rank 0, then of the next ranks.
    pub(super) of_blocks: Vec<BlockBarrier>,
    /// Merged clocks of the warps that have arrived at the cluster barrier.
    pub(super) arriving: Option<VectorClock>,
    /// Merged clocks of all warps at the last release of the cluster barrier.
    pub(super) released: Option<VectorClock>,
}

impl BarrierStates {
    pub(super) fn new(blocks: usize) -> Self {
        Self {
            of_blocks: vec![BlockBarrier::default(); blocks * BARRIERS],
            arriving: None,
            released: None,
        }
    }

    /// Clears the state for the next cluster.
    pub(super) fn reset(&mut self) {
        self.of_blocks.fill(BlockBarrier::default());
        (self.arriving, self.released) = (None, None);
    }

    /// Describes what a barrier of a block waits for.
    pub(super) fn describe(&self, at: usize) -> String {
        let barrier = &self.of_blocks[at];
        let (id, expected) = (at % BARRIERS, thread_count(barrier.expected));
        format!("at barrier {id}, {} threads wait for {expected}", barrier.arrived)
    }
}

pub(super) fn thread_count(expected: Option<u32>) -> String {
    match expected {
        Some(threads) => format!("{threads} threads"),
        None => "all threads".to_owned(),
    }
}
