//! Floating-point instructions (ISA sections 9.7.3 to 9.7.5).

use super::error::StatementError;
use super::lane_functions::{Bf16Lane, F16Lane, LaneValue, lanes};
use super::lane_operation::{LaneFunction, Word1, lane_operation};
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::numeric::Rounding;
use crate::cpu::numeric::float::{
    BF16, F16, add_odd, bf16_value, f16_value, flush, fma_lanes, fma32, fma32_rounded, max32,
    min32, pack,
};
use crate::cpu::operation::Operation;
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::{Class, Type};

const NEAREST: Rounding = Rounding::NearestEven;

/// Applies a function of one pair's values to both halves of words.
macro_rules! pairwise {
    ($format:expr, $value:expr, |$($x:ident),*| $body:expr) => {
        lanes!(|$($x: u32),*| {
            let of = |shift: u32| {
                $(let $x = f64::from($value($x >> shift & 0xffff));)*
                $body
            };
            pack($format, of(16), of(0))
        })
    };
}

/// `add`, `sub`, `mul`, `fma`, `div`, `min`, `max`, `abs`, `neg`, `copysign`, `sqrt`, `rcp` and the
/// approximations.
pub(super) fn floating<'a>(
    mut opcode: Opcode<'a>,
    ty: Type,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Vec<Operation>, StatementError> {
    let base = opcode.base;
    let flushes = opcode.take("ftz");
    let approximate = opcode.take_any(&["approx", "full"]).is_some()
        || matches!(base, "ex2" | "lg2" | "sin" | "cos" | "tanh");
    let bound = opcode.take_any(&["sat", "relu"]);
    let keeps_nan = opcode.take("NaN");
    let rounding = opcode.rounding();
    opcode.finish()?;
    if flushes && !(ty == Type::F32 || ty == Type::F64 && approximate) {
        return Err(StatementError::new("`.ftz` is supported for f32 only"));
    }
    let run = match ty {
        _ if keeps_nan => with_nan(base, ty).filter(|_| !flushes),
        Type::F32 if approximate && flushes => approximation::<true>(base),
        Type::F32 if approximate => approximation::<false>(base),
        Type::F32 if rounding != NEAREST && flushes => directed::<true>(base, rounding),
        Type::F32 if rounding != NEAREST => directed::<false>(base, rounding),
        Type::F32 if flushes => flushing(base),
        Type::F32 => single(base),
        Type::F64 if rounding == NEAREST => double(base),
        Type::F64 => return Err(StatementError::new("only `.rn` is supported for f64")),
        Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 if approximate => None,
        Type::F16 if rounding == NEAREST => f16(base),
        Type::Bf16 if rounding == NEAREST => bf16(base),
        Type::F16x2 if rounding == NEAREST => f16_pair(base),
        Type::Bf16x2 if rounding == NEAREST => bf16_pair(base),
        _ => None,
    };
    let mut operations =
        vec![lane_operation(names, ty, operands, run.ok_or_else(StatementError::ty)?)?];
    if let (Some(bound), [d, ..]) = (bound, operands) {
        let run = bounded(bound, ty).ok_or_else(StatementError::ty)?;
        let d = names.written(d, Class::Word)?;
        operations.push(Operation::Word1 { run, d, a: d });
    }
    Ok(operations)
}

/// `.sat` clamps a result to [0, 1], `.relu` clamps negative results to 0. The functions for pairs
/// also serve single halves, whose upper half is zero.
fn bounded(bound: &str, ty: Type) -> Option<Word1> {
    Some(match (bound, ty) {
        ("sat", Type::F32) => {
            lanes!(|a: f32| if a.is_nan() { 0.0 } else { a.clamp(0.0, 1.0) + 0.0 })
        }
        ("sat", Type::F16 | Type::F16x2) => {
            pairwise!(F16, f16_value, |a| if a.is_nan() { 0.0 } else { a.clamp(0.0, 1.0) + 0.0 })
        }
        ("relu", Type::F16 | Type::F16x2) => {
            pairwise!(F16, f16_value, |a| if a <= 0.0 { 0.0 } else { a })
        }
        ("relu", Type::Bf16 | Type::Bf16x2) => {
            pairwise!(BF16, bf16_value, |a| if a <= 0.0 { 0.0 } else { a })
        }
        _ => return None,
    })
}

