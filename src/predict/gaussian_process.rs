//! Linear algebra and posterior of Gaussian processes (Rasmussen and Williams 2006, chapter 2).
//!
//! Callers give the correlations of the observed points; the process itself knows no covariance function.
//! Search surrogates have one over encoded configurations, the transfer model one over problems and kernels.
//! Matrices are symmetric and positive definite, stored as lower triangles row by row, and decomposed by
//! Cholesky's method (Golub and Van Loan 2013, section 4.2). The equations of the first few unknowns are the
//! beginning of all.

use std::array;

/// Partial sums of [`dot`], and columns that are solved at once.
const COLUMNS: usize = 4;

/// Points whose equations [`TriangularFactor::whiten`] solves at once: four registers of four.
pub const LANES: usize = 16;

/// Posterior of a process after observations.
#[derive(Debug)]
pub struct Posterior {
    lower: Vec<f64>,
    /// Weight of each observation in a mean: the inverse of the correlations times the targets.
    pub weights: Vec<f64>,
    /// Variance of the process that makes the targets most likely.
    pub amplitude: f64,
    /// Logarithm of the likelihood of the targets at that amplitude, up to a constant.
    pub likelihood: f64,
}

impl Posterior {
    /// Conditions a process on `targets` at the first points. `correlations` is the lower triangle for all
    /// points, with noise on the diagonal; the remaining points have no values yet. `None` where points are so
    /// alike that the equations cannot be solved.
    pub fn of(correlations: Vec<f64>, points: usize, targets: &[f64]) -> Option<Self> {
        let mut lower = correlations;
        decompose(&mut lower, points)?;
        let count = targets.len();
        let mut whitened = targets.to_vec();
        forward(&lower, &mut whitened);
        let amplitude = dot(&whitened, &whitened) / count as f64;
        let determinant: f64 = (0..count).map(|row| lower[row_start(row) + row].ln()).sum();
        let likelihood = -0.5 * count as f64 * amplitude.max(1e-12).ln() - determinant;
        let mut weights = whitened;
        backward(&lower, &mut weights);
        Some(Self { lower, weights, amplitude, likelihood })
    }

    /// The triangular factor in single precision, for the variances of many points.
    pub fn factor(&self) -> TriangularFactor {
        TriangularFactor(self.lower.iter().map(|entry| *entry as f32).collect())
    }
}

/// Lower triangle L of a Cholesky decomposition, in single precision.
#[derive(Debug)]
pub struct TriangularFactor(Vec<f32>);

impl TriangularFactor {
    /// Replaces correlations with the observed points, a row each and a point in each lane, by L⁻¹ times them.
    /// Returns the sum of squares for each lane: the share of the variance that the observations explain.
    pub fn whiten(&self, rows: &mut [[f32; LANES]]) -> [f32; LANES] {
        let mut explained = [0f32; LANES];
        for at in 0..rows.len() {
            let factors = &self.0[row_start(at)..][..=at];
            // A copy, which the compiler keeps in registers.
            let mut row = rows[at];
            for (factor, solved) in factors.iter().zip(&rows[..at]) {
                for lane in 0..LANES {
                    row[lane] -= factor * solved[lane];
                }
            }
            let scale = 1.0 / factors[at];
            for lane in 0..LANES {
                row[lane] *= scale;
                explained[lane] += row[lane] * row[lane];
            }
            rows[at] = row;
        }
        explained
    }
}

/// Index of the first entry of a row of a lower triangle.
pub fn row_start(row: usize) -> usize {
    row * (row + 1) / 2
}

/// Replaces a matrix of `count` rows by L with L Lᵀ the matrix. `None` where it is not positive definite beyond
/// rounding errors.
pub(super) fn decompose(matrix: &mut [f64], count: usize) -> Option<()> {
    for row in 0..count {
        let (above, below) = matrix.split_at_mut(row_start(row));
        let whole = row / COLUMNS * COLUMNS;
        for column in (0..whole).step_by(COLUMNS) {
            solve_few(above, below, column);
        }
        for column in whole..row {
            let other = &above[row_start(column)..][..=column];
            below[column] = (below[column] - dot(other, &below[..column])) / other[column];
        }
        let rest = below[row] - dot(&below[..row], &below[..row]);
        if rest <= 1e-10 {
            return None;
        }
        below[row] = rest.sqrt();
    }
    Some(())
}

