//! Conversion of a row-major problem to the column-major multiplication of BLAS libraries. Pure.
//!
//! A row-major matrix read in column-major order is its transpose. The libraries therefore compute
//! C^T = op(B)^T op(A)^T: B is the first operand, A the second, M and N are exchanged, and no
//! element moves.

use crate::model::Problem;

use super::error::GpuError;

/// The arguments of a strided batched GEMM, in BLAS order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ColumnMajor {
    /// Rows of the result: the problem's N.
    pub(super) m: i32,
    /// Columns of the result: the problem's M.
    pub(super) n: i32,
    /// The summed dimension.
    pub(super) k: i32,
    /// The problem's B, op(B)^T being m x k.
    pub(super) first: ColumnMajorOperand,
    /// The problem's A, op(A)^T being k x n.
    pub(super) second: ColumnMajorOperand,
    /// The problem's C.
    pub(super) result: ColumnMajorOperand,
    /// Number of products.
    pub(super) batch: i32,
}

/// One matrix of a batch, column-major.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ColumnMajorOperand {
    /// Whether the library transposes it.
    pub(super) transposed: bool,
    /// Rows as stored.
    pub(super) rows: i32,
    /// Columns as stored.
    pub(super) columns: i32,
    /// Elements between consecutive matrices of the batch.
    pub(super) stride: i64,
}

impl ColumnMajorOperand {
    /// Elements between stored columns; problems are packed.
    pub(super) fn leading_dimension(&self) -> i32 {
        self.rows
    }
}

impl ColumnMajor {
    /// Converts `problem`.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] for values beyond 32 bits, which the libraries' classic interfaces
    /// do not accept.
    pub(super) fn of(problem: &Problem, library: &'static str) -> Result<Self, GpuError> {
        let int = |name: &str, value: u64| {
            i32::try_from(value).map_err(|_| GpuError::Unsupported {
                library,
                what: format!("{name} is {value}, above {}", i32::MAX),
            })
        };
        let stride = |name: &str, value: u64| {
            i64::try_from(value).map_err(|_| GpuError::Unsupported {
                library,
                what: format!("{name} has {value} elements, above {}", i64::MAX),
            })
        };
        let m = int("N", problem.shape.n)?;
        let n = int("M", problem.shape.m)?;
        let k = int("K", problem.shape.k)?;
        let operand = |transposed, (rows, columns): (i32, i32), stride| {
            let (rows, columns) = if transposed { (columns, rows) } else { (rows, columns) };
            ColumnMajorOperand { transposed, rows, columns, stride }
        };
        Ok(Self {
            m,
            n,
            k,
            first: operand(
                problem.layout.b_transposed(),
                (m, k),
                stride("B", problem.b_elements())?,
            ),
            second: operand(
                problem.layout.a_transposed(),
                (k, n),
                stride("A", problem.a_elements())?,
            ),
            result: operand(false, (m, n), stride("C", problem.c_elements())?),
            batch: int("the batch", problem.batch)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Layout, Shape};

    const SHAPE: Shape = Shape { m: 3, n: 4, k: 5 };

    fn problem(layout: Layout) -> Problem {
        Problem { layout, batch: 2, ..Problem::new(SHAPE, Dtype::F32) }
    }

    /// The value at (row, column) of op(matrix), for matrix `index` of a batch, as BLAS reads it.
    fn at(matrix: &[i64], operand: ColumnMajorOperand, index: i64, row: i32, column: i32) -> i64 {
        let (row, column) = if operand.transposed { (column, row) } else { (row, column) };
        let offset = i64::from(column) * i64::from(operand.leading_dimension()) + i64::from(row);
        matrix[usize::try_from(index * operand.stride + offset).unwrap()]
    }

    #[test]
    fn the_swapped_column_major_product_is_the_row_major_one() {
        let count = |elements: u64| i64::try_from(elements).unwrap();
        for &layout in Layout::ALL {
            let problem = problem(layout);
            let a: Vec<i64> = (0..2 * count(problem.a_elements())).map(|i| i * 7 % 11).collect();
            let b: Vec<i64> = (0..2 * count(problem.b_elements())).map(|i| i * 5 % 13).collect();
            let gemm = ColumnMajor::of(&problem, "libcublas").unwrap();
            assert_eq!(u64::try_from(gemm.first.leading_dimension()), Ok(problem.ldb()));
            assert_eq!(u64::try_from(gemm.second.leading_dimension()), Ok(problem.lda()));
            assert_eq!(u64::try_from(gemm.result.leading_dimension()), Ok(problem.ldc()));
            for (batch, i, j) in (0..2usize).flat_map(|batch| {
                (0..3usize).flat_map(move |i| (0..4usize).map(move |j| (batch, i, j)))
            }) {
                let expected: i64 = (0..5)
                    .map(|k| {
                        let a_at = if layout.a_transposed() { k * 3 + i } else { i * 5 + k };
                        let b_at = if layout.b_transposed() { j * 5 + k } else { k * 4 + j };
                        a[batch * 15 + a_at] * b[batch * 20 + b_at]
                    })
                    .sum();
                // C[i][j] of row-major C is element (j, i) of the column-major result.
                let (row, column) = (i32::try_from(j).unwrap(), i32::try_from(i).unwrap());
                let batch = i64::try_from(batch).unwrap();
                let product: i64 = (0..gemm.k)
                    .map(|k| {
                        at(&b, gemm.first, batch, row, k) * at(&a, gemm.second, batch, k, column)
                    })
                    .sum();
                assert_eq!(product, expected, "{layout} C[{i}][{j}]");
            }
        }
    }

    #[test]
    fn values_beyond_32_bits_are_refused() {
        let beyond = Problem { shape: Shape { n: 1 << 31, ..SHAPE }, ..problem(Layout::Nn) };
        let error = ColumnMajor::of(&beyond, "libcublas").unwrap_err().to_string();
        let message =
            "libcublas cannot be used for this problem: N is 2147483648, above 2147483647";
        assert!(error.contains(message), "{error}");
    }
}
