//! Floating-point formats of 16, 19, 32 and 64 bits.

use super::Rounding;

/// The NaN that every f32 instruction returns (ISA section 9.7.3: payloads are not preserved).
pub(in crate::cpu) const NAN32: u32 = 0x7fff_ffff;

/// A format whose values are all representable in binary64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct FloatFormat {
    /// Bits of the significand, including the hidden one.
    precision: u32,
    exponent_bits: u32,
    nan: u32,
    /// Unused low bits, always zero.
    padding: u32,
}

pub(in crate::cpu) const F16: FloatFormat =
    FloatFormat { precision: 11, exponent_bits: 5, nan: 0x7fff, padding: 0 };
pub(in crate::cpu) const BF16: FloatFormat =
    FloatFormat { precision: 8, exponent_bits: 8, nan: 0x7fff, padding: 0 };
pub(in crate::cpu) const F32: FloatFormat =
    FloatFormat { precision: 24, exponent_bits: 8, nan: NAN32, padding: 0 };
/// Stored in 32 bits with the lower 13 unused (ISA section 5.2.3).
pub(in crate::cpu) const TF32: FloatFormat =
    FloatFormat { precision: 11, exponent_bits: 8, nan: NAN32, padding: 13 };

impl FloatFormat {
    /// Bits of a significand behind the point.
    pub(in crate::cpu) fn fraction_bits(self) -> i32 {
        self.precision as i32 - 1
    }

    /// Significand and exponent of finite bits: the value is `significand * 2^(exponent - fraction_bits)`. Zero and
    /// subnormal values have the smallest exponent.
    pub(in crate::cpu) fn significand_and_exponent(self, bits: u32) -> (i64, i32) {
        let (field, fraction) = self.fields(bits);
        let significand = fraction | i64::from(field > 0) << self.fraction_bits();
        let bias = (1 << (self.exponent_bits - 1)) - 1;
        let signed = if self.is_negative(bits) { -significand } else { significand };
        (signed, field.max(1) - bias)
    }

    /// Infinity or NaN, if the bits are one.
    pub(in crate::cpu) fn special_value(self, bits: u32) -> Option<f64> {
        let (field, fraction) = self.fields(bits);
        let infinity = if self.is_negative(bits) { f64::NEG_INFINITY } else { f64::INFINITY };
        let is_special = field == (1 << self.exponent_bits) - 1;
        is_special.then_some(if fraction == 0 { infinity } else { f64::NAN })
    }

    /// The fields of the exponent and of the fraction.
    fn fields(self, bits: u32) -> (i32, i64) {
        let bits = bits >> self.padding;
        let fraction = bits & ((1 << self.fraction_bits()) - 1);
        let field = bits >> self.fraction_bits() & ((1 << self.exponent_bits) - 1);
        (field as i32, fraction.into())
    }

    fn is_negative(self, bits: u32) -> bool {
        bits >> (self.padding + self.exponent_bits + self.precision - 1) & 1 == 1
    }

    /// Rounds a value to this format and returns its bits.
    pub(in crate::cpu) fn round(self, value: f64, rounding: Rounding) -> u32 {
        let bits = value.to_bits();
        let negative = bits >> 63 == 1;
        let width = self.exponent_bits + self.precision;
        let sign = u64::from(negative) << (width - 1);
        let fraction = bits & ((1 << 52) - 1);
        let field = (bits >> 52 & 0x7ff) as i32;
        if value.is_nan() {
            return self.nan;
        }
        let bias = (1 << (self.exponent_bits - 1)) - 1;
        let infinity = ((1_u64 << self.exponent_bits) - 1) << (self.precision - 1);
        let magnitude = if field == 0x7ff {
            infinity
        } else {
            // Every subnormal binary64 is below half of the smallest value of any format here.
            let significand =
                if field == 0 { u64::from(fraction != 0) } else { fraction | 1 << 52 };
            let exponent = (field - 1023).max(1 - bias);
            let dropped = (53 - self.precision as i32) + (exponent - (field - 1023));
            let kept = round_off(significand, dropped as u32, rounding, negative);
            let encoded = (((exponent + bias - 1) as u64) << (self.precision - 1)) + kept;
            if encoded < infinity {
                encoded
            } else if overflows_to_infinity(rounding, negative) {
                infinity
            } else {
                infinity - 1
            }
        };
        ((sign | magnitude) as u32) << self.padding
    }
}

/// Drops the lowest `dropped` bits of a significand, with rounding.
fn round_off(significand: u64, dropped: u32, rounding: Rounding, negative: bool) -> u64 {
    // Beyond the width of the significand, the remainder is less than half of a unit.
    let dropped = dropped.min(60);
    let kept = significand >> dropped;
    let rest = significand & ((1 << dropped) - 1);
    let half = 1_u64 << dropped >> 1;
    let up = match rounding {
        Rounding::NearestEven => rest > half || rest == half && half > 0 && kept & 1 == 1,
        Rounding::NearestAway => rest >= half && half > 0,
        Rounding::Zero => false,
        Rounding::Down => negative && rest > 0,
        Rounding::Up => !negative && rest > 0,
    };
    kept + u64::from(up)
}