/// Solves `COLUMNS` entries of a row from a column that is a multiple of it, with the rows above. Their sums are
/// independent, and equal those of [`dot`] to the bit.
fn solve_few(above: &[f64], row: &mut [f64], column: usize) {
    let others: [&[f64]; COLUMNS] = array::from_fn(|at| {
        let other = column + at;
        &above[row_start(other)..][..=other]
    });
    let mut sums = [[0f64; COLUMNS]; COLUMNS];
    for (at, own) in row[..column].as_chunks::<COLUMNS>().0.iter().enumerate() {
        for (sums, other) in sums.iter_mut().zip(others) {
            let other = &other[COLUMNS * at..][..COLUMNS];
            for lane in 0..COLUMNS {
                sums[lane] += other[lane] * own[lane];
            }
        }
    }
    for (at, (sums, other)) in sums.iter().zip(others).enumerate() {
        let rest: f64 = other[column..].iter().zip(&row[column..][..at]).map(|(a, b)| a * b).sum();
        let (entry, factor) = (row[column + at], other[column + at]);
        row[column + at] = (entry - (sums.iter().sum::<f64>() + rest)) / factor;
    }
}

/// Replaces `right` by L⁻¹ times it, with the first rows of `lower`, as many as `right` has entries.
pub(super) fn forward(lower: &[f64], right: &mut [f64]) {
    for row in 0..right.len() {
        let (solved, rest) = right.split_at_mut(row);
        let factors = &lower[row_start(row)..][..=row];
        rest[0] = (rest[0] - dot(factors, solved)) / factors[row];
    }
}

/// Replaces `right` by L⁻ᵀ times it; L as for [`forward`].
pub(super) fn backward(lower: &[f64], right: &mut [f64]) {
    for row in (0..right.len()).rev() {
        let factors = &lower[row_start(row)..][..=row];
        right[row] /= factors[row];
        let solved = right[row];
        for (right, factor) in right.iter_mut().zip(&factors[..row]) {
            *right -= factor * solved;
        }
    }
}

/// Sum of products over the shorter of two slices, in four partial sums.
pub fn dot(one: &[f64], other: &[f64]) -> f64 {
    let count = one.len().min(other.len());
    let (one, other) = (one[..count].chunks_exact(COLUMNS), other[..count].chunks_exact(COLUMNS));
    let rest: f64 = one.remainder().iter().zip(other.remainder()).map(|(a, b)| a * b).sum();
    let mut sums = [0f64; COLUMNS];
    for (one, other) in one.zip(other) {
        for lane in 0..COLUMNS {
            sums[lane] += one[lane] * other[lane];
        }
    }
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn solutions_fulfil_the_equations(
            (entries, right) in (1..20_usize).prop_flat_map(|count| {
                let numbers = |count| prop::collection::vec(-1.0..1.0_f64, count);
                (numbers(count * count), numbers(count))
            })
        ) {
            let count = right.len();
            // M Mᵀ + 1 is positive definite for any M.
            let entry = |row: usize, column: usize| {
                let rows = [row, column].map(|row| &entries[row * count..(row + 1) * count]);
                dot(rows[0], rows[1]) + f64::from(u8::from(row == column))
            };
            let places = (0..count).flat_map(|row| (0..=row).map(move |column| (row, column)));
            let mut lower: Vec<f64> = places.map(|(row, column)| entry(row, column)).collect();
            decompose(&mut lower, count).unwrap();
            // All equations, then the first few alone.
            for count in [count, count / 2] {
                let mut solution = right[..count].to_vec();
                forward(&lower, &mut solution);
                backward(&lower, &mut solution);
                for (row, expected) in right[..count].iter().enumerate() {
                    let found: f64 = (0..count).map(|column| entry(row, column) * solution[column]).sum();
                    prop_assert!((found - expected).abs() < 1e-9);
                }
            }
        }
    }

    #[test]
    fn a_matrix_that_is_not_positive_definite_has_no_decomposition() {
        assert_eq!(decompose(&mut [1.0, 1.0, 1.0], 2), None);
        assert_eq!(decompose(&mut [-1.0], 1), None);
        assert_eq!(decompose(&mut [], 0), Some(()));
    }
}
