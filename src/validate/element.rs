//! Elements as bits, and what rounding to them may change. `kernels.cu` has the same definitions.

use half::{bf16, f16};

use crate::model::Dtype;

/// Rounds a value to an element, to nearest and ties to even, and returns its bits. A value that binary32 does not
/// represent is rounded to it before: `half` converts from binary64 without its lowest 32 bits, so near a tie wrongly.
pub(super) fn bits_of(dtype: Dtype, value: f64) -> u32 {
    match dtype {
        Dtype::F32 => (value as f32).to_bits(),
        Dtype::I32 => (value as i32).cast_unsigned(),
        Dtype::F16 => f16::from_f32(value as f32).to_bits().into(),
        Dtype::Bf16 => bf16::from_f32(value as f32).to_bits().into(),
        Dtype::I8 => u32::from((value as i8).cast_unsigned()),
    }
}

/// The value of an element, which has the low bits of a word.
pub(super) fn value_of(dtype: Dtype, bits: u32) -> f64 {
    match dtype {
        Dtype::F32 => f32::from_bits(bits).into(),
        Dtype::I32 => bits.cast_signed().into(),
        Dtype::F16 => f16::from_bits(bits as u16).into(),
        Dtype::Bf16 => bf16::from_bits(bits as u16).into(),
        Dtype::I8 => (bits as u8).cast_signed().into(),
    }
}

/// How far a value is from its nearest element at most: half a unit in the last place of a normal one, or half the
/// distance of subnormal ones. 0 for f32, whose rounding is a part of the error bound, and for integers, which are
/// exact.
pub(super) fn rounding(dtype: Dtype, value: f64) -> f64 {
    match dtype {
        Dtype::F32 | Dtype::I32 | Dtype::I8 => 0.0,
        Dtype::F16 => value.abs() / f64::from(1 << 11) + 1.0 / f64::from(1 << 25),
        Dtype::Bf16 => value.abs() / f64::from(1 << 8),
    }
}

/// The least magnitude that becomes an infinity; infinite for integers. Half a unit in the last place above the largest
/// element.
pub(super) fn overflow(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => f64::from(f32::MAX) + 2_f64.powi(103),
        Dtype::F16 => 65_520.0,
        Dtype::Bf16 => f64::from(bf16::MAX) + 2_f64.powi(119),
        Dtype::I32 | Dtype::I8 => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_keep_their_bits() {
        for dtype in [Dtype::F16, Dtype::Bf16, Dtype::I8] {
            for bits in 0..1u32 << (8 * dtype.bytes()) {
                let value = value_of(dtype, bits);
                assert!(value.is_nan() || bits_of(dtype, value) == bits, "{dtype} {bits:x}");
            }
        }
    }

    #[test]
    fn values_from_the_overflow_on_become_infinities() {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
            let least = overflow(dtype);
            assert_eq!(value_of(dtype, bits_of(dtype, least)), f64::INFINITY, "{dtype}");
            let below = value_of(dtype, bits_of(dtype, least * (1.0 - 1e-6)));
            assert!(below.is_finite(), "{dtype}");
        }
    }

    #[test]
    fn a_value_just_above_a_tie_is_rounded_up() {
        let above = |tie: f32| f64::from(f32::from_bits(tie.to_bits() + 1));
        assert_eq!(
            value_of(Dtype::Bf16, bits_of(Dtype::Bf16, above(1.0 + 1.0 / 256.0))),
            1.0 + 1.0 / 128.0
        );
        assert_eq!(
            value_of(Dtype::F16, bits_of(Dtype::F16, above(1.0 + 1.0 / 2048.0))),
            1.0 + 1.0 / 1024.0
        );
    }

    proptest! {
        #[test]
        fn rounding_bounds_the_distance_to_the_nearest_element(value in -6e4..6e4_f32) {
            let value = f64::from(value);
            for dtype in [Dtype::F16, Dtype::Bf16] {
                let distance = (value_of(dtype, bits_of(dtype, value)) - value).abs();
                prop_assert!(distance <= rounding(dtype, value), "{dtype} {value}");
            }
        }
    }
}
