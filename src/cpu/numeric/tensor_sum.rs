//! Sums of tensor cores: the products of an instruction and its accumulator, added in one fused sum.
//!
//! The ISA leaves the order and the rounding open. Here they are those of compute capability 9.0 (Xie et al., "MMA-Sim:
//! Bit-Accurate Reference Model of Tensor Cores and Matrix Cores", arXiv 2511.10909). Products are exact. All terms are
//! aligned to the largest exponent and truncated to 25 fraction bits. Their exact sum is truncated to binary32 or rounded
//! to binary16. `tests/gpu/tensor_cores.rs` compares the bits with a GPU's.

use super::Rounding;
use super::float::{F16, F32, FloatFormat, NAN32};

/// Fraction bits of an aligned term.
const ALIGNED_BITS: i32 = 25;

/// Most terms of a sum: 16 products and the accumulator.
const MAX_TERMS: usize = 17;

/// Exponent of a term that is zero. It matters only beside sums below 2^-126, which no test compares with a GPU.
const ZERO_EXPONENT: i32 = -126;

/// Exponents of binary32 end before this.
const END_OF_EXPONENTS: i32 = 128;

/// A term, or a factor of one: `significand * 2^(exponent - fraction bits of its format)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cpu) struct SumFactor {
    significand: i64,
    exponent: i32,
    /// Infinity or NaN where it is one; else the significand, which has its sign and is zero where it is.
    special: f64,
}

impl SumFactor {
    /// Zero.
    pub(in crate::cpu) const ZERO: Self =
        Self { significand: 0, exponent: ZERO_EXPONENT, special: 0.0 };

    /// The negated factor.
    pub(in crate::cpu) fn negated(self) -> Self {
        Self { significand: -self.significand, special: -self.special, ..self }
    }

    /// Reads a value of a format. Subnormal values keep the smallest exponent.
    pub(in crate::cpu) fn of(format: FloatFormat, bits: u32) -> Self {
        let (significand, exponent) = format.significand_and_exponent(bits);
        let special = format.special_value(bits).unwrap_or(significand as f64);
        Self { significand, exponent, special }
    }
}

/// A fused sum of products of factors of one format, and of an accumulator.
#[derive(Debug, Clone)]
pub(in crate::cpu) struct FusedSum {
    format: FloatFormat,
    /// Significands of `fraction_bits` bits behind the point, and exponents.
    terms: [(i64, i32); MAX_TERMS],
    count: usize,
    fraction_bits: i32,
    /// Infinity or NaN where the sum is one; else finite, without a meaning.
    special: f64,
}

impl FusedSum {
    /// Starts a sum of products of factors of the format.
    pub(in crate::cpu) fn new(format: FloatFormat) -> Self {
        // Enough for products, and for accumulators of binary32.
        let fraction_bits = (2 * format.fraction_bits()).max(F32.fraction_bits());
        Self { format, terms: [(0, 0); MAX_TERMS], count: 0, fraction_bits, special: 0.0 }
    }

    /// Adds a product of two factors.
    pub(in crate::cpu) fn add_product(&mut self, a: SumFactor, b: SumFactor) {
        let product = SumFactor {
            significand: a.significand * b.significand,
            exponent: a.exponent + b.exponent,
            special: a.special * b.special,
        };
        self.add(product, 2 * self.format.fraction_bits());
    }

    /// Adds the accumulator, bits of the format.
    pub(in crate::cpu) fn add_accumulator(&mut self, format: FloatFormat, bits: u32) {
        self.add(SumFactor::of(format, bits), format.fraction_bits());
    }

    fn add(&mut self, term: SumFactor, fraction_bits: i32) {
        let exponent = if term.significand == 0 { ZERO_EXPONENT } else { term.exponent };
        if let Some(next) = self.terms.get_mut(self.count) {
            *next = (term.significand << (self.fraction_bits - fraction_bits), exponent);
            self.count += 1;
        }
        self.special += term.special;
    }

