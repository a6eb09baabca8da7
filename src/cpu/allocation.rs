//! Allocation: a range of global memory, stored in 32-bit words.
//!
//! All reads and writes of the words are relaxed atomic operations, which cost as much as plain
//! ones. Kernels may therefore race, as on a GPU, without undefined behaviour in this program.

use std::sync::atomic::{AtomicU32, Ordering};

use thiserror::Error;

use super::byte_marks::ByteMarks;

/// Error of an allocation, a release, a read or a write.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// The host has too little memory.
    #[error("cannot allocate {bytes} bytes for the cpu device: {why}; choose a smaller problem")]
    OutOfMemory {
        /// Requested bytes.
        bytes: u64,
        /// Error text of the host.
        why: String,
    },
    /// No allocation begins at the address.
    #[error("no allocation begins at address {address:#x}")]
    NotAllocated {
        /// The address.
        address: u64,
    },
    /// The range is not within one allocation.
    #[error("{bytes} bytes at address {address:#x} are not in one allocation")]
    OutOfBounds {
        /// First address of the range.
        address: u64,
        /// Length of the range.
        bytes: u64,
    },
}

/// Whether memory records which of its bytes were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteTracking {
    /// Not recorded: reads of unwritten memory go undetected.
    #[default]
    Off,
    /// Recorded, for an eighth more memory and a little time per store.
    Written,
}

/// One allocation.
#[derive(Debug)]
pub(super) struct Allocation {
    pub(super) base: u64,
    pub(super) bytes: u64,
    words: Box<[AtomicU32]>,
    /// Bytes that were written.
    written: Option<ByteMarks>,
    /// Set where kernels may read it only.
    pub(super) read_only: bool,
    /// What messages call it.
    pub(super) name: Option<Box<str>>,
}

/// Words that are zero, for `bytes` bytes of the device.
pub(super) fn zeros(words: u64, bytes: u64) -> Result<Box<[AtomicU32]>, MemoryError> {
    let failed = |why: String| MemoryError::OutOfMemory { bytes, why };
    let count = usize::try_from(words).map_err(|error| failed(error.to_string()))?;
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(count).map_err(|error| failed(error.to_string()))?;
    zeros.resize_with(count, AtomicU32::default);
    Ok(zeros.into_boxed_slice())
}

impl Allocation {
    pub(super) fn new(base: u64, bytes: u64, tracking: WriteTracking) -> Result<Self, MemoryError> {
        let words = zeros(bytes.div_ceil(4), bytes)?;
        let written = match tracking {
            WriteTracking::Off => None,
            WriteTracking::Written => Some(ByteMarks::new(bytes)?),
        };
        Ok(Self { base, bytes, words, written, read_only: false, name: None })
    }

    /// Words from a byte offset on; the offset must be a multiple of 4.
    #[inline(always)]
    pub(super) fn words(&self, offset: u64) -> &[AtomicU32] {
        self.words.get(offset as usize / 4..).unwrap_or_default()
    }

    /// Replaces 1 or 2 bytes within a word.
    pub(super) fn store_part(&self, offset: u64, bytes: u32, value: u32) {
        let shift = offset as u32 % 4 * 8;
        let mask = (u32::MAX >> (32 - 8 * bytes.clamp(1, 4))) << shift;
        if let Some(word) = self.words(offset & !3).first() {
            let merge = |old| Some(old & !mask | value << shift & mask);
            // Never fails: `merge` always gives a value.
            let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merge);
        }
    }

    /// Marks bytes as written. They must not cross a multiple of 32.
    #[inline(always)]
    pub(super) fn mark(&self, offset: u64, bytes: u32) {
        if let Some(written) = &self.written {
            written.mark(offset, bytes);
        }
    }

    /// Whether all of the bytes were written; true without tracking.
    #[inline(always)]
    pub(super) fn is_written(&self, offset: u64, bytes: u32) -> bool {
        self.written.as_ref().is_none_or(|written| written.has_all(offset, bytes))
    }

    pub(super) fn mark_range(&self, offset: u64, bytes: u64) {
        if let Some(written) = &self.written {
            written.mark_range(offset, bytes);
        }
    }
}
