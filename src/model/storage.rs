//! Storage of operands: leading dimensions and alignment, and the check that kernels can address them.
//!
//! [`Storage::check`] is what every surface applies before it chooses a kernel: the runtime and `lookup` call it, and
//! the C and Rust exports have it in their language, with the limits of this crate. `tests/export/choices.rs`
//! compares them all.

use thiserror::Error;

use super::gemm_type::GemmType;
use super::problem::{MAX_BATCH, MAX_EXTENT, MAX_OPERAND_BYTES, Problem};

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
    /// An extent or the batch is out of the range that kernels count in.
    #[error("{name} is {given}: kernels take 1 to {most}")]
    Range {
        /// `M`, `N`, `K` or `batch`.
        name: &'static str,
        /// The given value.
        given: u64,
        /// The largest value.
        most: u64,
    },
    /// A leading dimension exceeds what kernels take.
    #[error("{name} is {given}: kernels take leading dimensions of at most {most}")]
    LeadingDimension {
        /// `lda`, `ldb` or `ldc`.
        name: &'static str,
        /// The given value.
        given: u64,
        /// The largest value.
        most: u64,
    },
    /// An operand with its rows apart is too large.
    #[error(
        "operand {operand} spans {bytes} bytes with rows of {row} elements: at most 2^48 are possible"
    )]
    Span {
        /// The operand.
        operand: char,
        /// Its bytes over the whole batch.
        bytes: u128,
        /// Its leading dimension.
        row: u64,
    },
    /// An address is null.
    #[error("the address of {operand} is null: give memory of the device")]
    Null {
        /// The operand.
        operand: char,
    },
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

    /// Checks that it can hold the operands of `problem` and that kernels can address them: they take extents and
    /// leading dimensions as 32-bit integers, and products of a batch lie one after the other.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn check(&self, problem: &Problem) -> Result<(), StorageError> {
        let shape = problem.shape;
        for (name, given, most) in [
            ("M", shape.m, MAX_EXTENT),
            ("N", shape.n, MAX_EXTENT),
            ("K", shape.k, MAX_EXTENT),
            ("batch", problem.batch, MAX_BATCH),
        ] {
            if given == 0 || given > most {
                return Err(StorageError::Range { name, given, most });
            }
        }
        let GemmType { a, b, d, .. } = problem.types;
        for (operand, name, given, [rows, least], element) in [
            ('A', "lda", self.lda, problem.stored_a(), a.bytes()),
            ('B', "ldb", self.ldb, problem.stored_b(), b.bytes()),
            ('C', "ldc", self.ldc, [shape.m, shape.n], d.bytes()),
        ] {
            if given < least {
                return Err(StorageError::Overlap { name, given, operand, least });
            }
            if given > MAX_EXTENT {
                return Err(StorageError::LeadingDimension { name, given, most: MAX_EXTENT });
            }
            let bytes = [rows, given, problem.batch, element].into_iter().map(u128::from).product();
            if bytes > u128::from(MAX_OPERAND_BYTES) {
                return Err(StorageError::Span { operand, bytes, row: given });
            }
        }
        let (alignment, element) = (self.alignment, problem.types.widest_bytes());
        if !alignment.is_power_of_two() || alignment < element {
            return Err(StorageError::Alignment { alignment, least: element });
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
        let GemmType { a, b, d, .. } = problem.types;
        let rows = [
            (self.lda, problem.lda(), a),
            (self.ldb, problem.ldb(), b),
            (self.ldc, problem.ldc(), d),
        ];
        rows.map(|(distance, length, dtype)| {
            let elements = (self.alignment / dtype.bytes()).max(1);
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
    use crate::model::{Dtype, Layout, Shape};

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
    fn what_kernels_cannot_count_is_refused() {
        let shape = |m, n, k| Problem { shape: Shape { m, n, k }, ..problem() };
        let most = MAX_EXTENT;
        for (problem, words) in [
            (shape(0, 1, 1), "M is 0: kernels take 1 to 2147479552"),
            (shape(most + 1, 1, 1), "M is 2147479553"),
            (shape(1, 1 << 31, 1), "N is 2147483648"),
            (shape(1, 1, 3_000_000_000), "K is 3000000000"),
            (Problem { batch: 0, ..shape(1, 1, 1) }, "batch is 0"),
            (Problem { batch: MAX_BATCH + 1, ..shape(1, 1, 1) }, "batch is 2147418113"),
            (shape(1 << 24, 1, 1 << 24), "operand A spans 1125899906842624 bytes"),
            (Problem { batch: 1 << 30, ..shape(1024, 1024, 1) }, "operand C spans"),
        ] {
            let error = Storage::packed(&problem).check(&problem).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        for problem in [shape(most, 1, 1), shape(1, most, 1), shape(1, 1, most)] {
            assert_eq!(Storage::packed(&problem).check(&problem), Ok(()), "{problem}");
        }
        let packed = Storage::packed(&problem());
        for (storage, words) in [
            (Storage { lda: (1 << 32) + 64, ..packed }, "lda is 4294967360: kernels take leading"),
            (Storage { ldc: most + 1, ..packed }, "ldc is 2147479553"),
            (Storage { ldb: u64::MAX, ..packed }, "ldb is 18446744073709551615"),
        ] {
            let error = storage.check(&problem()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let wide = Problem { batch: 1 << 20, ..problem() };
        let apart = Storage { ldc: most, ..packed };
        let error = apart.check(&wide).unwrap_err().to_string();
        assert!(error.contains("operand C spans 576459652791795712 bytes"), "{error}");
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