    /// The sum of the aligned and truncated terms, exactly.
    fn value(&self) -> f64 {
        let terms = self.terms.get(..self.count).unwrap_or_default();
        let largest = terms.iter().map(|(_, exponent)| *exponent).max().unwrap_or(0);
        let aligned = |(significand, exponent): &(i64, i32)| {
            let shift = self.fraction_bits - ALIGNED_BITS + largest - exponent;
            match u32::try_from(shift) {
                // Towards zero, whatever the sign.
                Ok(right) if right < 63 => significand / (1 << right),
                Ok(_) => 0,
                Err(_) => significand << shift.unsigned_abs(),
            }
        };
        let sum: i64 = terms.iter().map(aligned).sum();
        // At most 40 bits, and a power of two within the exponents of binary64.
        sum as f64 * power_of_two(largest - ALIGNED_BITS)
    }

    /// The sum as binary32, truncated.
    pub(in crate::cpu) fn to_f32(&self) -> u32 {
        if self.special.is_nan() {
            return NAN32;
        }
        if self.special.is_infinite() {
            return F32.round(self.special, Rounding::NearestEven);
        }
        let value = self.value();
        if value.abs() >= power_of_two(END_OF_EXPONENTS) {
            return F32.round(f64::INFINITY.copysign(value), Rounding::NearestEven);
        }
        F32.round(value, Rounding::Zero)
    }

    /// The sum as binary16, rounded to nearest.
    pub(in crate::cpu) fn to_f16(&self) -> u32 {
        let value = if self.special.is_finite() { self.value() } else { self.special };
        F16.round(value, Rounding::NearestEven)
    }
}

/// A power of two within the exponents of normal binary64.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(terms: &[(f32, f32)], start: f32) -> f32 {
        let half = |value: f32| SumFactor::of(F16, F16.round(value.into(), Rounding::NearestEven));
        let mut sum = FusedSum::new(F16);
        terms.iter().for_each(|(a, b)| sum.add_product(half(*a), half(*b)));
        sum.add_accumulator(F32, start.to_bits());
        f32::from_bits(sum.to_f32())
    }

    #[test]
    fn a_sum_is_fused_truncated_and_aligned_to_its_largest_term() {
        let tiny = 2_f32.powi(-12);
        for (terms, start, expected) in [
            (&[(1.5, 2.0), (-0.5, 4.0)][..], 0.25, 1.25),
            // What stays within 25 fraction bits of the largest term is added before anything is truncated.
            (&[(tiny, tiny), (tiny, tiny)], 1.0, 1.0 + 2_f32.powi(-23)),
            (&[(tiny, tiny)], 1.0, 1.0),
            // The result is truncated, not rounded.
            (&[(tiny, 1.9 * tiny)], 1.0, 1.0),
            (&[(tiny, -tiny)], 1.0, 1.0 - 2_f32.powi(-24)),
            // Terms below the last of the 25 bits vanish one by one, whatever they add up to.
            (&[(tiny / 4.0, tiny / 4.0); 16], 1.0, 1.0),
            // Large terms that cancel leave what was kept beside them.
            (&[(256.0, 256.0), (-256.0, 256.0), (tiny, tiny)], 0.0, 0.0),
            (&[(0.0, 0.0)], -0.0, 0.0),
            (&[(1.0, 1.0)], f32::INFINITY, f32::INFINITY),
            (&[(-65504.0, 65504.0)], f32::MIN, f32::MIN),
        ] {
            assert_eq!(sum(terms, start).to_bits(), expected.to_bits(), "{terms:?} + {start}");
        }
        assert_eq!(sum(&[(f32::INFINITY, 0.0)], 1.0).to_bits(), NAN32);
        assert_eq!(sum(&[(f32::INFINITY, -1.0)], f32::INFINITY).to_bits(), NAN32);
    }
}
