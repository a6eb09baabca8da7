//! Global memory of the device: allocations that all blocks of a launch share.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use super::access_record::AccessRecord;
use super::allocation::{Allocation, MemoryError, WriteTracking};
use super::layout::{ALLOCATION_SHIFT, MODULE_BASE};

/// Global memory of the device.
#[derive(Debug, Default)]
pub struct GlobalMemory {
    /// Indexed by number. A freed allocation leaves a gap, so that addresses are never reused.
    allocations: Vec<Option<Arc<Allocation>>>,
    tracking: WriteTracking,
    /// Lock for 64-bit atomic operations, which two words cannot provide.
    long_updates: Mutex<()>,
}

/// A range of an allocation.
struct AllocationRange<'a> {
    allocation: &'a Allocation,
    offset: u64,
    bytes: u64,
}

impl AllocationRange<'_> {
    fn mark(&self) {
        self.allocation.mark_range(self.offset, self.bytes);
    }
}

/// Elements side by side in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elements {
    /// Address of the first: a multiple of `bytes`.
    pub address: u64,
    /// Number of elements.
    pub count: u64,
    /// Bytes of an element: 1, 2 or 4.
    pub bytes: u32,
}

/// A mask of the low bytes of a word, 1 to 4.
fn low_bits(bytes: u64) -> u32 {
    u32::MAX >> (32 - 8 * bytes.clamp(1, 4))
}

impl GlobalMemory {
    /// Bytes of host memory available for new allocations, as the operating system estimates;
    /// `None` where it gives no estimate.
    pub fn host_available() -> Option<u64> {
        let report = std::fs::read_to_string("/proc/meminfo").ok()?;
        let line = report.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kibibytes.checked_mul(1024)
    }

    /// Creates an empty memory.
    pub fn new(tracking: WriteTracking) -> Self {
        Self { tracking, ..Self::default() }
    }

