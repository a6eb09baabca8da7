//! Rounding compared with exact arithmetic, for all values of narrow formats and many of wide ones.

use crate::cpu::numeric::Rounding;
use crate::cpu::numeric::float::{
    BF16, F16, F32, bits32, f16_value, fma_lanes, fma32, fma32_rounded,
};

/// Bit patterns that are hard to round: few bits set, close exponents.
fn pattern(random: &mut fastrand::Rng) -> u32 {
    let sign = random.u32(..2) << 31;
    let exponent = match random.u8(..4) {
        0 => random.u32(..256),
        1 => random.u32(..30),
        _ => random.u32(100..150),
    };
    let fraction = match random.u8(..3) {
        0 => random.u32(..1 << 23),
        1 => 1 << random.u32(..23),
        _ => ((1 << 23) - 1) ^ (1 << random.u32(..23)),
    };
    sign | exponent << 23 | fraction
}

#[test]
fn fused_multiply_adds_are_rounded_once() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let mut lanes = || std::array::from_fn::<u32, 32, _>(|_| pattern(&mut random));
        let (a, b, mut c) = (lanes(), lanes(), lanes());
        // Half of the lanes nearly cancel.
        for lane in 0..16 {
            let product = f32::from_bits(a[lane]) * f32::from_bits(b[lane]);
            c[lane] = (-product).to_bits() ^ random.u32(..4);
        }
        let got = fma_lanes(&a, &b, &c);
        for lane in 0..32 {
            let [x, y, z] = [a, b, c].map(|values| f32::from_bits(values[lane]));
            let expected = bits32(x.mul_add(y, z));
            assert_eq!(got[lane], expected, "{x:e} * {y:e} + {z:e}");
            assert_eq!(bits32(fma32(x, y, z)), expected, "{x:e} * {y:e} + {z:e}");
            let nearest = bits32(fma32_rounded(x, y, z, Rounding::NearestEven));
            assert_eq!(nearest, expected, "{x:e} * {y:e} + {z:e}");
        }
    }
}

#[test]
fn a_sum_slightly_above_half_way_is_rounded_up() {
    // 1 + 2^-24 is half-way. 2^-60 more is not, but binary64 cannot represent the difference.
    let (half, more) = (f32::powi(2.0, -24), f32::powi(2.0, -30));
    let fused = |c: f32| {
        fma_lanes(&[more.to_bits(); 32], &[c.to_bits(); 32], &[(1.0 + 0.0_f32).to_bits(); 32])[0]
    };
    assert_eq!(f32::from_bits(fused(f32::powi(2.0, 6))), 1.0);
    let above = f32::from_bits((half * 64.0 * 16_777_216.0).to_bits() | 1);
    assert_eq!(
        f32::from_bits(fused(above / 16_777_216.0 * 16_777_216.0)),
        more.mul_add(above, 1.0)
    );
}

#[test]
fn directed_rounding_encloses_the_exact_value() {
    let mut random = fastrand::Rng::with_seed(8);
    for _ in 0..200_000 {
        let [a, b, c] = std::array::from_fn(|_| f32::from_bits(pattern(&mut random)));
        let of = |rounding| fma32_rounded(a, b, c, rounding);
        let (down, up, zero) = (of(Rounding::Down), of(Rounding::Up), of(Rounding::Zero));
        let nearest = a.mul_add(b, c);
        if nearest.is_nan() {
            continue;
        }
        assert!(down <= nearest && nearest <= up, "{a:e} {b:e} {c:e}");
        assert!(down == up || down.next_up() == up, "{a:e} {b:e} {c:e}: {down:e} {up:e}");
        assert!(zero == if nearest > 0.0 { down } else { up } || nearest == 0.0);
    }
}

#[test]
fn every_half_round_trips_and_ties_go_to_even() {
    for bits in 0..0x7c00_u32 {
        let value = f64::from(f16_value(bits));
        assert_eq!(F16.round(value, Rounding::NearestEven), bits);
        assert_eq!(F16.round(-value, Rounding::NearestEven), bits | 0x8000);
        // The largest value rounds as if infinity were the next number.
        let next = if bits == 0x7bff { 65_536.0 } else { f64::from(f16_value(bits + 1)) };
        let middle = (value + next) / 2.0;
        assert_eq!(F16.round(middle, Rounding::NearestEven), bits + (bits & 1));
        assert_eq!(F16.round(middle, Rounding::Zero), bits);
        assert_eq!(F16.round(middle.next_up(), Rounding::NearestEven), bits + 1);
        assert_eq!(F16.round(middle.next_down(), Rounding::NearestEven), bits);
    }
    assert_eq!(F16.round(f64::INFINITY, Rounding::Zero), 0x7c00);
    assert_eq!(F16.round(f64::NAN, Rounding::Zero), 0x7fff);
}

#[test]
fn rounding_to_f32_and_bf16_agrees_with_the_host() {
    let mut random = fastrand::Rng::with_seed(9);
    for _ in 0..200_000 {
        let value = f64::from(f32::from_bits(pattern(&mut random)))
            * f64::from(f32::from_bits(pattern(&mut random)));
        let expected = bits32(value as f32);
        assert_eq!(F32.round(value, Rounding::NearestEven), expected, "{value:e}");
        // A bf16 is the upper half of an f32, rounded by the lower half.
        let single = f32::from_bits(pattern(&mut random));
        if !single.is_nan() {
            let bits = single.to_bits();
            let expected = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
            assert_eq!(BF16.round(single.into(), Rounding::NearestEven), expected, "{single:e}");
        }
    }
}
