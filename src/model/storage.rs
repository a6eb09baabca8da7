//! Storage of operands that are not packed: leading dimensions and alignment.

use thiserror::Error;

use super::problem::Problem;

/// Leading dimensions and address alignment of the operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Storage {
    /// Elements between consecutive rows of A as stored.
    pub lda: u64,
    /// Elements between consecutive rows of B as stored.
    pub ldb: u64,
    /// Elements between consecutive rows of C.
    pub ldc: u64,
    /// Alignment of the addresses of A, B and C in bytes: a power of two.
    pub alignment: u64,
}

/// Error: a storage is impossible for a problem.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StorageError {
    /// Rows would overlap.
    #[error("{name} is {given}: rows of {operand} have {least} elements, give at least as many")]
    Overlap {
        /// `lda`, `ldb` or `ldc`.
        name: &'static str,
        /// The given value.
        given: u64,
        /// The operand.
        operand: char,
        /// The elements of a row.
        least: u64,
    },
    /// The alignment is not a power of two, or less than an element.
    #[error(
        "addresses aligned to {alignment} bytes: give a power of two of at least {least}, the size of an element"
    )]
    Alignment {
        /// The given value.
        alignment: u64,
        /// Bytes of an element.
        least: u64,
    },
}

impl Storage {
    /// Alignment of CUDA allocations in bytes (CUDA C++ Programming Guide, device memory accesses).
    pub const ALLOCATED: u64 = 256;

    /// Bytes of the widest vector access of a thread.
    const WIDEST: u64 = 16;

    /// Packed operands in aligned allocations.
    pub fn packed(problem: &Problem) -> Self {
        let (lda, ldb, ldc) = (problem.lda(), problem.ldb(), problem.ldc());
        Self { lda, ldb, ldc, alignment: Self::ALLOCATED }
    }

    /// Checks that it can hold the operands of `problem`.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn check(&self, problem: &Problem) -> Result<(), StorageError> {
        let rows = [
            ("lda", 'A', self.lda, problem.lda()),
            ("ldb", 'B', self.ldb, problem.ldb()),
            ("ldc", 'C', self.ldc, problem.ldc()),
        ];
        for (name, operand, given, least) in rows {
            if given < least {
                return Err(StorageError::Overlap { name, given, operand, least });
            }
        }
        let least = problem.dtype.bytes();
        let alignment = self.alignment;
        if !alignment.is_power_of_two() || alignment < least {
            return Err(StorageError::Alignment { alignment, least });
        }
        Ok(())
    }

    /// Returns leading dimensions that encode the alignment: a vector width that divides one is
    /// aligned in every row and ends within it. If an address or a row length is a multiple of only
    /// `e` elements, a leading dimension that is a multiple of `2e` is replaced by one that is a
    /// multiple of `e` only.
    ///
    /// Contiguous single elements (1) are read in vectors like a row. If their address does not
    /// allow the widest vector, they are reported as apart (3).
    pub fn leading_dimensions(&self, problem: &Problem) -> [u64; 3] {
        let elements = (self.alignment / problem.dtype.bytes()).max(1);
        let rows =
            [(self.lda, problem.lda()), (self.ldb, problem.ldb()), (self.ldc, problem.ldc())];
        rows.map(|(distance, length)| {
            if distance == 1 && self.alignment < Self::WIDEST {
                return 3;
            }
            let aligned = 1 << (elements | length).trailing_zeros();
            let hides = distance % aligned == 0 && (distance / aligned).is_multiple_of(2);
            if hides { distance + aligned } else { distance }
        })
    }

    /// Returns the alignment of every row of every operand, in elements (1, 2 or 4), as a power of
    /// two.
    pub fn row_alignment(&self, problem: &Problem) -> u32 {
        let rows = self.leading_dimensions(problem);
        rows.map(|rows| rows.trailing_zeros()).into_iter().min().unwrap_or(0).min(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Layout};

    fn problem() -> Problem {
        let problem = Problem::new("64x96x32".parse().unwrap(), Dtype::F32);
        Problem { layout: Layout::Tn, ..problem }
    }

    #[test]
    fn rows_fit_and_addresses_are_aligned_to_elements() {
        let packed = Storage::packed(&problem());
        assert_eq!((packed.lda, packed.ldb, packed.ldc), (64, 96, 96));
        assert_eq!(packed.check(&problem()), Ok(()));
        for (storage, words) in [
            (Storage { lda: 63, ..packed }, "lda is 63: rows of A have 64 elements"),
            (Storage { ldc: 0, ..packed }, "ldc is 0: rows of C have 96"),
            (Storage { alignment: 2, ..packed }, "power of two of at least 4"),
            (Storage { alignment: 12, ..packed }, "aligned to 12 bytes"),
        ] {
            let error = storage.check(&problem()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn an_address_limits_the_alignment_of_rows() {
        for (lda, alignment, expected) in [
            (64, 256, 2),
            (66, 256, 1),
            (65, 256, 0),
            (64, 16, 2),
            (64, 8, 1),
            (64, 4, 0),
            (66, 4, 0),
        ] {
            let storage = Storage { lda, alignment, ..Storage::packed(&problem()) };
            assert_eq!(storage.row_alignment(&problem()), expected, "{lda}, {alignment}");
            // Never longer in alignment, never shorter in distance.
            for (seen, own) in storage.leading_dimensions(&problem()).iter().zip([lda, 96, 96]) {
                assert!(*seen >= own);
            }
        }
    }

    #[test]
    fn a_vector_ends_where_its_row_does() {
        let shape = "777x1001x514".parse().unwrap();
        let problem = Problem::new(shape, Dtype::F32);
        let packed = Storage::packed(&problem);
        for (lda, ldb, ldc, seen) in [
            (514, 1001, 1001, [514, 1001, 1001]),
            (518, 1006, 1004, [518, 1007, 1005]),
            (520, 1003, 1008, [522, 1003, 1009]),
        ] {
            let storage = Storage { lda, ldb, ldc, ..packed };
            assert_eq!(storage.leading_dimensions(&problem), seen, "{storage:?}");
        }
    }

    #[test]
    fn contiguous_elements_are_a_vector_if_their_address_is_aligned() {
        let problem = Problem::new("1x1x64".parse().unwrap(), Dtype::F32);
        let packed = Storage::packed(&problem);
        for (alignment, seen) in [(256, 1), (16, 1), (8, 3), (4, 3)] {
            let [_, ldb, _] = Storage { alignment, ..packed }.leading_dimensions(&problem);
            assert_eq!(ldb, seen, "{alignment}");
        }
    }
}
