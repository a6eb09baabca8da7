//! Counters of one step of a kernel.

use super::access_cost::{sectors, wavefronts};
use super::counts::MemoryCounts;

/// Counters of one step, summed over the blocks of a worker.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StepCounts {
    pub(super) executed: u64,
    pub(super) memory: MemoryCounts,
}

impl StepCounts {
    pub(super) fn add(&mut self, other: &Self) {
        self.executed += other.executed;
        self.memory.add(other.memory);
    }

    /// Counts a request to global memory.
    pub(super) fn global(&mut self, addresses: &[u64; 32], mask: u32, bytes: u32) {
        let sectors = sectors(addresses, mask, bytes);
        self.memory.requests += 1;
        self.memory.sectors += sectors;
        self.memory.bytes_useful += u64::from(bytes) * u64::from(mask.count_ones());
        self.memory.bytes_moved += 32 * sectors;
    }

    /// Counts an asynchronous copy: its reads, and the banks that it writes.
    pub(super) fn copy(
        &mut self,
        from: &[u64; 32],
        to: &[u64; 32],
        (active, reading): (u32, u32),
        bytes: u32,
    ) {
        if reading != 0 {
            self.global(from, reading, bytes);
        }
        let mut written = Self::default();
        written.shared(to, active, bytes);
        self.memory.wavefronts += written.memory.wavefronts;
        self.memory.bank_conflicts += written.memory.bank_conflicts;
    }

    /// Counts a tensor copy as one request. It writes shared memory in whole rows of banks.
    pub(super) fn copied(&mut self, sectors: u64, read: u64, written: u64) {
        self.memory.requests += 1;
        self.memory.sectors += sectors;
        self.memory.wavefronts += written.div_ceil(128);
        self.memory.bytes_useful += read;
        self.memory.bytes_moved += 32 * sectors;
    }

    /// Counts a request to shared memory.
    pub(super) fn shared(&mut self, addresses: &[u64; 32], mask: u32, bytes: u32) {
        if mask == 0 {
            return;
        }
        let (wavefronts, needed) = wavefronts(addresses, mask, bytes);
        self.memory.requests += 1;
        self.memory.wavefronts += wavefronts;
        self.memory.bank_conflicts += wavefronts - needed;
        self.memory.bytes_useful += u64::from(bytes) * u64::from(mask.count_ones());
        self.memory.bytes_moved += 128 * wavefronts;
    }
}
