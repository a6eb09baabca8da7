//! What threads do together: ask the lanes of their warp, and meet the warps of a block or cluster.

use super::operands::{Slot, Test};

/// From which lane `shfl` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// What `vote` asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum Vote {
    All,
    Any,
    Uniform,
    Ballot(Slot),
}

/// What a thread does at a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum Arrival {
    /// Waits for the others.
    Wait,
    /// Goes on.
    Announce,
}

/// What a thread does at the barrier of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum ClusterStep {
    /// Says that it has come, and goes on.
    Arrive(Publishing),
    /// Waits until all have come.
    Wait,
}

/// Whether those who wait see what a thread did before it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum Publishing {
    /// `.release`
    Everything,
    /// `.relaxed`: what came before the last fence.
    Fenced,
}

/// What `bar.red` asks all threads of a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct Poll {
    pub(in crate::cpu) asks: Asks,
    pub(in crate::cpu) a: Test,
}

/// What is made of the answers, and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum Asks {
    /// How many threads hold.
    Count(Slot),
    /// Whether all do.
    All(Slot),
    /// Whether any does.
    Any(Slot),
}

/// What `match` looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum Match {
    /// The lanes with the same value.
    Any,
    /// All lanes, if their values are the same, which goes to the predicate.
    All(Option<Slot>),
}