    /// Allocates `bytes` bytes and returns their address, a multiple of 256. The bytes are zero and
    /// count as unwritten.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, MemoryError> {
        let number = self.allocations.len() as u64 + 1;
        let base = number << ALLOCATION_SHIFT;
        if bytes >= 1 << (ALLOCATION_SHIFT - 1) || base >= MODULE_BASE {
            let why = "the device has no addresses left".to_owned();
            return Err(MemoryError::OutOfMemory { bytes, why });
        }
        let allocation = Allocation::new(base, bytes, self.tracking)?;
        self.allocations.push(Some(Arc::new(allocation)));
        Ok(base)
    }

    /// Frees the allocation at an address that [`Self::allocate`] returned. The address is not
    /// reused.
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

    /// Creates a memory that shares all present allocations of this one, each at its address. Later
    /// allocations are separate. Writes to shared allocations are visible in both.
    #[must_use]
    pub fn sharing(&self) -> Self {
        Self {
            allocations: self.allocations.clone(),
            tracking: self.tracking,
            long_updates: Mutex::default(),
        }
    }

    /// Creates an empty record of the accesses to the present allocations, except read-only ones. A launch does not
    /// record accesses to later allocations.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`]: it takes a quarter of the bytes of those allocations.
    pub fn access_record(&self) -> Result<AccessRecord, MemoryError> {
        AccessRecord::new(&self.allocations)
    }

    /// Makes an allocation read-only for kernels: a store there is out of bounds.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`], also if another memory shares the allocation already.
    pub fn protect(&mut self, address: u64) -> Result<(), MemoryError> {
        self.own(address)?.read_only = true;
        Ok(())
    }

    /// Gives an allocation a name for messages.
    ///
    /// # Errors
    /// As [`Self::protect`].
    pub fn name(&mut self, address: u64, name: &str) -> Result<(), MemoryError> {
        self.own(address)?.name = Some(name.into());
        Ok(())
    }

    /// An allocation that no other memory shares.
    fn own(&mut self, address: u64) -> Result<&mut Allocation, MemoryError> {
        let number = (address >> ALLOCATION_SHIFT) as usize;
        let slot = self.allocations.get_mut(number.wrapping_sub(1)).and_then(Option::as_mut);
        let allocation = slot.filter(|found| found.base == address).and_then(Arc::get_mut);
        allocation.ok_or(MemoryError::NotAllocated { address })
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`], as for all methods below.
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

    /// Sets `count` words of 32 bits from `address` on, in parallel: each to `word_at` of its
    /// index. The address must be a multiple of 4.
    pub fn fill_with(
        &self,
        address: u64,
        count: u64,
        word_at: impl Fn(u64) -> u32 + Sync,
    ) -> Result<(), MemoryError> {
        self.fill_elements(Elements { address, count, bytes: 4 }, word_at)
    }

    /// Sets elements to the low bits of `element_at` of their index, in parallel.
    pub fn fill_elements(
        &self,
        elements: Elements,
        element_at: impl Fn(u64) -> u32 + Sync,
    ) -> Result<(), MemoryError> {
        self.set_elements(elements, element_at)?.mark();
        Ok(())
    }

    /// Sets words to one value without marking them as written.
    pub fn poison(&self, address: u64, word: u32, count: u64) -> Result<(), MemoryError> {
        self.set_elements(Elements { address, count, bytes: 4 }, |_| word).map(|_| ())
    }

    /// For each element, whether it was written completely, by kernels or by this program. True for
    /// all without tracking.
    pub fn written(&self, elements: Elements) -> Result<Vec<bool>, MemoryError> {
        let (allocation, offset) = self.elements_range(elements)?;
        let bytes = u64::from(elements.bytes);
        let is_written = |at| allocation.is_written(offset + bytes * at, elements.bytes);
        Ok((0..elements.count).map(is_written).collect())
    }

    /// Reads `count` words of 32 bits from `address` on, in parallel. The address must be a
    /// multiple of 4.
    pub fn words(
        &self,
        address: u64,
        count: u64,
    ) -> Result<impl IndexedParallelIterator<Item = u32> + '_, MemoryError> {
        self.elements(Elements { address, count, bytes: 4 })
    }

    /// Reads elements in parallel, each as the low bits of a word.
    pub fn elements(
        &self,
        elements: Elements,
    ) -> Result<impl IndexedParallelIterator<Item = u32> + '_, MemoryError> {
        let (allocation, offset) = self.elements_range(elements)?;
        let bytes = u64::from(elements.bytes);
        let words = allocation.words(0);
        let element_at = move |at: u64| {
            let at = offset + bytes * at;
            let word = words.get(at as usize / 4).map_or(0, |word| word.load(Ordering::Relaxed));
            word >> (at % 4 * 8) & low_bits(bytes)
        };
        // An allocation has fewer elements than there are addresses.
        let places = (0..elements.count as usize).into_par_iter().with_min_len(1 << 14);
        Ok(places.map(move |at| element_at(at as u64)))
    }

    /// Sets elements and returns their range, not marked as written yet.
    fn set_elements(
        &self,
        elements: Elements,
        element_at: impl Fn(u64) -> u32 + Sync,
    ) -> Result<AllocationRange<'_>, MemoryError> {
        let (allocation, offset) = self.elements_range(elements)?;
        let Elements { count, bytes, .. } = elements;
        let bytes = u64::from(bytes);
        let range = AllocationRange { allocation, offset, bytes: count * bytes };
        if offset % 4 != 0 {
            for at in 0..count {
                allocation.store_part(offset + bytes * at, bytes as u32, element_at(at));
            }
            return Ok(range);
        }
        let per_word = 4 / bytes;
        let words = allocation.words(offset).get(..(count / per_word) as usize);
        let words = words.unwrap_or_default();
        words.par_iter().enumerate().with_min_len(1 << 14).for_each(|(word, to)| {
            let first = word as u64 * per_word;
            let element = |at| (element_at(first + at) & low_bits(bytes)) << (8 * bytes * at);
            to.store(
                (0..per_word).map(element).fold(0, |word, part| word | part),
                Ordering::Relaxed,
            );
        });
        for at in count / per_word * per_word..count {
            allocation.store_part(offset + bytes * at, bytes as u32, element_at(at));
        }
        Ok(range)
    }

    /// The allocation of elements, and their offset in it.
    fn elements_range(&self, elements: Elements) -> Result<(&Allocation, u64), MemoryError> {
        let Elements { address, count, bytes } = elements;
        let all = count.saturating_mul(bytes.into());
        let is_aligned = matches!(bytes, 1 | 2 | 4) && address.is_multiple_of(bytes.into());
        if !is_aligned {
            return Err(MemoryError::OutOfBounds { address, bytes: all });
        }
        self.range(address, all)
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

    /// The allocation whose address range contains an address, or is the nearest one below it.
    #[inline(always)]
    pub(super) fn find(&self, address: u64) -> Option<&Allocation> {
        let number = (address >> ALLOCATION_SHIFT) as usize;
        self.allocations.get(number.wrapping_sub(1))?.as_deref()
    }

    /// Runs `update` atomically with respect to the 64-bit updates of other blocks.
    pub(super) fn update_long<T>(&self, update: impl FnOnce() -> T) -> T {
        // Nothing panics under this lock, and it guards no data, so poisoning is harmless.
        let _held = self.long_updates.lock().unwrap_or_else(PoisonError::into_inner);
        update()
    }
}