/// `min.NaN` and `max.NaN`, which return NaN for any NaN operand.
fn with_nan(base: &str, ty: Type) -> Option<LaneFunction> {
    macro_rules! both {
        ($a:ident, $b:ident, $nan:expr, $chosen:expr) => {
            if $a.is_nan() || $b.is_nan() { $nan } else { $chosen }
        };
    }
    Some(LaneFunction::Word2(match (base, ty) {
        ("min", Type::F32) => lanes!(|a: f32, b: f32| both!(a, b, f32::NAN, min32(a, b))),
        ("max", Type::F32) => lanes!(|a: f32, b: f32| both!(a, b, f32::NAN, max32(a, b))),
        ("min", Type::F16 | Type::F16x2) => {
            pairwise!(F16, f16_value, |a, b| both!(a, b, f64::NAN, a.min(b)))
        }
        ("max", Type::F16 | Type::F16x2) => {
            pairwise!(F16, f16_value, |a, b| both!(a, b, f64::NAN, a.max(b)))
        }
        ("min", Type::Bf16 | Type::Bf16x2) => {
            pairwise!(BF16, bf16_value, |a, b| both!(a, b, f64::NAN, a.min(b)))
        }
        ("max", Type::Bf16 | Type::Bf16x2) => {
            pairwise!(BF16, bf16_value, |a, b| both!(a, b, f64::NAN, a.max(b)))
        }
        _ => return None,
    }))
}

fn single(base: &str) -> Option<LaneFunction> {
    use LaneFunction::{Word1, Word2, Word3};
    Some(match base {
        "add" => Word2(lanes!(|a: f32, b: f32| a + b)),
        "sub" => Word2(lanes!(|a: f32, b: f32| a - b)),
        "mul" => Word2(lanes!(|a: f32, b: f32| a * b)),
        "fma" | "mad" => Word3(fma_lanes),
        "div" => Word2(lanes!(|a: f32, b: f32| a / b)),
        "min" => Word2(lanes!(|a: f32, b: f32| min32(a, b))),
        "max" => Word2(lanes!(|a: f32, b: f32| max32(a, b))),
        "abs" => Word1(lanes!(|a: u32| a & 0x7fff_ffff)),
        "neg" => Word1(lanes!(|a: u32| a ^ 0x8000_0000)),
        "copysign" => Word2(lanes!(|a: u32, b: u32| a & 0x8000_0000 | b & 0x7fff_ffff)),
        "sqrt" => Word1(lanes!(|a: f32| a.sqrt())),
        "rcp" => Word1(lanes!(|a: f32| 1.0 / a)),
        _ => return None,
    })
}

/// `.ftz`: replaces subnormal operands and results by zeros of the same sign.
fn flushing(base: &str) -> Option<LaneFunction> {
    use LaneFunction::{Word1, Word2, Word3};
    Some(match base {
        "add" => Word2(lanes!(|a: f32, b: f32| flush(flush(a) + flush(b)))),
        "sub" => Word2(lanes!(|a: f32, b: f32| flush(flush(a) - flush(b)))),
        "mul" => Word2(lanes!(|a: f32, b: f32| flush(flush(a) * flush(b)))),
        "fma" | "mad" => {
            Word3(lanes!(|a: f32, b: f32, c: f32| flush(fma32(flush(a), flush(b), flush(c)))))
        }
        "div" => Word2(lanes!(|a: f32, b: f32| flush(flush(a) / flush(b)))),
        "min" => Word2(lanes!(|a: f32, b: f32| min32(flush(a), flush(b)))),
        "max" => Word2(lanes!(|a: f32, b: f32| max32(flush(a), flush(b)))),
        "abs" => Word1(lanes!(|a: f32| flush(a).abs())),
        "neg" => Word1(lanes!(|a: f32| -flush(a))),
        "sqrt" => Word1(lanes!(|a: f32| flush(a).sqrt())),
        "rcp" => Word1(lanes!(|a: f32| flush(1.0 / flush(a)))),
        _ => return None,
    })
}

