//! Linear equations whose matrix is symmetric and positive definite, as those of Gaussian processes are:
//! the decomposition into a lower triangle and its transpose (Golub and Van Loan 2013, section 4.2).
//! Matrices are lower triangles without what lies above, row by row: the equations of the first few unknowns
//! alone are the beginning of all.

use std::array;

/// Sums that [`dot`] adds up to one, and columns that are solved at once.
const LANES: usize = 4;

/// Where a row of a lower triangle begins: rows before it have 1, 2, 3 and so on entries.
pub fn row_start(row: usize) -> usize {
    row * (row + 1) / 2
}

/// The lower triangle L of a matrix of `count` rows, in its place, with L Lᵀ the matrix; `None` where it
/// is not positive definite, or so nearly that roundings decide.
pub fn decompose(matrix: &mut [f64], count: usize) -> Option<()> {
    for row in 0..count {
        let (above, below) = matrix.split_at_mut(row_start(row));
        let whole = row / LANES * LANES;
        for column in (0..whole).step_by(LANES) {
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

/// `LANES` entries of a row of the lower triangle from a column that is a multiple of it, with the rows above.
/// Their sums do not wait for each other, and are those of [`dot`] to the bit.
fn solve_few(above: &[f64], row: &mut [f64], column: usize) {
    let others: [&[f64]; LANES] = array::from_fn(|at| {
        let other = column + at;
        &above[row_start(other)..][..=other]
    });
    let mut sums = [[0f64; LANES]; LANES];
    for (at, own) in row[..column].as_chunks::<LANES>().0.iter().enumerate() {
        for (sums, other) in sums.iter_mut().zip(others) {
            let other = &other[LANES * at..][..LANES];
            for lane in 0..LANES {
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

/// Replaces `right` by L⁻¹ times it, with as many rows of L as `right` has entries, the first of `lower`.
pub fn forward(lower: &[f64], right: &mut [f64]) {
    for row in 0..right.len() {
        let (solved, rest) = right.split_at_mut(row);
        let factors = &lower[row_start(row)..][..=row];
        rest[0] = (rest[0] - dot(factors, solved)) / factors[row];
    }
}

/// Replaces `right` by L⁻ᵀ times it; L as for [`forward`].
pub fn backward(lower: &[f64], right: &mut [f64]) {
    for row in (0..right.len()).rev() {
        let factors = &lower[row_start(row)..][..=row];
        right[row] /= factors[row];
        let solved = right[row];
        for (right, factor) in right.iter_mut().zip(&factors[..row]) {
            *right -= factor * solved;
        }
    }
}

/// The sum of products over the shorter of two; in four sums, which the compiler keeps in registers.
pub fn dot(one: &[f64], other: &[f64]) -> f64 {
    let count = one.len().min(other.len());
    let (one, other) = (one[..count].chunks_exact(LANES), other[..count].chunks_exact(LANES));
    let rest: f64 = one.remainder().iter().zip(other.remainder()).map(|(a, b)| a * b).sum();
    let mut sums = [0f64; LANES];
    for (one, other) in one.zip(other) {
        for lane in 0..LANES {
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
        fn what_is_solved_fulfils_the_equations(
            (entries, right) in (1..20_usize).prop_flat_map(|count| {
                let numbers = |count| prop::collection::vec(-1.0..1.0_f64, count);
                (numbers(count * count), numbers(count))
            })
        ) {
            let count = right.len();
            // M Mᵀ + 1 is positive definite whatever M.
            let of = |row: usize, column: usize| {
                let rows = [row, column].map(|row| &entries[row * count..(row + 1) * count]);
                dot(rows[0], rows[1]) + f64::from(u8::from(row == column))
            };
            let places = (0..count).flat_map(|row| (0..=row).map(move |column| (row, column)));
            let mut lower: Vec<f64> = places.map(|(row, column)| of(row, column)).collect();
            decompose(&mut lower, count).unwrap();
            // Of all equations, and of the first few alone.
            for count in [count, count / 2] {
                let mut solution = right[..count].to_vec();
                forward(&lower, &mut solution);
                backward(&lower, &mut solution);
                for (row, wanted) in right[..count].iter().enumerate() {
                    let found: f64 = (0..count).map(|column| of(row, column) * solution[column]).sum();
                    prop_assert!((found - wanted).abs() < 1e-9);
                }
            }
        }
    }

    #[test]
    fn what_is_not_positive_definite_has_no_decomposition() {
        assert_eq!(decompose(&mut [1.0, 1.0, 1.0], 2), None);
        assert_eq!(decompose(&mut [-1.0], 1), None);
        assert_eq!(decompose(&mut [], 0), Some(()));
    }
}
