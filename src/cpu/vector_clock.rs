//! Vector clocks for the detection of races. Each warp has one; entries beyond the warps belong to
//! mbarriers.

use std::ops::Range;

/// Times of all warps that a warp has observed, its own included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VectorClock(Vec<u32>);

impl VectorClock {
    /// Creates the clock of warp `own` at the start of a cluster of `warps` warps.
    pub(super) fn new(warps: usize, own: usize) -> Self {
        let mut clocks = vec![0; warps];
        clocks[own] = 1;
        Self(clocks)
    }

    /// Merges the times that another warp has observed.
    pub(super) fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    /// Latest observed time of a warp or an engine; 0 where there is none.
    #[inline(always)]
    pub(super) fn of(&self, other: usize) -> u32 {
        self.0.get(other).copied().unwrap_or(0)
    }

    /// Records that an engine has reached a time.
    pub(super) fn observe(&mut self, engine: usize, clock: u32) {
        if self.0.len() <= engine {
            self.0.resize(engine + 1, 0);
        }
        self.0[engine] = self.0[engine].max(clock);
    }

    /// Whether a time of another warp is ordered before now.
    pub(super) fn covers(&self, warp: usize, clock: u32) -> bool {
        self.0[warp] >= clock
    }

    /// Whether any work of some warps is ordered before now.
    pub(super) fn covers_any(&self, warps: Range<usize>) -> bool {
        self.0.get(warps).is_some_and(|clocks| clocks.iter().any(|clock| *clock > 0))
    }

    /// Own time of the warp that the clock belongs to.
    #[inline(always)]
    pub(super) fn now(&self, own: usize) -> u32 {
        self.0[own]
    }

    /// Advances the own time.
    pub(super) fn advance(&mut self, own: usize) {
        self.0[own] += 1;
    }
}
