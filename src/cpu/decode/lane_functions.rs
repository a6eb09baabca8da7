//! Macros that turn an expression over one value into a function over the 32 lanes of a slot. The
//! functions loop over arrays of fixed length, which the compiler vectorises.

use crate::cpu::numeric::float::{bf16_value, bits32, f16_value};

/// A value that a slot of 32 or 64 bits stores.
pub(in crate::cpu) trait LaneValue<Bits> {
    fn of(bits: Bits) -> Self;
    fn bits(self) -> Bits;
}

macro_rules! lane {
    ($($value:ty as $bits:ty: $from:expr, $to:expr;)*) => {$(
        impl LaneValue<$bits> for $value {
            #[inline(always)]
            fn of(bits: $bits) -> Self {
                $from(bits)
            }
            #[inline(always)]
            fn bits(self) -> $bits {
                $to(self)
            }
        }
    )*};
}

/// Bits of an f16 value. Functions round their own results.
#[derive(Debug, Clone, Copy)]
pub(in crate::cpu) struct F16Lane(pub(in crate::cpu) u32);

/// Bits of a bf16 value, likewise.
#[derive(Debug, Clone, Copy)]
pub(in crate::cpu) struct Bf16Lane(pub(in crate::cpu) u32);

impl F16Lane {
    pub(in crate::cpu) fn value(self) -> f64 {
        f16_value(self.0).into()
    }
}

impl Bf16Lane {
    pub(in crate::cpu) fn value(self) -> f64 {
        bf16_value(self.0).into()
    }
}

lane! {
    u32 as u32: |x| x, |x| x;
    i32 as u32: |x: u32| x.cast_signed(), |x: i32| x.cast_unsigned();
    f32 as u32: f32::from_bits, bits32;
    u16 as u32: |x| x as u16, u32::from;
    i16 as u32: |x| x as i16, |x: i16| u32::from(x.cast_unsigned());
    F16Lane as u32: |x| F16Lane(x & 0xffff), |x: F16Lane| x.0;
    Bf16Lane as u32: |x| Bf16Lane(x & 0xffff), |x: Bf16Lane| x.0;
    u64 as u64: |x| x, |x| x;
    i64 as u64: |x: u64| x.cast_signed(), |x: i64| x.cast_unsigned();
    f64 as u64: f64::from_bits, |x: f64| x.to_bits();
}

/// `lanes!(|a: i32, b: i32| a.wrapping_add(b))` is a function over slots of the classes that the
/// context requires.
macro_rules! lanes {
    (|$a:ident: $A:ty| $body:expr) => {
        |a_lanes| {
            let mut out = [Default::default(); 32];
            for i in 0..32 {
                let $a = <$A as LaneValue<_>>::of(a_lanes[i]);
                out[i] = LaneValue::bits($body);
            }
            out
        }
    };
    (|$a:ident: $A:ty, $b:ident: $B:ty| $body:expr) => {
        |a_lanes, b_lanes| {
            let mut out = [Default::default(); 32];
            for i in 0..32 {
                let $a = <$A as LaneValue<_>>::of(a_lanes[i]);
                let $b = <$B as LaneValue<_>>::of(b_lanes[i]);
                out[i] = LaneValue::bits($body);
            }
            out
        }
    };
    (|$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty| $body:expr) => {
        |a_lanes, b_lanes, c_lanes| {
            let mut out = [Default::default(); 32];
            for i in 0..32 {
                let $a = <$A as LaneValue<_>>::of(a_lanes[i]);
                let $b = <$B as LaneValue<_>>::of(b_lanes[i]);
                let $c = <$C as LaneValue<_>>::of(c_lanes[i]);
                out[i] = LaneValue::bits($body);
            }
            out
        }
    };
}

/// `tests!(|a: i32, b: i32| a < b)` is a function from slots to the bits of a predicate.
macro_rules! tests {
    (|$a:ident: $A:ty, $b:ident: $B:ty| $body:expr) => {
        |a_lanes, b_lanes| {
            let mut out = 0;
            for i in 0..32 {
                let $a = <$A as LaneValue<_>>::of(a_lanes[i]);
                let $b = <$B as LaneValue<_>>::of(b_lanes[i]);
                out |= if $body { crate::cpu::lanes::LANE_BITS[i] } else { 0 };
            }
            out
        }
    };
}

pub(in crate::cpu) use {lanes, tests};
