//! Global memory: allocations with addresses of their own, shared by all blocks that run.
//!
//! Kept in words that are read and written with relaxed atomic operations, which cost what plain
//! ones do; so kernels may race as they may on a GPU, and this program stays sound.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use thiserror::Error;

use super::layout::{ALLOCATION_SHIFT, MODULE_BASE};

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
pub enum Tracking {
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

/// The global memory of the device.
#[derive(Debug, Default)]
pub struct Memory {
    /// By number; what was freed leaves a gap, so that no address is given twice.
    allocations: Vec<Option<Arc<Allocation>>>,
    tracking: Tracking,
    /// Taken for atomic operations of 64 bits, which two words cannot do alone.
    long_updates: Mutex<()>,
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
    pub(super) fn new(base: u64, bytes: u64, tracking: Tracking) -> Result<Self, MemoryError> {
        let words = zeros(bytes.div_ceil(4), bytes)?;
        let written = match tracking {
            Tracking::Off => None,
            Tracking::Written => Some(zeros(bytes.div_ceil(32), bytes)?),
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

    fn mark_range(&self, offset: u64, bytes: u64) {
        let mut at = offset;
        while at < offset + bytes {
            let length = (32 - at % 32).min(offset + bytes - at);
            self.mark(at, length as u32);
            at += length;
        }
    }
}

/// A part of an allocation.
struct Range<'a> {
    allocation: &'a Allocation,
    offset: u64,
    bytes: u64,
}

impl Range<'_> {
    fn mark(&self) {
        self.allocation.mark_range(self.offset, self.bytes);
    }
}

fn byte_bits(offset: u64, bytes: u32) -> u32 {
    (u32::MAX >> (32 - bytes.clamp(1, 32))) << (offset % 32)
}

impl Memory {
    /// Bytes of the host's memory that new allocations may take, as the system estimates; `None`
    /// where it does not say.
    pub fn host_available() -> Option<u64> {
        let report = std::fs::read_to_string("/proc/meminfo").ok()?;
        let line = report.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kibibytes.checked_mul(1024)
    }

    /// An empty memory.
    pub fn new(tracking: Tracking) -> Self {
        Self { tracking, ..Self::default() }
    }

    /// Allocates `bytes` bytes and gives their address, a multiple of 256. They are zero, and count
    /// as written by nothing.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, MemoryError> {
        let number = self.allocations.len() as u64 + 1;
        let base = number << ALLOCATION_SHIFT;
        if bytes >= 1 << (ALLOCATION_SHIFT - 1) || base >= MODULE_BASE {
            let why = "beyond the device's addresses".to_owned();
            return Err(MemoryError::OutOfMemory { bytes, why });
        }
        let allocation = Allocation::new(base, bytes, self.tracking)?;
        self.allocations.push(Some(Arc::new(allocation)));
        Ok(base)
    }

