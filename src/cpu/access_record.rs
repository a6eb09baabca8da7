//! Record of a launch's accesses to global memory, against which a launch that may overlap it is checked.

use std::sync::{Arc, OnceLock};

use super::allocation::{Allocation, MemoryError};
use super::byte_marks::ByteMarks;
use super::layout::{ALLOCATION_SHIFT, MODULE_BASE};

/// Bytes of global memory that a launch reads and writes.
///
/// [`super::GlobalMemory::access_record`] creates one for a memory. It is valid there and in the memories that share its
/// allocations. [`super::LaunchOptions::record`] fills it, and [`super::LaunchOptions::unfinished`] uses it.
///
/// It has two bits for each byte that kernels may write. Read-only allocations need none.
#[derive(Debug)]
pub struct AccessRecord {
    /// Indexed by the number of the allocation.
    allocations: Vec<Option<AccessMarks>>,
    /// Accesses to the variables of the module whose kernel was launched first.
    variables: OnceLock<(Arc<Allocation>, AccessMarks)>,
}

/// Accesses to an allocation.
#[derive(Debug)]
struct AccessMarks {
    read: ByteMarks,
    written: ByteMarks,
}

/// Effect of an access on global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GlobalAccess {
    Read,
    /// A write or an update.
    Write,
}

impl AccessMarks {
    fn new(bytes: u64) -> Result<Self, MemoryError> {
        Ok(Self { read: ByteMarks::new(bytes)?, written: ByteMarks::new(bytes)? })
    }
}

impl AccessRecord {
    /// Creates an empty record for allocations; those that are `None` are freed.
    pub(super) fn new(allocations: &[Option<Arc<Allocation>>]) -> Result<Self, MemoryError> {
        let marks = |allocation: &Option<Arc<Allocation>>| {
            let writable = allocation.as_ref().filter(|found| !found.read_only);
            writable.map(|found| AccessMarks::new(found.bytes)).transpose()
        };
        let allocations = allocations.iter().map(marks).collect::<Result<_, _>>()?;
        Ok(Self { allocations, variables: OnceLock::new() })
    }

    /// Prepares for a kernel's module.
    pub(super) fn begin(&self, variables: &Arc<Allocation>) -> Result<(), MemoryError> {
        if variables.bytes > 0 && self.variables.get().is_none() {
            let marks = AccessMarks::new(variables.bytes)?;
            // A launch that sets it at the same time sets marks as empty as these.
            let _ = self.variables.set((Arc::clone(variables), marks));
        }
        Ok(())
    }

    /// Records an access within an allocation.
    pub(super) fn note(&self, access: GlobalAccess, place: (&Allocation, u64), bytes: u64) {
        let Some(marks) = self.marks(place.0) else { return };
        match access {
            GlobalAccess::Read => marks.read.mark_range(place.1, bytes),
            GlobalAccess::Write => marks.written.mark_range(place.1, bytes),
        }
    }

    /// Recorded access that conflicts with an access within an allocation.
    pub(super) fn conflict(
        &self,
        access: GlobalAccess,
        (allocation, offset): (&Allocation, u64),
        bytes: u64,
    ) -> Option<GlobalAccess> {
        let marks = self.marks(allocation)?;
        if marks.written.has_any(offset, bytes) {
            return Some(GlobalAccess::Write);
        }
        let overwrites = access == GlobalAccess::Write && marks.read.has_any(offset, bytes);
        overwrites.then_some(GlobalAccess::Read)
    }

    fn marks(&self, allocation: &Allocation) -> Option<&AccessMarks> {
        if allocation.base == MODULE_BASE {
            let (known, marks) = self.variables.get()?;
            return std::ptr::eq(&raw const **known, allocation).then_some(marks);
        }
        let number = (allocation.base >> ALLOCATION_SHIFT) as usize;
        self.allocations.get(number.wrapping_sub(1))?.as_ref()
    }
}
