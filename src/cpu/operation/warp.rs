//! Operands of instructions that combine lanes of a warp, or synchronise warps of a block or a
//! cluster.

use super::operands::{PredicateOperand, RegisterSlot};

/// Mode of `shfl`: which lane is the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

/// Mode of `vote`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum VoteMode {
    All,
    Any,
    Uniform,
    Ballot(RegisterSlot),
}

/// Mode of a block barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum BarrierMode {
    /// `bar.sync`: waits for the other warps.
    Sync,
    /// `bar.arrive`: does not wait.
    Arrive,
}

/// Step of the cluster barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum ClusterBarrierStep {
    /// Arrives without waiting.
    Arrive(ArriveOrder),
    /// Waits until all threads have arrived.
    Wait,
}

/// Memory order of an arrival at the cluster barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum ArriveOrder {
    /// `.release`: publishes all earlier accesses.
    Release,
    /// `.relaxed`: publishes the accesses before the last fence.
    Relaxed,
}

/// Reduction of `bar.red` over all threads of a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct BarrierReduction {
    pub(in crate::cpu) result: ReductionResult,
    pub(in crate::cpu) a: PredicateOperand,
}

/// Kind of a reduction, and its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum ReductionResult {
    /// Number of threads with a true predicate.
    Count(RegisterSlot),
    /// Whether the predicate of all threads is true.
    All(RegisterSlot),
    /// Whether the predicate of any thread is true.
    Any(RegisterSlot),
}

/// Mode of `match`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum MatchMode {
    /// Lanes with the same value.
    Any,
    /// All lanes if their values are equal, which also sets the predicate.
    All(Option<RegisterSlot>),
}