    /// Frees what [`Self::allocate`] gave. The address is not given again.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`].
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        let number = (address >> ALLOCATION_SHIFT) as usize;
        match self.allocations.get_mut(number.wrapping_sub(1)) {
            Some(slot) if slot.as_ref().is_some_and(|found| found.base == address) => {
                *slot = None;
                Ok(())
            }
            _ => Err(MemoryError::NotAllocated { address }),
        }
    }

    /// A memory that has all allocations of this one, each at its address, and gets its own from
    /// then on. What is written to the shared ones is seen in both.
    #[must_use]
    pub fn sharing(&self) -> Self {
        Self {
            allocations: self.allocations.clone(),
            tracking: self.tracking,
            long_updates: Mutex::default(),
        }
    }

    /// From now on kernels may only read an allocation; a store there is out of bounds.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`], also where it is shared with another memory already.
    pub fn protect(&mut self, address: u64) -> Result<(), MemoryError> {
        let number = (address >> ALLOCATION_SHIFT) as usize;
        let slot = self.allocations.get_mut(number.wrapping_sub(1)).and_then(Option::as_mut);
        let allocation = slot.filter(|found| found.base == address).and_then(Arc::get_mut);
        allocation.ok_or(MemoryError::NotAllocated { address })?.read_only = true;
        Ok(())
    }

    /// The bytes that are allocated.
    pub fn allocated_bytes(&self) -> u64 {
        self.allocations.iter().flatten().map(|allocation| allocation.bytes).sum()
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]; so have the methods below.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let (allocation, offset) = self.range(address, bytes.len() as u64)?;
        allocation.mark_range(offset, bytes.len() as u64);
        if offset % 4 != 0 {
            for (at, byte) in bytes.iter().enumerate() {
                allocation.store_part(offset + at as u64, 1, (*byte).into());
            }
            return Ok(());
        }
        let chunks = bytes.chunks_exact(4);
        let tail = (offset + (bytes.len() - chunks.remainder().len()) as u64, chunks.remainder());
        for (word, chunk) in allocation.words(offset).iter().zip(chunks) {
            word.store(
                u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]),
                Ordering::Relaxed,
            );
        }
        for (at, byte) in tail.1.iter().enumerate() {
            allocation.store_part(tail.0 + at as u64, 1, (*byte).into());
        }
        Ok(())
    }

    /// Reads `bytes` bytes.
    pub fn read(&self, address: u64, bytes: u64) -> Result<Vec<u8>, MemoryError> {
        let (allocation, offset) = self.range(address, bytes)?;
        let skipped = offset as usize % 4;
        let words =
            allocation.words(offset & !3).iter().take((skipped + bytes as usize).div_ceil(4));
        let mut read: Vec<u8> =
            words.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        read.drain(..skipped);
        read.truncate(bytes as usize);
        Ok(read)
    }

    /// Sets `count` words of 32 bits from `address` on, which must be a multiple of 4.
    pub fn fill(&self, address: u64, word: u32, count: u64) -> Result<(), MemoryError> {
        self.set_words(address, count, |_| word)?.mark();
        Ok(())
    }

    /// As [`Self::fill`], with the word that `word_at` gives for each place, on all cores.
    pub fn fill_with(
        &self,
        address: u64,
        count: u64,
        word_at: impl Fn(u64) -> u32 + Sync,
    ) -> Result<(), MemoryError> {
        self.set_words(address, count, word_at)?.mark();
        Ok(())
    }

    /// As [`Self::fill`], but the words still count as written by nothing.
    pub fn poison(&self, address: u64, word: u32, count: u64) -> Result<(), MemoryError> {
        self.set_words(address, count, |_| word).map(|_| ())
    }

    /// Which of `count` words from `address` on were written, each a multiple of 4: whole, by
    /// kernels or by this program. All of them where the memory does not track that.
    pub fn written(&self, address: u64, count: u64) -> Result<Vec<bool>, MemoryError> {
        let (allocation, offset) = self.range(address, count.saturating_mul(4))?;
        Ok((0..count).map(|word| allocation.is_written(offset + 4 * word, 4)).collect())
    }

    /// `count` words of 32 bits from `address` on, which must be a multiple of 4.
    pub fn words(
        &self,
        address: u64,
        count: u64,
    ) -> Result<impl IndexedParallelIterator<Item = u32> + '_, MemoryError> {
        let bytes = count.saturating_mul(4);
        let (allocation, offset) = self.range(address, bytes)?;
        if offset % 4 != 0 {
            return Err(MemoryError::OutOfBounds { address, bytes });
        }
        let words = allocation.words(offset).get(..count as usize).unwrap_or_default();
        Ok(words.par_iter().with_min_len(1 << 14).map(|word| word.load(Ordering::Relaxed)))
    }

    /// Sets words and gives the range, which is not marked yet.
    fn set_words(
        &self,
        address: u64,
        count: u64,
        word_at: impl Fn(u64) -> u32 + Sync,
    ) -> Result<Range<'_>, MemoryError> {
        let bytes = count.saturating_mul(4);
        let (allocation, offset) = self.range(address, bytes)?;
        if offset % 4 != 0 {
            return Err(MemoryError::OutOfBounds { address, bytes });
        }
        let words = allocation.words(offset).get(..count as usize).unwrap_or_default();
        words.par_iter().enumerate().with_min_len(1 << 14).for_each(|(at, to)| {
            to.store(word_at(at as u64), Ordering::Relaxed);
        });
        Ok(Range { allocation, offset, bytes })
    }

    fn range(&self, address: u64, bytes: u64) -> Result<(&Allocation, u64), MemoryError> {
        let outside = MemoryError::OutOfBounds { address, bytes };
        let allocation = self.find(address).ok_or(outside.clone())?;
        let offset = address - allocation.base;
        if offset.checked_add(bytes).is_none_or(|end| end > allocation.bytes) {
            return Err(outside);
        }
        Ok((allocation, offset))
    }

    /// The allocation that an address is near to: at its beginning or anywhere behind.
    #[inline(always)]
    pub(super) fn find(&self, address: u64) -> Option<&Allocation> {
        let number = (address >> ALLOCATION_SHIFT) as usize;
        self.allocations.get(number.wrapping_sub(1))?.as_deref()
    }

    /// Does something that must not be torn apart by another block's update of 64 bits.
    pub(super) fn update_long<T>(&self, update: impl FnOnce() -> T) -> T {
        // Nothing that runs under this lock panics; were it so, the lock guards no state.
        let _held = self.long_updates.lock().unwrap_or_else(PoisonError::into_inner);
        update()
    }
}
