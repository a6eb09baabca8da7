//! `cvt` (ISA section 9.7.9.21) between any two types, one lane at a time.

use super::Rounding;
use super::float::{self, BF16, F16, F32, FloatFormat, TF32, bf16_value, f16_value};
use crate::cpu::types::Type;

/// A conversion, as an instruction specifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct Conversion {
    pub(in crate::cpu) to: Type,
    pub(in crate::cpu) from: Type,
    pub(in crate::cpu) rounding: Rounding,
    /// `.rni`, `.rzi`, `.rmi`, `.rpi`: rounds to an integral value in any type.
    pub(in crate::cpu) integral: Integral,
    pub(in crate::cpu) range: ResultRange,
    pub(in crate::cpu) subnormals: Subnormals,
}

/// Whether a value is rounded to a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum Integral {
    No,
    Yes,
}

/// Treatment of values beyond the range of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum ResultRange {
    Natural,
    /// `.sat`: clamps integers to their type and floating point to [0, 1].
    Saturate,
    /// `.relu`: clamps negative values to 0.
    Positive,
}

/// Treatment of subnormal f32 values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum Subnormals {
    Kept,
    Flushed,
}

impl Conversion {
    /// Converts the lowest bits of a register.
    pub(in crate::cpu) fn apply(self, bits: u64) -> u64 {
        if self.from.is_float() { self.of_float(bits) } else { self.of_integer(bits) }
    }

    fn of_integer(self, bits: u64) -> u64 {
        let value = integer(self.from, bits);
        if !self.to.is_float() {
            return match self.range {
                ResultRange::Saturate => clamped(self.to, value),
                _ => value as u64 & mask(self.to),
            };
        }
        // Wider than binary64's significand: first rounded to odd, which makes a second rounding to
        // fewer bits exact. Conversions to binary64 itself support `.rn` only.
        if self.to == Type::F64 {
            return (value as f64).to_bits();
        }
        let odd = float::add_odd((value >> 32) as f64 * 4_294_967_296.0, f64::from(value as u32));
        self.to_float(odd)
    }

    fn of_float(self, bits: u64) -> u64 {
        let mut value = match self.from {
            Type::F64 => f64::from_bits(bits),
            Type::F16 => f16_value(bits as u32 & 0xffff).into(),
            Type::Bf16 => bf16_value(bits as u32 & 0xffff).into(),
            _ => f32::from_bits(bits as u32).into(),
        };
        if self.subnormals == Subnormals::Flushed && value.abs() < f32::MIN_POSITIVE.into() {
            value = 0.0_f64.copysign(value);
        }
        if self.to.is_float() {
            let value =
                if self.integral == Integral::Yes { self.to_integral(value) } else { value };
            return self.to_float(value);
        }
        // NaN becomes 0, and values out of range become the nearest bound (ISA: "clamped").
        if value.is_nan() {
            return 0;
        }
        clamped(self.to, self.to_integral(value) as i128)
    }

    fn to_integral(self, value: f64) -> f64 {
        match self.rounding {
            Rounding::NearestEven => value.round_ties_even(),
            Rounding::NearestAway => value.round(),
            Rounding::Zero => value.trunc(),
            Rounding::Down => value.floor(),
            Rounding::Up => value.ceil(),
        }
    }

    fn to_float(self, value: f64) -> u64 {
        let value = match self.range {
            ResultRange::Natural => value,
            ResultRange::Saturate if value.is_nan() => 0.0,
            ResultRange::Saturate => value.clamp(0.0, 1.0) + 0.0,
            ResultRange::Positive if value < 0.0 => 0.0,
            ResultRange::Positive => value,
        };
        let format: FloatFormat = match self.to {
            Type::F64 => return value.to_bits(),
            Type::F16 => F16,
            Type::Bf16 => BF16,
            Type::Tf32 => TF32,
            _ => F32,
        };
        let bits = format.round(value, self.rounding);
        let tiny = self.to == Type::F32 && f32::from_bits(bits).abs() < f32::MIN_POSITIVE;
        if self.subnormals == Subnormals::Flushed && tiny {
            return (bits & 0x8000_0000).into();
        }
        bits.into()
    }
}

fn mask(ty: Type) -> u64 {
    u64::MAX >> (64 - 8 * ty.bytes().clamp(1, 8))
}

/// Value of an integer type's bits.
fn integer(ty: Type, bits: u64) -> i128 {
    let unused = 64 - 8 * ty.bytes().clamp(1, 8);
    if ty.is_signed() {
        i128::from((bits << unused).cast_signed() >> unused)
    } else {
        i128::from(bits & mask(ty))
    }
}

/// Nearest value of an integer type, as bits.
fn clamped(ty: Type, value: i128) -> u64 {
    let bits = 8 * ty.bytes().clamp(1, 8);
    let (least, most) = if ty.is_signed() {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    } else {
        (0, (1_i128 << bits) - 1)
    };
    value.clamp(least, most) as u64 & mask(ty)
}