/// Approximations, here within one unit in the last place. The ISA does not specify their bits but
/// bounds their errors, from one unit in the last place (`rcp`) to 2^-11 (`tanh`). A kernel must
/// therefore not be tested against this device's bits.
fn approximation<const FLUSHED: bool>(base: &str) -> Option<LaneFunction> {
    use LaneFunction::{Word1, Word2};
    Some(match base {
        "div" => Word2(lanes!(|a: f32, b: f32| if_flushed::<FLUSHED>(
            if_flushed::<FLUSHED>(a) / if_flushed::<FLUSHED>(b)
        ))),
        "sqrt" => Word1(lanes!(|a: f32| approximate::<FLUSHED>(a, f64::sqrt))),
        "rcp" => Word1(lanes!(|a: f32| approximate::<FLUSHED>(a, f64::recip))),
        "rsqrt" => Word1(lanes!(|a: f32| approximate::<FLUSHED>(a, |a| a.sqrt().recip()))),
        "ex2" => Word1(lanes!(|a: f32| approximate::<FLUSHED>(a, f64::exp2))),
        "lg2" => Word1(lanes!(|a: f32| approximate::<FLUSHED>(a, f64::log2))),
        "sin" => Word1(lanes!(|a: f32| approximate::<FLUSHED>(a, f64::sin))),
        "cos" => Word1(lanes!(|a: f32| approximate::<FLUSHED>(a, f64::cos))),
        "tanh" => Word1(lanes!(|a: f32| approximate::<FLUSHED>(a, f64::tanh))),
        _ => return None,
    })
}

#[inline(always)]
fn approximate<const FLUSHED: bool>(value: f32, function: impl Fn(f64) -> f64) -> f32 {
    if_flushed::<FLUSHED>(function(if_flushed::<FLUSHED>(value).into()) as f32)
}

#[inline(always)]
fn if_flushed<const FLUSHED: bool>(value: f32) -> f32 {
    if FLUSHED { flush(value) } else { value }
}

/// Sums and products rounded toward zero, down or up.
fn directed<const FLUSHED: bool>(base: &str, rounding: Rounding) -> Option<LaneFunction> {
    macro_rules! rounded {
        ($mode:expr) => {
            match base {
                "add" => LaneFunction::Word2(lanes!(|a: f32, b: f32| {
                    fused::<FLUSHED>(a, 1.0, b, $mode)
                })),
                "sub" => LaneFunction::Word2(lanes!(|a: f32, b: f32| {
                    fused::<FLUSHED>(a, 1.0, -b, $mode)
                })),
                // A zero product keeps its own sign.
                "mul" => LaneFunction::Word2(lanes!(|a: f32, b: f32| {
                    fused::<FLUSHED>(a, b, 0.0_f32.copysign(a * b), $mode)
                })),
                "fma" => LaneFunction::Word3(lanes!(|a: f32, b: f32, c: f32| {
                    fused::<FLUSHED>(a, b, c, $mode)
                })),
                _ => return None,
            }
        };
    }
    Some(match rounding {
        Rounding::Zero => rounded!(Rounding::Zero),
        Rounding::Down => rounded!(Rounding::Down),
        Rounding::Up => rounded!(Rounding::Up),
        Rounding::NearestEven | Rounding::NearestAway => return None,
    })
}

#[inline(always)]
fn fused<const FLUSHED: bool>(a: f32, b: f32, c: f32, rounding: Rounding) -> f32 {
    let [a, b, c] = [a, b, c].map(if_flushed::<FLUSHED>);
    if_flushed::<FLUSHED>(fma32_rounded(a, b, c, rounding))
}

fn double(base: &str) -> Option<LaneFunction> {
    use LaneFunction::{Long1, Long2, Long3};
    Some(match base {
        "add" => Long2(lanes!(|a: f64, b: f64| a + b)),
        "sub" => Long2(lanes!(|a: f64, b: f64| a - b)),
        "mul" => Long2(lanes!(|a: f64, b: f64| a * b)),
        "fma" | "mad" => Long3(lanes!(|a: f64, b: f64, c: f64| a.mul_add(b, c))),
        "div" => Long2(lanes!(|a: f64, b: f64| a / b)),
        "min" => Long2(lanes!(|a: f64, b: f64| a.min(b))),
        "max" => Long2(lanes!(|a: f64, b: f64| a.max(b))),
        "abs" => Long1(lanes!(|a: f64| a.abs())),
        "neg" => Long1(lanes!(|a: f64| -a)),
        "copysign" => Long2(lanes!(|a: f64, b: f64| b.copysign(a))),
        "rsqrt" => Long1(lanes!(|a: f64| a.sqrt().recip())),
        "sqrt" => Long1(lanes!(|a: f64| a.sqrt())),
        "rcp" => Long1(lanes!(|a: f64| 1.0 / a)),
        _ => return None,
    })
}

fn to_f16(value: f64) -> F16Lane {
    F16Lane(F16.round(value, NEAREST))
}

fn to_bf16(value: f64) -> Bf16Lane {
    Bf16Lane(BF16.round(value, NEAREST))
}

