//! Rows of elements in the memory of the cpu device, which need not lie one after the other. Elements are counted as if
//! they did.

use rayon::prelude::*;

use crate::cpu::{Elements, GlobalMemory, MemoryError};

/// The rows of a matrix, or of a batch of them: those of one matrix follow those of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PitchedRows {
    count: u64,
    width: u64,
    /// Elements from one row to the next.
    pitch: u64,
}

impl PitchedRows {
    /// `count` rows of `width` elements. PitchedRows without gaps are one row.
    pub(super) fn new(count: u64, width: u64, pitch: u64) -> Self {
        if pitch == width || count == 1 {
            let width = count * width;
            return Self { count: 1, width, pitch: width };
        }
        Self { count, width, pitch }
    }

    /// Elements of all rows.
    pub(super) fn elements(&self) -> u64 {
        self.count * self.width
    }

    /// Elements from the first one to the end of the last one: no gap follows.
    pub(super) fn span(&self) -> u64 {
        (self.count - 1) * self.pitch + self.width
    }
}

/// PitchedRows in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrix {
    pub(super) address: u64,
    /// Bytes of an element.
    pub(super) bytes: u32,
    pub(super) rows: PitchedRows,
}

impl Matrix {
    /// Sets all elements to the bits that their index has. Gaps stay.
    pub(super) fn fill(
        &self,
        memory: &GlobalMemory,
        bits_at: impl Fn(u64) -> u32 + Sync,
    ) -> Result<(), MemoryError> {
        (0..self.rows.count).try_for_each(|row| {
            let first = row * self.rows.width;
            memory.fill_elements(self.part(first, self.rows.width), |at| bits_at(first + at))
        })
    }

    /// `length` elements of one row, from the one with an index on.
    pub(super) fn part(&self, index: u64, length: u64) -> Elements {
        let PitchedRows { width, pitch, .. } = self.rows;
        let at = index / width * pitch + index % width;
        Elements {
            address: self.address + u64::from(self.bytes) * at,
            count: length,
            bytes: self.bytes,
        }
    }

    /// The bits of all elements.
    pub(super) fn bits(&self, memory: &GlobalMemory) -> Result<Vec<u32>, MemoryError> {
        let mut all = Vec::with_capacity(self.rows.elements() as usize);
        for row in 0..self.rows.count {
            let mut of_row: Vec<u32> = Vec::new();
            let part = self.part(row * self.rows.width, self.rows.width);
            memory.elements(part)?.collect_into_vec(&mut of_row);
            all.append(&mut of_row);
        }
        Ok(all)
    }

    /// Whether each element was written.
    pub(super) fn written(&self, memory: &GlobalMemory) -> Result<Vec<bool>, MemoryError> {
        let mut all = Vec::with_capacity(self.rows.elements() as usize);
        for row in 0..self.rows.count {
            all.extend(memory.written(self.part(row * self.rows.width, self.rows.width))?);
        }
        Ok(all)
    }

    /// The index of the row behind whose end something was written, and how far behind.
    pub(super) fn written_gap(
        &self,
        memory: &GlobalMemory,
    ) -> Result<Option<[u64; 2]>, MemoryError> {
        let PitchedRows { count, width, pitch } = self.rows;
        for row in 0..count - 1 {
            let end = self.part(row * width, width);
            let gap = Elements {
                address: end.address + u64::from(self.bytes) * width,
                count: pitch - width,
                ..end
            };
            if let Some(behind) = memory.written(gap)?.iter().position(|written| *written) {
                return Ok(Some([row, behind as u64]));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::WriteTracking;

    #[test]
    fn elements_are_counted_without_the_gaps_between_rows() {
        let mut memory = GlobalMemory::new(WriteTracking::Written);
        let rows = PitchedRows::new(3, 5, 7);
        let address = memory.allocate(2 * rows.span()).unwrap();
        let matrix = Matrix { address, bytes: 2, rows };
        assert_eq!((rows.elements(), rows.span()), (15, 19));
        matrix.fill(&memory, |at| at as u32 + 1).unwrap();
        assert_eq!(matrix.bits(&memory).unwrap(), (1..=15).collect::<Vec<u32>>());
        assert_eq!(memory.read(address + 2 * 7, 2).unwrap(), [6, 0]);
        assert!(matrix.written(&memory).unwrap().iter().all(|written| *written));
        assert_eq!(matrix.part(11, 2).address, address + 2 * (2 * 7 + 1));
        assert_eq!(matrix.written_gap(&memory).unwrap(), None);
        memory.write(address + 2 * (7 + 6), &[1, 2]).unwrap();
        assert_eq!(matrix.written_gap(&memory).unwrap(), Some([1, 1]));
    }

    #[test]
    fn rows_without_gaps_are_one_row() {
        assert_eq!(PitchedRows::new(4, 6, 6), PitchedRows::new(1, 24, 24));
        assert_eq!(PitchedRows::new(1, 6, 9), PitchedRows::new(1, 6, 6));
    }
}
