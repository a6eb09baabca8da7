//! Additions of atomic operations and of stores that add.

use super::float::{BF16, F16, add_odd, bf16_value, bits32, f16_value, pack};

/// Addition in global memory, which flushes subnormal values before and after, whatever the
/// compiler's mode (ISA section 9.7.13.5).
pub(in crate::cpu) fn add_flushed(old: u32, a: u32) -> u32 {
    let flushed = |value: f32| if value.is_subnormal() { 0.0_f32.copysign(value) } else { value };
    bits32(flushed(flushed(f32::from_bits(old)) + flushed(f32::from_bits(a))))
}

/// Sums of pairs; the upper half of a single value is zero.
pub(in crate::cpu) fn add_f16_pair(old: u32, a: u32) -> u32 {
    let sum = |shift: u32| {
        f64::from(f16_value(old >> shift & 0xffff)) + f64::from(f16_value(a >> shift & 0xffff))
    };
    pack(F16, sum(16), sum(0))
}

/// As [`add_f16_pair`], for bf16.
pub(in crate::cpu) fn add_bf16_pair(old: u32, a: u32) -> u32 {
    let sum = |shift: u32| {
        let of = |bits: u32| f64::from(bf16_value(bits >> shift & 0xffff));
        add_odd(of(old), of(a))
    };
    pack(BF16, sum(16), sum(0))
}
