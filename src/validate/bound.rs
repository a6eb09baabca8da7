//! The error bound of correct results.

use crate::model::{Compute, Problem};

/// The unit roundoff of binary32.
const UNIT_ROUNDOFF: f64 = 1.0 / (1u64 << 24) as f64;

/// Allowed standard deviations of a random walk of rounding errors. A correct element exceeds them
/// with probability 2 exp(-λ²/2) = 4e-22; the largest problems have 1e11 elements.
const DEVIATIONS: f64 = 10.0;

/// Roundings in addition to those of the sum: the products with alpha and beta, and their sum.
const SCALING_ROUNDINGS: f64 = 3.0;

/// Returns the bound on |C - reference| / (|alpha| |A| |B| + |beta| |C0|) of every element; 0 for
/// integers, which are exact.
///
/// For a sum of n rounded terms in any order, the error in that unit is at most γ(n) = n u / (1 - n
/// u) (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). With independent
/// rounding errors of mean zero it is at most exp(λ √n u + n u² / (1 - u)) - 1, except with the
/// probability above (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019, theorem 2.4). The smaller
/// of both applies: the first up to n = 100, the second beyond.
pub fn relative_bound(problem: &Problem) -> f64 {
    match problem.types.compute {
        Compute::I32 | Compute::I8 => 0.0,
        // Other compute types have no families yet. Their bound is that of strict f32 until then,
        // so that nothing passes by default.
        _ => {
            let n = problem.shape.k as f64 + SCALING_ROUNDINGS;
            let u = UNIT_ROUNDOFF;
            let worst = if n * u < 1.0 { n * u / (1.0 - n * u) } else { f64::INFINITY };
            let probable = (DEVIATIONS * n.sqrt() * u + n * u * u / (1.0 - u)).exp_m1();
            worst.min(probable)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Shape};

    fn bound(k: u64, dtype: Dtype) -> f64 {
        relative_bound(&Problem::new(Shape { m: 1, n: 1, k }, dtype))
    }

    #[test]
    fn the_bound_grows_with_k_like_the_analysis() {
        let u = UNIT_ROUNDOFF;
        for (k, expected) in
            [(1, 4.0 * u), (64, 67.0 * u), (1021, 320.0 * u), (1 << 20, 10240.0 * u)]
        {
            let bound = bound(k, Dtype::F32);
            assert!((bound / expected - 1.0).abs() < 0.01, "K = {k}: {bound} for {expected}");
        }
    }

    #[test]
    fn integers_are_exact() {
        assert_eq!(bound(1 << 20, Dtype::I32), 0.0);
    }
}
