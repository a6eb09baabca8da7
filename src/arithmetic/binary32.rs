//! Sums of rounded binary32 terms: fused multiply-adds in any order.

/// The unit roundoff of binary32.
pub(super) const UNIT_ROUNDOFF: f64 = 1.0 / (1u64 << 24) as f64;

/// Allowed standard deviations of a random walk of rounding errors. A correct element exceeds them
/// with probability 2 exp(-λ²/2) = 4e-22; the largest problems have 1e11 elements.
pub(super) const DEVIATIONS: f64 = 10.0;

/// Roundings in addition to those of the sum: the products with alpha and beta, and their sum.
pub(super) const SCALING_ROUNDINGS: f64 = 3.0;

/// The bound for `k` products, in units of the sum of the terms' magnitudes.
///
/// For a sum of n rounded terms in any order, the error in that unit is at most γ(n) = n u / (1 - n
/// u) (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). With independent
/// rounding errors of mean zero it is at most exp(λ √n u + n u² / (1 - u)) - 1, except with the
/// probability above (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019, theorem 2.4). The smaller
/// of both applies: the first up to n = 100, the second beyond.
pub(super) fn bound(k: u64) -> f64 {
    let n = k as f64 + SCALING_ROUNDINGS;
    let u = UNIT_ROUNDOFF;
    let worst = if n * u < 1.0 { n * u / (1.0 - n * u) } else { f64::INFINITY };
    let probable = (DEVIATIONS * n.sqrt() * u + n * u * u / (1.0 - u)).exp_m1();
    worst.min(probable)
}

/// The bound for a sum that is rounded once: of integers, or of one product and zeros.
pub(super) fn of_single_sums() -> f64 {
    (1.0 + SCALING_ROUNDINGS) * UNIT_ROUNDOFF
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_grows_with_k_like_the_analysis() {
        let u = UNIT_ROUNDOFF;
        for (k, expected) in
            [(1, 4.0 * u), (64, 67.0 * u), (1021, 320.0 * u), (1 << 20, 10240.0 * u)]
        {
            let bound = bound(k);
            assert!((bound / expected - 1.0).abs() < 0.01, "K = {k}: {bound} for {expected}");
        }
    }
}
