//! Floating-point instructions (ISA sections 9.7.3 to 9.7.5).

use super::Fault;
use super::arithmetic::{Compute, computing};
use super::lanes::{Brain, Half, Lane, lanes};
use super::names::Names;
use super::opcode::Opcode;
use crate::cpu::numeric::Rounding;
use crate::cpu::numeric::float::{
    BF16, F16, Format, add_odd, bf16_value, f16_value, flush, fma_lanes, fma32, fma32_rounded,
    max32, min32,
};
use crate::cpu::operation::Operation;
use crate::cpu::parse::Operand;
use crate::cpu::types::Type;

const NEAREST: Rounding = Rounding::NearestEven;

/// `add`, `sub`, `mul`, `fma`, `div`, `min`, `max`, `abs`, `neg`, `sqrt`, `rcp` and the
/// approximations.
pub(super) fn floating<'a>(
    mut opcode: Opcode<'a>,
    ty: Type,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let base = opcode.base;
    let flushes = opcode.take("ftz");
    let approximate = opcode.take_any(&["approx", "full"]).is_some();
    let rounding = opcode.rounding();
    opcode.finish()?;
    let run = match ty {
        Type::F32 if approximate || matches!(base, "ex2" | "lg2" | "sin" | "cos" | "tanh") => {
            approximation(base)
        }
        Type::F32 if rounding != NEAREST => directed(base, rounding),
        Type::F32 if flushes => flushing(base),
        Type::F32 => single(base),
        Type::F64 if rounding == NEAREST => double(base),
        Type::F64 => return Err(Fault::new("only `.rn` is executed for f64")),
        Type::F16 if rounding == NEAREST => half(base),
        Type::Bf16 if rounding == NEAREST => brain(base),
        Type::F16x2 if rounding == NEAREST => half_pair(base),
        Type::Bf16x2 if rounding == NEAREST => brain_pair(base),
        _ => None,
    };
    computing(names, ty, operands, run.ok_or_else(Fault::ty)?)
}

fn single(base: &str) -> Option<Compute> {
    use Compute::{Word1, Word2, Word3};
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
        "sqrt" => Word1(lanes!(|a: f32| a.sqrt())),
        "rcp" => Word1(lanes!(|a: f32| 1.0 / a)),
        _ => return None,
    })
}

/// `.ftz`: subnormal operands and results are zeros of the same sign.
fn flushing(base: &str) -> Option<Compute> {
    use Compute::{Word1, Word2, Word3};
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

/// The hardware's approximations are not specified to the bit; here they are as good as f32 goes.
fn approximation(base: &str) -> Option<Compute> {
    use Compute::{Word1, Word2};
    Some(match base {
        "div" => Word2(lanes!(|a: f32, b: f32| a / b)),
        "sqrt" => Word1(lanes!(|a: f32| a.sqrt())),
        "rcp" => Word1(lanes!(|a: f32| 1.0 / a)),
        "rsqrt" => Word1(lanes!(|a: f32| (1.0 / f64::from(a).sqrt()) as f32)),
        "ex2" => Word1(lanes!(|a: f32| f64::from(a).exp2() as f32)),
        "lg2" => Word1(lanes!(|a: f32| f64::from(a).log2() as f32)),
        "sin" => Word1(lanes!(|a: f32| f64::from(a).sin() as f32)),
        "cos" => Word1(lanes!(|a: f32| f64::from(a).cos() as f32)),
        "tanh" => Word1(lanes!(|a: f32| f64::from(a).tanh() as f32)),
        _ => return None,
    })
}

/// Sums and products rounded toward zero, down or up.
fn directed(base: &str, rounding: Rounding) -> Option<Compute> {
    macro_rules! rounded {
        ($mode:expr) => {
            match base {
                "add" => Compute::Word2(lanes!(|a: f32, b: f32| fma32_rounded(a, 1.0, b, $mode))),
                "sub" => Compute::Word2(lanes!(|a: f32, b: f32| fma32_rounded(a, 1.0, -b, $mode))),
                // The sign of a zero product is its own.
                "mul" => Compute::Word2(lanes!(|a: f32, b: f32| {
                    fma32_rounded(a, b, 0.0_f32.copysign(a * b), $mode)
                })),
                "fma" => {
                    Compute::Word3(lanes!(|a: f32, b: f32, c: f32| fma32_rounded(a, b, c, $mode)))
                }
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

fn double(base: &str) -> Option<Compute> {
    use Compute::{Long1, Long2, Long3};
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
        "sqrt" => Long1(lanes!(|a: f64| a.sqrt())),
        "rcp" => Long1(lanes!(|a: f64| 1.0 / a)),
        _ => return None,
    })
}

fn to_half(value: f64) -> Half {
    Half(F16.round(value, NEAREST))
}

fn to_brain(value: f64) -> Brain {
    Brain(BF16.round(value, NEAREST))
}

/// In binary64 a product of two halves is exact, and a sum rounded to odd rounds once more to
/// what rounding the exact value gives.
fn half(base: &str) -> Option<Compute> {
    use Compute::{Word1, Word2, Word3};
    Some(match base {
        "add" => Word2(lanes!(|a: Half, b: Half| to_half(a.value() + b.value()))),
        "sub" => Word2(lanes!(|a: Half, b: Half| to_half(a.value() - b.value()))),
        "mul" => Word2(lanes!(|a: Half, b: Half| to_half(a.value() * b.value()))),
        "fma" => Word3(lanes!(|a: Half, b: Half, c: Half| {
            to_half(add_odd(a.value() * b.value(), c.value()))
        })),
        "min" => Word2(lanes!(|a: Half, b: Half| to_half(a.value().min(b.value())))),
        "max" => Word2(lanes!(|a: Half, b: Half| to_half(a.value().max(b.value())))),
        "abs" => Word1(lanes!(|a: u32| a & 0x7fff)),
        "neg" => Word1(lanes!(|a: u32| (a ^ 0x8000) & 0xffff)),
        _ => return None,
    })
}

fn brain(base: &str) -> Option<Compute> {
    use Compute::{Word1, Word2, Word3};
    Some(match base {
        "add" => Word2(lanes!(|a: Brain, b: Brain| to_brain(add_odd(a.value(), b.value())))),
        "sub" => Word2(lanes!(|a: Brain, b: Brain| to_brain(add_odd(a.value(), -b.value())))),
        "mul" => Word2(lanes!(|a: Brain, b: Brain| to_brain(a.value() * b.value()))),
        "fma" => Word3(lanes!(|a: Brain, b: Brain, c: Brain| {
            to_brain(add_odd(a.value() * b.value(), c.value()))
        })),
        "min" => Word2(lanes!(|a: Brain, b: Brain| to_brain(a.value().min(b.value())))),
        "max" => Word2(lanes!(|a: Brain, b: Brain| to_brain(a.value().max(b.value())))),
        "abs" => Word1(lanes!(|a: u32| a & 0x7fff)),
        "neg" => Word1(lanes!(|a: u32| (a ^ 0x8000) & 0xffff)),
        _ => return None,
    })
}

/// Two values in a word, the first operand above.
pub(super) fn pack(format: Format, high: f64, low: f64) -> u32 {
    format.round(high, NEAREST) << 16 | format.round(low, NEAREST)
}

/// A function of one pair's values, applied to both halves of words.
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

fn half_pair(base: &str) -> Option<Compute> {
    use Compute::{Word1, Word2, Word3};
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

fn brain_pair(base: &str) -> Option<Compute> {
    use Compute::{Word1, Word2, Word3};
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