fn overflows_to_infinity(rounding: Rounding, negative: bool) -> bool {
    match rounding {
        Rounding::NearestEven | Rounding::NearestAway => true,
        Rounding::Zero => false,
        Rounding::Down => negative,
        Rounding::Up => !negative,
    }
}

/// Packs two values into a word, the first in the upper half.
pub(in crate::cpu) fn pack(format: FloatFormat, high: f64, low: f64) -> u32 {
    let round = |value: f64| format.round(value, Rounding::NearestEven);
    round(high) << 16 | round(low)
}

/// Value of half-precision bits.
pub(in crate::cpu) fn f16_value(bits: u32) -> f32 {
    let sign = (bits & 0x8000) << 16;
    let magnitude = bits & 0x7fff;
    let value = if magnitude >= 0x7c00 {
        f32::from_bits(0x7f80_0000 | (magnitude & 0x3ff) << 13)
    } else {
        // A binary32 with the same fields; the factor corrects the exponent, also of subnormals.
        f32::from_bits(magnitude << 13) * f32::from_bits((254 - 15) << 23)
    };
    f32::from_bits(value.to_bits() | sign)
}

/// Value of bfloat16 bits.
pub(in crate::cpu) fn bf16_value(bits: u32) -> f32 {
    f32::from_bits(bits << 16)
}

/// x + y in binary64, rounded to odd: an inexact sum becomes the neighbour with an odd last bit. A
/// second rounding to at most 51 bits then equals a single rounding of the exact sum (Boldo and
/// Melquiond 2008).
#[inline(always)]
pub(in crate::cpu) fn add_odd(x: f64, y: f64) -> f64 {
    let sum = x + y;
    let back = sum - x;
    // Exact difference between x + y and the sum (Knuth's two-sum); NaN for infinities.
    let error = (x - (sum - back)) + (y - back);
    let bits = sum.to_bits();
    let outward = (error > 0.0) == (sum > 0.0);
    let odd = if outward { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    // False where the error is NaN.
    let inexact = error.abs() > 0.0;
    f64::from_bits(if inexact && bits & 1 == 0 { odd } else { bits })
}

/// a b + c with a single rounding. A product of two f32 values is exact in f64.
#[inline(always)]
pub(in crate::cpu) fn fma32(a: f32, b: f32, c: f32) -> f32 {
    add_odd(f64::from(a) * f64::from(b), c.into()) as f32
}

/// a b + c with a single rounding in any mode. A zero from cancellation is negative when rounding
/// down (IEEE 754 section 6.3).
pub(in crate::cpu) fn fma32_rounded(a: f32, b: f32, c: f32, rounding: Rounding) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let sum = add_odd(product, c.into());
    let cancelled = sum == 0.0 && product != 0.0;
    if cancelled && rounding == Rounding::Down {
        return -0.0;
    }
    f32::from_bits(F32.round(sum, rounding))
}

/// `fma.rn.f32` of 32 lanes.
///
/// The sum in f64 is rounded twice. That is wrong only where the sum lies half-way between two f32
/// values or the result is subnormal, which the sum reveals. Warps with such a lane take the exact
/// path.
pub(in crate::cpu) fn fma_lanes(a: &[u32; 32], b: &[u32; 32], c: &[u32; 32]) -> [u32; 32] {
    let mut out = [0; 32];
    let mut doubtful = 0;
    for i in 0..32 {
        let product = f64::from(f32::from_bits(a[i])) * f64::from(f32::from_bits(b[i]));
        let sum = product + f64::from(f32::from_bits(c[i]));
        let result = sum as f32;
        let bits = result.to_bits();
        let half_way = (sum.to_bits() as u32 & 0x1fff_ffff) == 0x1000_0000;
        let tiny = (bits & 0x7fff_ffff).wrapping_sub(1) < 0x0080_0000;
        doubtful |= u32::from(half_way) | u32::from(tiny);
        out[i] = if result.is_nan() { NAN32 } else { bits };
    }
    if doubtful != 0 {
        for i in 0..32 {
            let [a, b, c] = [a[i], b[i], c[i]].map(f32::from_bits);
            out[i] = bits32(fma32(a, b, c));
        }
    }
    out
}

/// Bits of a result. Every NaN becomes the NaN that PTX specifies.
#[inline(always)]
pub(in crate::cpu) fn bits32(value: f32) -> u32 {
    if value.is_nan() { NAN32 } else { value.to_bits() }
}

/// Replaces subnormal values by zero (`.ftz`).
#[inline(always)]
pub(in crate::cpu) fn flush(value: f32) -> f32 {
    if value.abs() < f32::MIN_POSITIVE { 0.0_f32.copysign(value) } else { value }
}

/// `min`: prefers a number to NaN, and -0 is less than 0.
#[inline(always)]
pub(in crate::cpu) fn min32(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => f32::from_bits(a.to_bits() | b.to_bits()),
        _ => {
            if a < b {
                a
            } else {
                b
            }
        }
    }
}

/// `max`, with the same rules.
#[inline(always)]
pub(in crate::cpu) fn max32(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => f32::from_bits(a.to_bits() & b.to_bits()),
        _ => {
            if a > b {
                a
            } else {
                b
            }
        }
    }
}
