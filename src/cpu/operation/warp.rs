//! What threads do together: ask the lanes of their warp, and meet the warps of a block or cluster.

use super::operands::{PredicateOperand, RegisterSlot};

/// From which lane `shfl` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

/// What `vote` asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum VoteMode {
    All,
    Any,
    Uniform,
    Ballot(RegisterSlot),
}

/// What a thread does at a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum BarrierMode {
    /// `bar.sync`: waits for the others.
    Sync,
    /// `bar.arrive`: goes on.
    Arrive,
}

/// What a thread does at the barrier of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum ClusterBarrierStep {
    /// Says that it has come, and goes on.
    Arrive(ArriveOrder),
    /// Waits until all have come.
    Wait,
}

/// Whether those who wait see what a thread did before it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum ArriveOrder {
    /// `.release`: all accesses before it are visible.
    Release,
    /// `.relaxed`: what came before the last fence.
    Relaxed,
}

/// What `bar.red` asks all threads of a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct BarrierReduction {
    pub(in crate::cpu) asks: ReductionResult,
    pub(in crate::cpu) a: PredicateOperand,
}

/// What is made of the answers, and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum ReductionResult {
    /// How many threads hold.
    Count(RegisterSlot),
    /// Whether all do.
    All(RegisterSlot),
    /// Whether any does.
    Any(RegisterSlot),
}

/// What `match` looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum MatchMode {
    /// The lanes with the same value.
    Any,
    /// All lanes, if their values are the same, which goes to the predicate.
    All(Option<RegisterSlot>),
}
