//! Device memory with a guard zone on either side, so that a stray write has somewhere to land
//! where it is noticed.

use crate::worker::{Executor, WorkerError};

/// Bytes of a guard zone. A stray row of a large matrix lands inside; what goes further most likely
/// faults, since nothing is allocated there.
pub const GUARD_BYTES: u64 = 1 << 20;

/// What guard zones hold, and C before a run: a NaN that no arithmetic produces, so that reading
/// it spoils the result and not writing it is seen.
pub(super) const POISON: u32 = 0x7fe5_c0de;

/// A guarded range of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// Where the data begins: a multiple of 256.
    pub address: u64,
    /// Bytes of data, a multiple of 4.
    pub bytes: u64,
}

impl Zone {
    /// Bytes of device memory that a zone for `bytes` of data takes.
    pub fn footprint(bytes: u64) -> u64 {
        bytes.next_multiple_of(4) + 2 * GUARD_BYTES
    }

    /// Allocates a zone; data and guards are poisoned.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn allocate(executor: &mut dyn Executor, bytes: u64) -> Result<Self, WorkerError> {
        let footprint = Self::footprint(bytes);
        let start = executor.allocate(footprint)?;
        executor.fill(start, POISON, footprint / 4)?;
        Ok(Self { address: start + GUARD_BYTES, bytes: bytes.next_multiple_of(4) })
    }

    /// Frees it.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn free(self, executor: &mut dyn Executor) -> Result<(), WorkerError> {
        executor.free(self.address - GUARD_BYTES)
    }

    /// The two guard zones: address and 32-bit words of each.
    pub(super) fn guards(&self) -> [(u64, u64); 2] {
        [
            (self.address - GUARD_BYTES, GUARD_BYTES / 4),
            (self.address + self.bytes, GUARD_BYTES / 4),
        ]
    }
}
