//! Device memory with guard bytes on either side, which detect stray writes.

use crate::worker::{Executor, WorkerError};

/// Guard bytes on each side. A stray row of a large matrix falls inside; writes beyond most likely
/// fault, since nothing is allocated there.
pub const GUARD_BYTES: u64 = 1 << 20;

/// Content of guard bytes, and of C before a run: a NaN that no arithmetic produces. Reading it
/// spoils the result, and not writing it is detected.
pub(super) const POISON: u32 = 0x7fe5_c0de;

/// A range of device memory between guard bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardedBuffer {
    /// Address of the data, a multiple of 256.
    pub address: u64,
    /// Bytes of data.
    pub bytes: u64,
}

impl GuardedBuffer {
    /// No buffer.
    pub(super) const NONE: Self = Self { address: 0, bytes: 0 };

    /// Device memory in bytes for `bytes` of data.
    pub fn footprint(bytes: u64) -> u64 {
        bytes.next_multiple_of(4) + 2 * GUARD_BYTES
    }

    /// Allocates a buffer; data and guard bytes are poisoned.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn allocate(executor: &mut dyn Executor, bytes: u64) -> Result<Self, WorkerError> {
        let footprint = Self::footprint(bytes);
        let start = executor.allocate(footprint)?;
        let buffer = Self { address: start + GUARD_BYTES, bytes };
        match executor.fill(start, POISON, footprint / 4) {
            Err(error) if !error.ends_worker() => buffer.free(executor).and(Err(error)),
            filled => filled.map(|()| buffer),
        }
    }

    /// Frees the buffer, if it is one.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn free(self, executor: &mut dyn Executor) -> Result<(), WorkerError> {
        if self == Self::NONE {
            return Ok(());
        }
        executor.free(self.address - GUARD_BYTES)
    }

    /// Address and 32-bit words of the guard bytes on each side.
    pub(super) fn guards(&self) -> [(u64, u64); 2] {
        [
            (self.address - GUARD_BYTES, GUARD_BYTES / 4),
            (self.address + 4 * self.words(), GUARD_BYTES / 4),
        ]
    }

    /// Words that hold the data.
    pub(super) fn words(&self) -> u64 {
        self.bytes.div_ceil(4)
    }

    /// Address and number of the bytes behind the data in its last word, which are guard bytes too.
    pub(super) fn last_bytes(&self) -> (u64, u64) {
        (self.address + self.bytes, 4 * self.words() - self.bytes)
    }
}
