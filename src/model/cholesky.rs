//! Linear equations whose matrix is symmetric and positive definite, as those of Gaussian processes are:
//! the decomposition into a lower triangle and its transpose (Golub and Van Loan 2013, section 4.2).
//! Matrices are square, row by row, and only their lower triangle is looked at.

/// The lower triangle L of a matrix of `count` rows, in its place, with L Lᵀ the matrix; `None` where it
/// is not positive definite, or so nearly that roundings decide.
pub fn decompose(matrix: &mut [f64], count: usize) -> Option<()> {
    for row in 0..count {
        let (above, below) = matrix.split_at_mut(row * count);
        for column in 0..row {
            let other = &above[column * count..=column * count + column];
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

/// Replaces `right` by L⁻¹ times it.
pub fn forward(lower: &[f64], right: &mut [f64]) {
    let count = right.len();
    for row in 0..count {
        let (solved, rest) = right.split_at_mut(row);
        rest[0] = (rest[0] - dot(&lower[row * count..], solved)) / lower[row * count + row];
    }
}

/// Replaces `right` by L⁻ᵀ times it.
pub fn backward(lower: &[f64], right: &mut [f64]) {
    let count = right.len();
    for row in (0..count).rev() {
        right[row] /= lower[row * count + row];
        for column in 0..row {
            right[column] -= lower[row * count + column] * right[row];
        }
    }
}

/// The sum of products over the shorter of two; in four sums, which the compiler keeps in registers.
pub fn dot(one: &[f64], other: &[f64]) -> f64 {
    let count = one.len().min(other.len());
    let (one, other) = (one[..count].chunks_exact(4), other[..count].chunks_exact(4));
    let rest: f64 = one.remainder().iter().zip(other.remainder()).map(|(a, b)| a * b).sum();
    let mut sums = [0f64; 4];
    for (one, other) in one.zip(other) {
        for lane in 0..4 {
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
            (entries, right) in (1..9_usize).prop_flat_map(|count| {
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
            let places = (0..count).flat_map(|row| (0..count).map(move |column| (row, column)));
            let matrix: Vec<f64> = places.map(|(row, column)| of(row, column)).collect();
            let mut lower = matrix.clone();
            decompose(&mut lower, count).unwrap();
            let mut solution = right.clone();
            forward(&lower, &mut solution);
            backward(&lower, &mut solution);
            for (row, wanted) in matrix.chunks_exact(count).zip(right) {
                prop_assert!((dot(row, &solution) - wanted).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn what_is_not_positive_definite_has_no_decomposition() {
        assert_eq!(decompose(&mut [1.0, 1.0, 1.0, 1.0], 2), None);
        assert_eq!(decompose(&mut [-1.0], 1), None);
        assert_eq!(decompose(&mut [], 0), Some(()));
    }
}
