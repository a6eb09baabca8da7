//! Sums of tensor cores: products of 16-bit or tf32 operands, added to a binary32 sum.
//!
//! An instruction of depth d adds d exact products to the sum in one step: all d + 1 terms are aligned with the largest
//! exponent and truncated to 25 fraction bits, and their exact sum is truncated to binary32 (Hopper; MMA-Sim,
//! `nv_ptx.py`; the cpu device does the same, and an H200 gives its bits).

use super::binary32::{DEVIATIONS, SCALING_ROUNDINGS, UNIT_ROUNDOFF};

/// Last of the fraction bits that the terms of an instruction keep.
const LAST_BIT: f64 = 1.0 / (1u64 << 25) as f64;

/// Products of the shortest instruction, whose sums are truncated most often.
const SHORTEST: f64 = 4.0;

/// Largest relative change of an operand that becomes tf32. Instructions ignore the low 13 bits of a word: operands that
/// nothing rounds are truncated, as libraries may do. Kernels of this program round to nearest, with half of this.
const TF32_ROUNDOFF: f64 = 1.0 / (1u64 << 10) as f64;

/// The bound for `k` products of uniform values in [-1, 1), in units of the sum of the terms' magnitudes.
///
/// Let T be the largest magnitude of a term. An instruction of depth d loses less than T 2^-25 of each of d + 1 terms,
/// and less than T 2^-23 by its result: (d + 5) T 2^-25. A chain has K / d of them. No term exceeds the sum S of all
/// magnitudes, so the error is below (K / d) (d + 5) 2^-25 S.
///
/// That ignores how the sum grows. Products of uniform values have mean zero and a variance proxy of 1/3. By Hoeffding's
/// inequality a partial sum stays below T = λ √(K / 3), and S stays above K / 4 - λ √K / 2. Each fails with the
/// probability that [`DEVIATIONS`] states. The smaller of both bounds applies.
pub(super) fn bound(k: u64) -> f64 {
    let lost = lost(k);
    let probable = magnitudes(k)
        .map_or(f64::INFINITY, |magnitudes| lost * random_walk(k).max(1.0) / magnitudes);
    lost.min(probable) + SCALING_ROUNDINGS * UNIT_ROUNDOFF
}

/// The bound for `k` products of any values, in the same units: that of a chain.
pub(super) fn chain(k: u64) -> f64 {
    lost(k) + SCALING_ROUNDINGS * UNIT_ROUNDOFF
}

/// What a chain of the shortest instructions loses.
fn lost(k: u64) -> f64 {
    (k as f64 / SHORTEST).ceil() * (SHORTEST + 5.0) * LAST_BIT
}

/// The same as [`bound`] for binary32 operands that become tf32 before.
///
/// That changes a product by at most 2 u + u² of its magnitude. As values below 1 change by at most u / 2, and the
/// other factor has mean zero, the sum of these changes stays below λ √(K / 3) u.
pub(super) fn tf32_bound(k: u64) -> f64 {
    let probable = magnitudes(k)
        .map_or(f64::INFINITY, |magnitudes| TF32_ROUNDOFF * random_walk(k) / magnitudes);
    tf32_operands().min(probable) + bound(k)
}

/// What operands that become tf32 change in a product at most.
pub(super) fn tf32_operands() -> f64 {
    2.0 * TF32_ROUNDOFF + TF32_ROUNDOFF * TF32_ROUNDOFF
}

/// What a sum of `k` products of uniform values does not exceed.
fn random_walk(k: u64) -> f64 {
    DEVIATIONS * (k as f64 / 3.0).sqrt()
}

/// What the sum of magnitudes of `k` products of uniform values exceeds, where the inequality says anything.
fn magnitudes(k: u64) -> Option<f64> {
    let k = k as f64;
    Some(k / 4.0 - DEVIATIONS * k.sqrt() / 2.0).filter(|least| *least > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_that_of_a_chain_where_it_is_short_and_grows_slower_where_it_is_long() {
        for (k, expected) in
            [(1, 9.0 * LAST_BIT), (64, 144.0 * LAST_BIT), (1024, 2304.0 * LAST_BIT)]
        {
            let own = bound(k) - 3.0 * UNIT_ROUNDOFF;
            assert!((own / expected - 1.0).abs() < 1e-6, "K = {k}: {own} for {expected}");
        }
        let growth = bound(1 << 20) / bound(1 << 18);
        assert!((1.5..2.5).contains(&growth), "{growth}");
        assert!(bound(1 << 20) < 0.025 * (1 << 20) as f64 * 2.25 * LAST_BIT);
    }

    #[test]
    fn rounding_to_tf32_counts_less_in_long_sums() {
        assert!((tf32_bound(8) / (2.0 * TF32_ROUNDOFF) - 1.0).abs() < 0.01);
        assert!(tf32_bound(1 << 16) < 0.25 * TF32_ROUNDOFF + bound(1 << 16));
    }
}
