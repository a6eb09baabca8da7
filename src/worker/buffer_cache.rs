//! Cache of freed device memory: the next candidate's workspaces often have the size of the last
//! one's. Independent of the device.
//!
//! Measurements: `docs/decisions/2026-11-23-worker-buffer-cache.md`.

use std::collections::VecDeque;

/// Allocation granularity of drivers. A cached buffer is reused only for a size with the same
/// number of granules, so that memory beyond an allocation's end stays unmapped.
const GRANULE: u64 = 2 << 20;

/// Freed buffers with their sizes in bytes, oldest first.
#[derive(Debug)]
pub(super) struct BufferCache<B> {
    /// Maximum of bytes kept.
    limit: u64,
    kept: u64,
    buffers: VecDeque<(u64, B)>,
}

impl<B> BufferCache<B> {
    /// Creates an empty cache of at most `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, kept: 0, buffers: VecDeque::new() }
    }

    /// Stores a buffer; drops the oldest ones beyond the limit.
    pub(super) fn keep(&mut self, bytes: u64, buffer: B) {
        self.kept = self.kept.saturating_add(bytes);
        self.buffers.push_back((bytes, buffer));
        while self.kept > self.limit
            && let Some((bytes, _)) = self.buffers.pop_front()
        {
            self.kept -= bytes;
        }
    }

    /// Returns a cached buffer of at least `bytes` bytes whose size matches a new allocation.
    pub(super) fn take(&mut self, bytes: u64) -> Option<B> {
        let granules = bytes.div_ceil(GRANULE);
        let fits = |kept: u64| kept >= bytes && kept.div_ceil(GRANULE) == granules;
        let place = self.buffers.iter().rposition(|(kept, _)| fits(*kept))?;
        let (bytes, buffer) = self.buffers.remove(place)?;
        self.kept -= bytes;
        Some(buffer)
    }

    /// Drops all buffers.
    pub(super) fn clear(&mut self) {
        self.buffers.clear();
        self.kept = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_buffer_of_the_same_size_is_reused() {
        let mut cache = BufferCache::new(100 * MIB);
        cache.keep(7 * MIB, "seven");
        cache.keep(8 * MIB, "eight");
        assert_eq!(cache.take(9 * MIB), None, "none is large enough");
        assert_eq!(cache.take(6 * MIB), None, "a new one would be smaller");
        assert_eq!(cache.take(7 * MIB), Some("eight"), "as large, and freed last");
        assert_eq!(cache.take(7 * MIB), Some("seven"));
        assert_eq!((cache.take(7 * MIB), cache.kept), (None, 0));
    }

    #[test]
    fn the_cache_keeps_to_its_limit() {
        let mut cache = BufferCache::new(10 * MIB);
        for (bytes, name) in [(4, "a"), (4, "b"), (4, "c")] {
            cache.keep(bytes * MIB, name);
        }
        assert_eq!((cache.buffers.len(), cache.kept), (2, 8 * MIB));
        assert_eq!((cache.take(4 * MIB), cache.take(4 * MIB)), (Some("c"), Some("b")));
        cache.keep(11 * MIB, "too large");
        assert_eq!(cache.take(11 * MIB), None);
        cache.keep(MIB, "d");
        cache.clear();
        assert_eq!((cache.take(MIB), cache.kept), (None, 0));
    }
}
