//! What a problem needs of its operands: dtypes and numbers of elements, and the check of what is given.

use crate::error::RuntimeError;
use crate::model::{Dtype, EpilogueOp, Problem, Shape};

/// An operand as it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GivenOperand {
    /// Its name in messages.
    pub(crate) name: &'static str,
    /// Dtype of its elements.
    pub(crate) dtype: Dtype,
    /// Number of its elements.
    pub(crate) elements: u64,
}

/// Elements between rows, of A, B and D.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) lda: u64,
    pub(crate) ldb: u64,
    pub(crate) ldd: u64,
}

impl Rows {
    /// Rows without gaps between them.
    pub(crate) fn packed(problem: &Problem) -> Self {
        Self { lda: problem.lda(), ldb: problem.ldb(), ldd: problem.ldc() }
    }

    /// Elements from the first of A to its last; those of all products of a batch lie one after the other.
    pub(crate) fn elements_of_a(&self, problem: &Problem) -> u64 {
        spanned(problem, problem.stored_a(), self.lda)
    }

    /// The same of B.
    pub(crate) fn elements_of_b(&self, problem: &Problem) -> u64 {
        spanned(problem, problem.stored_b(), self.ldb)
    }

    /// The same of D, or of a C with other rows.
    pub(crate) fn elements_of_d(problem: &Problem, ldd: u64) -> u64 {
        let Shape { m, n, .. } = problem.shape;
        spanned(problem, [m, n], ldd)
    }

    /// The same of the operand of an operation of the epilogue.
    pub(crate) fn elements_of_epilogue(&self, problem: &Problem, operation: EpilogueOp) -> u64 {
        let Shape { m, n, .. } = problem.shape;
        let vector = |length: u64| length.saturating_mul(problem.batch);
        match operation {
            EpilogueOp::Bias | EpilogueOp::ColScale => vector(n),
            EpilogueOp::RowScale => vector(m),
            EpilogueOp::Residual | EpilogueOp::Mul => Self::elements_of_d(problem, self.ldd),
            EpilogueOp::Relu | EpilogueOp::Gelu | EpilogueOp::GeluTanh | EpilogueOp::Silu => 0,
        }
    }
}

/// Elements of so many rows of every product; at most what 64 bits count.
fn spanned(problem: &Problem, [rows, width]: [u64; 2], row: u64) -> u64 {
    let rows = u128::from(rows) * u128::from(problem.batch);
    if rows == 0 || width == 0 {
        return 0;
    }
    let before = (rows - 1).saturating_mul(u128::from(row));
    u64::try_from(before.saturating_add(u128::from(width))).unwrap_or(u64::MAX)
}

impl GivenOperand {
    /// Checks its dtype and its length.
    ///
    /// # Errors
    /// [`RuntimeError::WrongDtype`], [`RuntimeError::TooShort`].
    pub(crate) fn check(&self, dtype: Dtype, elements: u64) -> Result<(), RuntimeError> {
        let operand = self.name;
        if self.dtype != dtype {
            return Err(RuntimeError::WrongDtype { operand, given: self.dtype, needed: dtype });
        }
        if self.elements < elements {
            return Err(RuntimeError::TooShort { operand, given: self.elements, needed: elements });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Layout;

    #[test]
    fn the_last_row_needs_no_gap_behind_it() {
        let problem = Problem {
            batch: 3,
            layout: Layout::Tn,
            ..Problem::new("5x6x7".parse().unwrap(), Dtype::F32)
        };
        let packed = Rows::packed(&problem);
        assert_eq!(packed, Rows { lda: 5, ldb: 6, ldd: 6 });
        assert_eq!(packed.elements_of_a(&problem), 3 * 5 * 7);
        assert_eq!(packed.elements_of_b(&problem), 3 * 6 * 7);
        assert_eq!(Rows::elements_of_d(&problem, 10), 14 * 10 + 6);
        let apart = Rows { lda: 8, ..packed };
        assert_eq!(apart.elements_of_a(&problem), 20 * 8 + 5);
        assert_eq!(packed.elements_of_epilogue(&problem, EpilogueOp::Bias), 18);
        assert_eq!(packed.elements_of_epilogue(&problem, EpilogueOp::RowScale), 15);
        assert_eq!(packed.elements_of_epilogue(&problem, EpilogueOp::Mul), 90);
        let empty = Problem { shape: Shape { k: 0, ..problem.shape }, ..problem };
        assert_eq!(Rows::packed(&empty).elements_of_a(&empty), 0);
        let vast = Problem { batch: u64::MAX, ..problem };
        assert_eq!(Rows { lda: u64::MAX, ..packed }.elements_of_a(&vast), u64::MAX);
    }

    #[test]
    fn an_error_names_the_operand_and_what_is_needed() {
        let given = GivenOperand { name: "B", dtype: Dtype::F16, elements: 41 };
        assert_eq!(given.check(Dtype::F16, 41).map_err(|error| error.to_string()), Ok(()));
        for (dtype, elements, expected) in [
            (Dtype::F16, 42, "B has 41 elements, and the problem needs 42: give a longer slice"),
            (
                Dtype::Bf16,
                1,
                "B has elements of f16, and the problem needs bf16: give a slice of bf16, or a problem of these types",
            ),
        ] {
            assert_eq!(given.check(dtype, elements).unwrap_err().to_string(), expected);
        }
    }
}
