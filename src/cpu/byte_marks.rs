//! Marks of bytes: one bit for every byte of an allocation, set by several threads.

use std::sync::atomic::{AtomicU32, Ordering};

use super::allocation::{MemoryError, zeros};

/// One bit for every byte of an allocation.
#[derive(Debug)]
pub(super) struct ByteMarks(Box<[AtomicU32]>);

impl ByteMarks {
    /// Marks for `bytes` bytes, none of them set.
    pub(super) fn new(bytes: u64) -> Result<Self, MemoryError> {
        Ok(Self(zeros(bytes.div_ceil(32), bytes)?))
    }

    /// Marks bytes. They must not cross a multiple of 32.
    #[inline(always)]
    pub(super) fn mark(&self, offset: u64, bytes: u32) {
        let Some(word) = self.0.get(offset as usize / 32) else { return };
        let bits = byte_bits(offset, bytes);
        if word.load(Ordering::Relaxed) & bits != bits {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// Marks bytes of any range.
    #[inline]
    pub(super) fn mark_range(&self, offset: u64, bytes: u64) {
        if is_part(offset, bytes) {
            self.mark(offset, bytes as u32);
        } else {
            parts(offset, bytes).for_each(|(at, length)| self.mark(at, length));
        }
    }

    /// Whether all of the bytes are marked. They must not cross a multiple of 32.
    #[inline(always)]
    pub(super) fn has_all(&self, offset: u64, bytes: u32) -> bool {
        let bits = byte_bits(offset, bytes);
        let word = self.0.get(offset as usize / 32);
        word.is_none_or(|word| word.load(Ordering::Relaxed) & bits == bits)
    }

    /// Whether any byte of a range is marked.
    #[inline]
    pub(super) fn has_any(&self, offset: u64, bytes: u64) -> bool {
        let any = |at: u64, length| {
            let word = self.0.get(at as usize / 32);
            word.is_some_and(|word| word.load(Ordering::Relaxed) & byte_bits(at, length) != 0)
        };
        if is_part(offset, bytes) {
            any(offset, bytes as u32)
        } else {
            parts(offset, bytes).any(|(at, length)| any(at, length))
        }
    }
}

/// Whether a range is not empty and does not cross a multiple of 32.
#[inline(always)]
fn is_part(offset: u64, bytes: u64) -> bool {
    bytes > 0 && offset % 32 + bytes <= 32
}

/// Parts of a range, divided at the multiples of 32.
fn parts(offset: u64, bytes: u64) -> impl Iterator<Item = (u64, u32)> {
    let end = offset + bytes;
    let first = (offset < end).then_some(offset);
    let starts = std::iter::successors(first, move |at| {
        let next = (at / 32 + 1) * 32;
        (next < end).then_some(next)
    });
    starts.map(move |at| (at, (32 - at % 32).min(end - at) as u32))
}

fn byte_bits(offset: u64, bytes: u32) -> u32 {
    (u32::MAX >> (32 - bytes.clamp(1, 32))) << (offset % 32)
}
