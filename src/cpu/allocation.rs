//! One allocation of global memory, in words that are read and written with relaxed atomic operations.
//!
//! Relaxed atomic operations cost what plain ones do, so kernels may race as they may on a GPU and this program
//! stays sound.

use std::sync::atomic::{AtomicU32, Ordering};

use thiserror::Error;

/// Why memory was not allocated, freed, read or written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// The host has not as much memory.
    #[error("cannot allocate {bytes} bytes for the cpu device: {why}; choose a smaller problem")]
    OutOfMemory {
        /// How many were asked for.
        bytes: u64,
        /// The host's words.
        why: String,
    },
    /// The address is not where an allocation begins.
    #[error("no allocation begins at address {address:#x}")]
    NotAllocated {
        /// The address.
        address: u64,
    },
    /// The range is not within one allocation.
    #[error("{bytes} bytes at address {address:#x} are not within one allocation")]
    OutOfBounds {
        /// Where the range begins.
        address: u64,
        /// Its length.
        bytes: u64,
    },
}

/// Whether a memory remembers which of its bytes were ever written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteTracking {
    /// It does not: reads of what nothing wrote go unnoticed.
    #[default]
    Off,
    /// It does, for an eighth more memory and a little more time for each store.
    Written,
}

/// One allocation.
#[derive(Debug)]
pub(super) struct Allocation {
    pub(super) base: u64,
    pub(super) bytes: u64,
    words: Box<[AtomicU32]>,
    /// A bit for every byte that was written.
    written: Option<Box<[AtomicU32]>>,
    /// Whether kernels may only read it.
    pub(super) read_only: bool,
}

fn zeros(words: u64, bytes: u64) -> Result<Box<[AtomicU32]>, MemoryError> {
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
            WriteTracking::Written => Some(zeros(bytes.div_ceil(32), bytes)?),
        };
        Ok(Self { base, bytes, words, written, read_only: false })
    }

    /// The words from a byte offset on, which must be a multiple of 4.
    #[inline(always)]
    pub(super) fn words(&self, offset: u64) -> &[AtomicU32] {
        self.words.get(offset as usize / 4..).unwrap_or_default()
    }

    /// Replaces `bytes` bytes, 1 or 2, within a word.
    pub(super) fn store_part(&self, offset: u64, bytes: u32, value: u32) {
        let shift = offset as u32 % 4 * 8;
        let mask = (u32::MAX >> (32 - 8 * bytes.clamp(1, 4))) << shift;
        if let Some(word) = self.words(offset & !3).first() {
            let merge = |old| Some(old & !mask | value << shift & mask);
            // Never fails: `merge` always gives a value.
            let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merge);
        }
    }

    /// Notes that bytes were written; they do not cross a multiple of 32.
    #[inline(always)]
    pub(super) fn mark(&self, offset: u64, bytes: u32) {
        let Some(written) = &self.written else { return };
        let Some(word) = written.get(offset as usize / 32) else { return };
        let bits = byte_bits(offset, bytes);
        if word.load(Ordering::Relaxed) & bits != bits {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// Whether all of the bytes were written, as far as anyone knows.
    #[inline(always)]
    pub(super) fn is_written(&self, offset: u64, bytes: u32) -> bool {
        let Some(written) = &self.written else { return true };
        let bits = byte_bits(offset, bytes);
        let word = written.get(offset as usize / 32);
        word.is_none_or(|word| word.load(Ordering::Relaxed) & bits == bits)
    }

    pub(super) fn mark_range(&self, offset: u64, bytes: u64) {
        let mut at = offset;
        while at < offset + bytes {
            let length = (32 - at % 32).min(offset + bytes - at);
            self.mark(at, length as u32);
            at += length;
        }
    }
}

fn byte_bits(offset: u64, bytes: u32) -> u32 {
    (u32::MAX >> (32 - bytes.clamp(1, 32))) << (offset % 32)
}