/// f16 arithmetic in binary64, where a product of two halves is exact, and a sum rounded to odd can
/// be rounded once more without error.
fn f16(base: &str) -> Option<LaneFunction> {
    use LaneFunction::{Word1, Word2, Word3};
    Some(match base {
        "add" => Word2(lanes!(|a: F16Lane, b: F16Lane| to_f16(a.value() + b.value()))),
        "sub" => Word2(lanes!(|a: F16Lane, b: F16Lane| to_f16(a.value() - b.value()))),
        "mul" => Word2(lanes!(|a: F16Lane, b: F16Lane| to_f16(a.value() * b.value()))),
        "fma" => Word3(lanes!(|a: F16Lane, b: F16Lane, c: F16Lane| {
            to_f16(add_odd(a.value() * b.value(), c.value()))
        })),
        "min" => Word2(lanes!(|a: F16Lane, b: F16Lane| to_f16(a.value().min(b.value())))),
        "max" => Word2(lanes!(|a: F16Lane, b: F16Lane| to_f16(a.value().max(b.value())))),
        "abs" => Word1(lanes!(|a: u32| a & 0x7fff)),
        "neg" => Word1(lanes!(|a: u32| (a ^ 0x8000) & 0xffff)),
        _ => return None,
    })
}

fn bf16(base: &str) -> Option<LaneFunction> {
    use LaneFunction::{Word1, Word2, Word3};
    Some(match base {
        "add" => Word2(lanes!(|a: Bf16Lane, b: Bf16Lane| to_bf16(add_odd(a.value(), b.value())))),
        "sub" => Word2(lanes!(|a: Bf16Lane, b: Bf16Lane| to_bf16(add_odd(a.value(), -b.value())))),
        "mul" => Word2(lanes!(|a: Bf16Lane, b: Bf16Lane| to_bf16(a.value() * b.value()))),
        "fma" => Word3(lanes!(|a: Bf16Lane, b: Bf16Lane, c: Bf16Lane| {
            to_bf16(add_odd(a.value() * b.value(), c.value()))
        })),
        "min" => Word2(lanes!(|a: Bf16Lane, b: Bf16Lane| to_bf16(a.value().min(b.value())))),
        "max" => Word2(lanes!(|a: Bf16Lane, b: Bf16Lane| to_bf16(a.value().max(b.value())))),
        "abs" => Word1(lanes!(|a: u32| a & 0x7fff)),
        "neg" => Word1(lanes!(|a: u32| (a ^ 0x8000) & 0xffff)),
        _ => return None,
    })
}

fn f16_pair(base: &str) -> Option<LaneFunction> {
    use LaneFunction::{Word1, Word2, Word3};
    Some(match base {
        "add" => Word2(pairwise!(F16, f16_value, |a, b| add_odd(a, b))),
        "sub" => Word2(pairwise!(F16, f16_value, |a, b| add_odd(a, -b))),
        "mul" => Word2(pairwise!(F16, f16_value, |a, b| a * b)),
        "fma" => Word3(pairwise!(F16, f16_value, |a, b, c| add_odd(a * b, c))),
        "min" => Word2(pairwise!(F16, f16_value, |a, b| a.min(b))),
        "max" => Word2(pairwise!(F16, f16_value, |a, b| a.max(b))),
        "abs" => Word1(lanes!(|a: u32| a & 0x7fff_7fff)),
        "neg" => Word1(lanes!(|a: u32| a ^ 0x8000_8000)),
        _ => return None,
    })
}

fn bf16_pair(base: &str) -> Option<LaneFunction> {
    use LaneFunction::{Word1, Word2, Word3};
    Some(match base {
        "add" => Word2(pairwise!(BF16, bf16_value, |a, b| add_odd(a, b))),
        "sub" => Word2(pairwise!(BF16, bf16_value, |a, b| add_odd(a, -b))),
        "mul" => Word2(pairwise!(BF16, bf16_value, |a, b| a * b)),
        "fma" => Word3(pairwise!(BF16, bf16_value, |a, b, c| add_odd(a * b, c))),
        "min" => Word2(pairwise!(BF16, bf16_value, |a, b| a.min(b))),
        "max" => Word2(pairwise!(BF16, bf16_value, |a, b| a.max(b))),
        "abs" => Word1(lanes!(|a: u32| a & 0x7fff_7fff)),
        "neg" => Word1(lanes!(|a: u32| a ^ 0x8000_8000)),
        _ => return None,
    })
}
