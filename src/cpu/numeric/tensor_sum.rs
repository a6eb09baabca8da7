//! Sums of tensor cores: the products of an instruction and its accumulator, added in one fused sum.
//!
//! The ISA leaves the order and the rounding open. Here they are those of compute capability 9.0 (Xie et al., "MMA-Sim:
//! Bit-Accurate Reference Model of Tensor Cores and Matrix Cores", arXiv 2511.10909). Products are exact. All terms are
//! aligned to the largest exponent and truncated to 25 fraction bits. Their exact sum is truncated to binary32 or rounded
//! to binary16. `tests/gpu/tensor_cores.rs` compares the bits with a GPU's.
//!
//! Terms are values in binary64, which has every product. A power of two aligns them, and the conversion to an integer
//! truncates them: loops of a fixed length over the terms, which the compiler vectorises.

use super::Rounding;
use super::float::{F16, F32, FloatFormat, NAN32};

/// Fraction bits of an aligned term.
const ALIGNED_BITS: i32 = 25;

/// Products of a loop. The sum of so many aligned products is below 2^30.
const CHUNK: usize = 8;

/// Most products of a sum.
const MAX_PRODUCTS: usize = 16;

/// Exponent of an accumulator that is zero. It matters only beside sums below 2^-126, which no test compares with a GPU.
const ZERO_EXPONENT: i32 = -126;

/// Exponent of a factor that is zero: a product with it has a smaller exponent than any accumulator.
const ZERO_FACTOR_EXPONENT: i32 = -1000;

/// Exponents of binary32 end before this.
const END_OF_EXPONENTS: i32 = 128;

/// Factors of a sum: a row of A or a column of B. Those that are not set are zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cpu) struct Factors {
    values: [f64; MAX_PRODUCTS],
    /// That of a subnormal value is the smallest one of its format.
    exponents: [i32; MAX_PRODUCTS],
    is_finite: bool,
}

impl Factors {
    /// Zeros.
    pub(in crate::cpu) const ZERO: Self = Self {
        values: [0.0; MAX_PRODUCTS],
        exponents: [ZERO_FACTOR_EXPONENT; MAX_PRODUCTS],
        is_finite: true,
    };

    /// Sets a factor to a value of a format.
    pub(in crate::cpu) fn set(&mut self, at: usize, format: FloatFormat, bits: u32) {
        let (value, exponent) = value_and_exponent(format, bits);
        if let (Some(to), Some(of_it)) = (self.values.get_mut(at), self.exponents.get_mut(at)) {
            *to = value;
            *of_it = if value == 0.0 { ZERO_FACTOR_EXPONENT } else { exponent };
            self.is_finite &= value.is_finite();
        }
    }

    /// The negated factors.
    pub(in crate::cpu) fn negated(self) -> Self {
        Self { values: self.values.map(|value| -value), ..self }
    }
}

/// The value of bits in binary64, and its exponent. Zero and subnormal values have the smallest exponent.
fn value_and_exponent(format: FloatFormat, bits: u32) -> (f64, i32) {
    let (significand, exponent) = format.significand_and_exponent(bits);
    let finite = significand as f64 * power_of_two(exponent - format.fraction_bits());
    (format.special_value(bits).unwrap_or(finite), exponent)
}

/// A fused sum of products of two rows of factors, and of an accumulator: exact, or an infinity or NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cpu) struct FusedSum(f64);

impl FusedSum {
    /// The sum, with an accumulator that is bits of a format.
    pub(in crate::cpu) fn of(a: &Factors, b: &Factors, (format, bits): (FloatFormat, u32)) -> Self {
        let (start, exponent) = value_and_exponent(format, bits);
        if !(a.is_finite && b.is_finite && start.is_finite()) {
            let products = a.values.iter().zip(&b.values).map(|(a, b)| a * b);
            return Self(products.fold(start, |sum, product| sum + product));
        }
        let mut largest = if start == 0.0 { ZERO_EXPONENT } else { exponent };
        for (a, b) in a.exponents.iter().zip(&b.exponents) {
            largest = largest.max(a + b);
        }
        // Towards zero, whatever the sign.
        let scale = power_of_two(ALIGNED_BITS - largest);
        let aligned = |value: f64| (value * scale) as i32;
        let mut sum = i64::from(aligned(start));
        let chunks = a.values.as_chunks::<CHUNK>().0.iter().zip(b.values.as_chunks::<CHUNK>().0);
        for (a, b) in chunks {
            let products: [i32; CHUNK] = std::array::from_fn(|at| aligned(a[at] * b[at]));
            sum += i64::from(products.iter().sum::<i32>());
        }
        // At most 40 bits, and a power of two within the exponents of binary64.
        Self(sum as f64 * power_of_two(largest - ALIGNED_BITS))
    }

    /// The sum as binary32, truncated.
    pub(in crate::cpu) fn to_f32(self) -> u32 {
        let Self(value) = self;
        if value.is_nan() {
            return NAN32;
        }
        if value.abs() >= power_of_two(END_OF_EXPONENTS) {
            return F32.round(f64::INFINITY.copysign(value), Rounding::NearestEven);
        }
        // The nearest value, or the one before it.
        let nearest = value as f32;
        let is_beyond = f64::from(nearest).abs() > value.abs();
        nearest.to_bits() - u32::from(is_beyond)
    }

    /// The sum as binary16, rounded to nearest.
    pub(in crate::cpu) fn to_f16(self) -> u32 {
        F16.round(self.0, Rounding::NearestEven)
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
        let [mut a, mut b] = [Factors::ZERO; 2];
        for (at, (of_a, of_b)) in terms.iter().enumerate() {
            let half = |value: f32| F16.round(value.into(), Rounding::NearestEven);
            a.set(at, F16, half(*of_a));
            b.set(at, F16, half(*of_b));
        }
        let sum = FusedSum::of(&a, &b, (F32, start.to_bits()));
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
