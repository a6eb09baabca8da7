//! Vector clocks for the detection of races. Each warp has one; entries beyond the warps belong to
//! engines: to matrix products, bulk stores and mbarriers.

use std::ops::Range;

/// Times of all warps that a warp has observed, its own included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VectorClock {
    observed: Vec<u32>,
    /// Times up to which a proxy fence orders the work of each warp before asynchronous accesses. Missing entries are
    /// zero.
    fenced: Vec<u32>,
}

/// Merges times into others.
fn join(times: &mut Vec<u32>, others: &[u32]) {
    if times.len() < others.len() {
        times.resize(others.len(), 0);
    }
    for (own, other) in times.iter_mut().zip(others) {
        *own = (*own).max(*other);
    }
}

impl VectorClock {
    /// Creates the clock of warp `own` at the start of a cluster of `warps` warps.
    pub(super) fn new(warps: usize, own: usize) -> Self {
        let mut observed = vec![0; warps];
        observed[own] = 1;
        Self { observed, fenced: Vec::new() }
    }

    /// Merges the times that another warp has observed.
    pub(super) fn join(&mut self, other: &Self) {
        join(&mut self.observed, &other.observed);
        join(&mut self.fenced, &other.fenced);
    }

    /// Latest observed time of a warp or an engine; 0 where there is none.
    #[inline(always)]
    pub(super) fn of(&self, other: usize) -> u32 {
        self.observed.get(other).copied().unwrap_or(0)
    }

    /// Time up to which a proxy fence orders the work of a warp before asynchronous accesses.
    pub(super) fn fenced(&self, warp: usize) -> u32 {
        self.fenced.get(warp).copied().unwrap_or(0)
    }

    /// Orders everything observed so far before later asynchronous accesses: `fence.proxy.async`.
    pub(super) fn fence_proxy(&mut self, own: usize) {
        join(&mut self.fenced, &self.observed);
        self.advance(own);
    }

    /// Records that an engine has reached a time.
    pub(super) fn observe(&mut self, engine: usize, clock: u32) {
        if self.observed.len() <= engine {
            self.observed.resize(engine + 1, 0);
        }
        self.observed[engine] = self.observed[engine].max(clock);
    }

    /// Whether a time of another warp is ordered before now.
    pub(super) fn covers(&self, warp: usize, clock: u32) -> bool {
        self.observed[warp] >= clock
    }

    /// Whether any work of some warps is ordered before now.
    pub(super) fn covers_any(&self, warps: Range<usize>) -> bool {
        self.observed.get(warps).is_some_and(|clocks| clocks.iter().any(|clock| *clock > 0))
    }

    /// Own time of the warp that the clock belongs to.
    #[inline(always)]
    pub(super) fn now(&self, own: usize) -> u32 {
        self.observed[own]
    }

    /// Advances the own time.
    pub(super) fn advance(&mut self, own: usize) {
        self.observed[own] += 1;
    }
}
