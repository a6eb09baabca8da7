//! Vector clocks of warps, for the detection of races.

use std::ops::Range;

/// The times that a warp knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VectorClock(Vec<u32>);

impl VectorClock {
    /// At the beginning of a cluster of so many warps.
    pub(super) fn new(warps: usize, own: usize) -> Self {
        let mut clocks = vec![0; warps];
        clocks[own] = 1;
        Self(clocks)
    }

    /// Learns what another warp knows.
    pub(super) fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    /// The latest time of a warp or an engine that is ordered before now; 0 where there is none.
    #[inline(always)]
    pub(super) fn of(&self, other: usize) -> u32 {
        self.0.get(other).copied().unwrap_or(0)
    }

    /// Learns that an engine has come to a time.
    pub(super) fn learn(&mut self, engine: usize, clock: u32) {
        if self.0.len() <= engine {
            self.0.resize(engine + 1, 0);
        }
        self.0[engine] = self.0[engine].max(clock);
    }

    /// Whether a barrier orders what another warp did at a time before what comes now.
    pub(super) fn knows(&self, warp: usize, clock: u32) -> bool {
        self.0[warp] >= clock
    }

    /// Whether anything is known of some warps.
    pub(super) fn know_any(&self, warps: Range<usize>) -> bool {
        self.0.get(warps).is_some_and(|clocks| clocks.iter().any(|clock| *clock > 0))
    }

    /// The time of the warp that these clocks belong to.
    #[inline(always)]
    pub(super) fn now(&self, own: usize) -> u32 {
        self.0[own]
    }

    /// Goes on to the next time.
    pub(super) fn advance(&mut self, own: usize) {
        self.0[own] += 1;
    }
}
