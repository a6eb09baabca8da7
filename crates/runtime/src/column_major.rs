//! Column-major products, as BLAS has them: a column-major D is the transpose of a row-major matrix, and that is
//! op(B)ᵀ op(A)ᵀ, so that A and B change places.

use crate::error::RuntimeError;
use crate::model::{GemmType, Layout, Problem, Shape};
use crate::operands::GemmOperands;

/// The row-major problem with the same memory. Its A is the B of the column-major one.
pub(crate) fn row_major(problem: &Problem) -> Problem {
    let Shape { m, n, k } = problem.shape;
    let GemmType { a, b, .. } = problem.types;
    Problem {
        shape: Shape { m: n, n: m, k },
        types: GemmType { a: b, b: a, ..problem.types },
        layout: match problem.layout {
            Layout::Nt => Layout::Tn,
            Layout::Tn => Layout::Nt,
            same @ (Layout::Nn | Layout::Tt) => same,
        },
        ..*problem
    }
}

/// The operands of the row-major problem.
pub(crate) fn row_major_operands(operands: &GemmOperands) -> GemmOperands {
    let GemmOperands { a, b, lda, ldb, .. } = *operands;
    GemmOperands { a: b, b: a, lda: ldb, ldb: lda, ..*operands }
}

/// Checks leading dimensions under the names that they have in column-major problems. `row_major` is the problem with
/// the same memory.
///
/// # Errors
/// [`RuntimeError::Columns`].
pub(crate) fn check_columns(
    row_major: &Problem,
    [lda, ldb, ldd]: [u64; 3],
) -> Result<(), RuntimeError> {
    let [of_a, of_b, of_d] = [row_major.ldb(), row_major.lda(), row_major.ldc()];
    for (name, operand, given, least) in
        [("lda", 'A', lda, of_a), ("ldb", 'B', ldb, of_b), ("ldd", 'D', ldd, of_d)]
    {
        if given < least {
            return Err(RuntimeError::Columns { name, given, operand, least });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    /// Element (row, column) of op(X), where X is column-major with columns of `ld` elements.
    fn column_major_at(is_transposed: bool, ld: u64, [row, column]: [u64; 2]) -> u64 {
        if is_transposed { row * ld + column } else { column * ld + row }
    }

    /// The same of a row-major X.
    fn row_major_at(is_transposed: bool, ld: u64, [row, column]: [u64; 2]) -> u64 {
        if is_transposed { column * ld + row } else { row * ld + column }
    }

    #[test]
    fn the_row_major_problem_reads_the_same_elements() {
        let types = GemmType { b: Dtype::I8, ..GemmType::of(Dtype::Bf16) };
        for layout in [Layout::Nn, Layout::Nt, Layout::Tn, Layout::Tt] {
            let shape = "5x6x7".parse().unwrap();
            let own = Problem { layout, types, ..Problem::new(shape, Dtype::F32) };
            let other = row_major(&own);
            assert_eq!((other.types.a, other.types.b), (Dtype::I8, Dtype::Bf16));
            let (lda, ldb) = (11, 13);
            for (i, j, l) in [(0, 0, 0), (4, 5, 6), (1, 3, 2)] {
                assert_eq!(
                    column_major_at(layout.a_transposed(), lda, [i, l]),
                    row_major_at(other.layout.b_transposed(), lda, [l, i]),
                );
                assert_eq!(
                    column_major_at(layout.b_transposed(), ldb, [l, j]),
                    row_major_at(other.layout.a_transposed(), ldb, [j, l]),
                );
                // D, which is never transposed.
                assert_eq!(column_major_at(false, 9, [i, j]), row_major_at(false, 9, [j, i]));
            }
            assert_eq!(row_major(&other), own);
        }
    }

    #[test]
    fn columns_hold_their_elements() {
        let own =
            Problem { layout: Layout::Tn, ..Problem::new("5x6x7".parse().unwrap(), Dtype::F32) };
        let other = row_major(&own);
        assert!(check_columns(&other, [7, 7, 5]).is_ok());
        let error = check_columns(&other, [6, 7, 5]).unwrap_err().to_string();
        assert_eq!(error, "lda is 6: columns of A have 7 elements, give at least as many");
        let error = check_columns(&other, [7, 7, 4]).unwrap_err().to_string();
        assert_eq!(error, "ldd is 4: columns of D have 5 elements, give at least as many");
    }
}
