//! Reads of shared memory that end after their instruction: those of matrix products and bulk stores.
//!
//! Each warp has an engine for either kind. The clock of an engine counts its groups. A warp that waits for a group
//! observes its clock, and barriers pass it on. A write to shared memory needs all earlier reads observed.

use super::vector_clock::VectorClock;

/// Bytes of a place whose reads are recorded together.
const CHUNK: u64 = 16;

/// Kind of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AsyncEngine {
    /// `wgmma.mma_async`
    Products,
    /// `cp.async.bulk` and `cp.reduce.async.bulk` from shared memory.
    Stores,
}

/// Kinds of engines, each with one per warp.
const KINDS: usize = 2;

/// The latest read of each place by each engine of its block.
#[derive(Debug, Default)]
pub(super) struct AsyncReads {
    /// Warps of the cluster and of each block.
    warps: usize,
    warps_each: usize,
    /// For every chunk, the clocks of the engines of its block; empty without engines.
    clocks: Vec<u32>,
    /// Chunks of a block.
    chunks: usize,
}

/// A read that a write is not ordered after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnfinishedRead {
    pub(super) engine: AsyncEngine,
    /// Number of the warp in the cluster.
    pub(super) warp: usize,
    /// Position in the shared memory of the cluster.
    pub(super) place: u64,
}

/// Index of an engine's clock entry, in a cluster of `warps` warps.
pub(super) fn engine_index(warps: usize, engine: AsyncEngine, warp: usize) -> usize {
    warps * (1 + engine as usize) + warp
}

/// Index of the first clock entry that belongs to no warp and to no engine of one.
pub(super) fn end_of_engines(warps: usize) -> usize {
    warps * (1 + KINDS)
}

impl AsyncReads {
    /// Creates the records for blocks of `bytes` bytes and `warps_each` warps.
    pub(super) fn new(blocks: usize, bytes: u64, warps_each: usize) -> Self {
        let chunks = bytes.div_ceil(CHUNK) as usize;
        let warps = blocks * warps_each;
        Self { warps, warps_each, clocks: vec![0; chunks * warps * KINDS], chunks }
    }

    /// Clears the records for the next cluster.
    pub(super) fn reset(&mut self) {
        self.clocks.fill(0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clocks.is_empty()
    }

    /// Records a read by an engine of the place's own block.
    pub(super) fn record(
        &mut self,
        (place, bytes): (u64, u32),
        engine: AsyncEngine,
        warp: usize,
        clock: u32,
    ) {
        let each = self.warps_each * KINDS;
        let at = engine as usize * self.warps_each + warp % self.warps_each.max(1);
        for chunk in chunks(place, bytes) {
            if let Some(of_engine) = self.clocks.get_mut(chunk * each + at) {
                *of_engine = clock;
            }
        }
    }

    /// A read of a place that has not been observed.
    pub(super) fn unfinished(
        &self,
        clocks: &VectorClock,
        (place, bytes): (u64, u32),
    ) -> Option<UnfinishedRead> {
        let each = self.warps_each * KINDS;
        chunks(place, bytes).find_map(|chunk| {
            let first = chunk / self.chunks.max(1) * self.warps_each;
            let of_chunk = self.clocks.get(chunk * each..(chunk + 1) * each)?;
            of_chunk.iter().enumerate().filter(|(_, clock)| **clock > 0).find_map(|(at, clock)| {
                let (engine, warp) = match at / self.warps_each {
                    0 => (AsyncEngine::Products, first + at),
                    _ => (AsyncEngine::Stores, first + at - self.warps_each),
                };
                let is_over = *clock <= clocks.of(engine_index(self.warps, engine, warp));
                let place = place.max(chunk as u64 * CHUNK);
                (!is_over).then_some(UnfinishedRead { engine, warp, place })
            })
        })
    }
}

fn chunks(place: u64, bytes: u32) -> std::ops::Range<usize> {
    (place / CHUNK) as usize..(place + u64::from(bytes)).div_ceil(CHUNK) as usize
}
