//! Integer arithmetic (ISA sections 9.7.1 and 9.7.2).

use super::error::StatementError;
use super::lane_functions::{LaneValue, lanes};
use super::lane_operation::{LaneFunction, Word3, lane_operation};
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::operation::{Longs, Operation, Words};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::{Class, Type};

/// `add`, `sub`, `min`, `max`, `div`, `rem`, `abs`, `neg` of integers.
pub(super) fn integer<'a>(
    mut opcode: Opcode<'a>,
    ty: Type,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    use LaneFunction::{Long1, Long2, Word1, Word2};
    use Type::{S16, S32, S64, U16, U32, U64};
    if opcode.take("sat") {
        if ty != S32 || !matches!(opcode.base, "add" | "sub") {
            return Err(StatementError::new("`.sat` is supported for s32 only"));
        }
        let run: crate::cpu::decode::lane_operation::Word2 = match opcode.base {
            "add" => lanes!(|a: i32, b: i32| a.saturating_add(b)),
            _ => lanes!(|a: i32, b: i32| a.saturating_sub(b)),
        };
        opcode.finish()?;
        return lane_operation(names, ty, operands, Word2(run));
    }
    let run = match (opcode.base, ty) {
        ("add", U32 | S32) => Word2(lanes!(|a: u32, b: u32| a.wrapping_add(b))),
        ("sub", U32 | S32) => Word2(lanes!(|a: u32, b: u32| a.wrapping_sub(b))),
        ("add", U16 | S16) => Word2(lanes!(|a: u16, b: u16| a.wrapping_add(b))),
        ("sub", U16 | S16) => Word2(lanes!(|a: u16, b: u16| a.wrapping_sub(b))),
        ("add", U64 | S64) => Long2(lanes!(|a: u64, b: u64| a.wrapping_add(b))),
        ("sub", U64 | S64) => Long2(lanes!(|a: u64, b: u64| a.wrapping_sub(b))),
        ("min", S32) => Word2(lanes!(|a: i32, b: i32| a.min(b))),
        ("max", S32) => Word2(lanes!(|a: i32, b: i32| a.max(b))),
        ("min", U32) => Word2(lanes!(|a: u32, b: u32| a.min(b))),
        ("max", U32) => Word2(lanes!(|a: u32, b: u32| a.max(b))),
        ("min", S16) => Word2(lanes!(|a: i16, b: i16| a.min(b))),
        ("max", S16) => Word2(lanes!(|a: i16, b: i16| a.max(b))),
        ("min", U16) => Word2(lanes!(|a: u16, b: u16| a.min(b))),
        ("max", U16) => Word2(lanes!(|a: u16, b: u16| a.max(b))),
        ("min", S64) => Long2(lanes!(|a: i64, b: i64| a.min(b))),
        ("max", S64) => Long2(lanes!(|a: i64, b: i64| a.max(b))),
        ("min", U64) => Long2(lanes!(|a: u64, b: u64| a.min(b))),
        ("max", U64) => Long2(lanes!(|a: u64, b: u64| a.max(b))),
        // Division by zero returns all ones, its remainder the dividend. PTX leaves this open; the
        // hardware does the same.
        ("div", S32) => Word2(lanes!(|a: i32, b: i32| if b == 0 { -1 } else { a.wrapping_div(b) })),
        ("rem", S32) => Word2(lanes!(|a: i32, b: i32| if b == 0 { a } else { a.wrapping_rem(b) })),
        ("div", U32) => Word2(lanes!(|a: u32, b: u32| a.checked_div(b).unwrap_or(u32::MAX))),
        ("rem", U32) => Word2(lanes!(|a: u32, b: u32| a.checked_rem(b).unwrap_or(a))),
        ("div", S16) => Word2(lanes!(|a: i16, b: i16| if b == 0 { -1 } else { a.wrapping_div(b) })),
        ("rem", S16) => Word2(lanes!(|a: i16, b: i16| if b == 0 { a } else { a.wrapping_rem(b) })),
        ("div", U16) => Word2(lanes!(|a: u16, b: u16| a.checked_div(b).unwrap_or(u16::MAX))),
        ("rem", U16) => Word2(lanes!(|a: u16, b: u16| a.checked_rem(b).unwrap_or(a))),
        ("div", S64) => Long2(lanes!(|a: i64, b: i64| if b == 0 { -1 } else { a.wrapping_div(b) })),
        ("rem", S64) => Long2(lanes!(|a: i64, b: i64| if b == 0 { a } else { a.wrapping_rem(b) })),
        ("div", U64) => Long2(lanes!(|a: u64, b: u64| a.checked_div(b).unwrap_or(u64::MAX))),
        ("rem", U64) => Long2(lanes!(|a: u64, b: u64| a.checked_rem(b).unwrap_or(a))),
        ("abs", S32) => Word1(lanes!(|a: i32| a.wrapping_abs())),
        ("neg", S32) => Word1(lanes!(|a: i32| a.wrapping_neg())),
        ("abs", S16) => Word1(lanes!(|a: i16| a.wrapping_abs())),
        ("neg", S16) => Word1(lanes!(|a: i16| a.wrapping_neg())),
        ("abs", S64) => Long1(lanes!(|a: i64| a.wrapping_abs())),
        ("neg", S64) => Long1(lanes!(|a: i64| a.wrapping_neg())),
        _ => return Err(StatementError::ty()),
    };
    opcode.finish()?;
    lane_operation(names, ty, operands, run)
}

/// `sad`: absolute difference of two numbers plus a third.
pub(super) fn distance<'a>(
    opcode: Opcode<'a>,
    ty: Type,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    opcode.finish()?;
    let run: Word3 = match ty {
        Type::U32 => lanes!(|a: u32, b: u32, c: u32| c.wrapping_add(a.abs_diff(b))),
        Type::S32 => lanes!(|a: i32, b: i32, c: u32| c.wrapping_add(a.abs_diff(b))),
        _ => return Err(StatementError::ty()),
    };
    lane_operation(names, ty, operands, LaneFunction::Word3(run))
}

/// `dp4a` and `dp2a`: dot product of the bytes of two words, or of the halves of one word with the
/// lower or upper bytes of another, plus a third.
pub(super) fn dot_product<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    fn dot<const N: usize>(a: [i64; N], b: [i64; N], c: u32) -> u32 {
        let sum: i64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
        c.wrapping_add(sum as u32)
    }
    fn bytes(word: u32) -> [i64; 4] {
        word.to_le_bytes().map(i64::from)
    }
    fn signed_bytes(word: u32) -> [i64; 4] {
        word.to_le_bytes().map(|byte| byte.cast_signed().into())
    }
    fn halves(word: u32) -> [i64; 2] {
        [i64::from(word & 0xffff), i64::from(word >> 16)]
    }
    fn signed_halves(word: u32) -> [i64; 2] {
        [i64::from(word as i16), i64::from((word >> 16) as i16)]
    }
    fn pair<const FIRST: usize>(bytes: [i64; 4]) -> [i64; 2] {
        [bytes[FIRST], bytes[FIRST + 1]]
    }
    let base = opcode.base;
    let part = opcode.take_any(&["lo", "hi"]);
    let types = [opcode.ty()?, opcode.ty()?];
    opcode.finish()?;
    use Type::{S32, U32};
    let run: Word3 = match (base, part, types) {
        ("dp4a", None, [U32, U32]) => lanes!(|a: u32, b: u32, c: u32| dot(bytes(a), bytes(b), c)),
        ("dp4a", None, [S32, S32]) => {
            lanes!(|a: u32, b: u32, c: u32| dot(signed_bytes(a), signed_bytes(b), c))
        }
        ("dp4a", None, [S32, U32]) => {
            lanes!(|a: u32, b: u32, c: u32| dot(signed_bytes(a), bytes(b), c))
        }
        ("dp4a", None, [U32, S32]) => {
            lanes!(|a: u32, b: u32, c: u32| dot(bytes(a), signed_bytes(b), c))
        }
        ("dp2a", Some("lo"), [U32, U32]) => {
            lanes!(|a: u32, b: u32, c: u32| dot(halves(a), pair::<0>(bytes(b)), c))
        }
        ("dp2a", Some("hi"), [U32, U32]) => {
            lanes!(|a: u32, b: u32, c: u32| dot(halves(a), pair::<2>(bytes(b)), c))
        }
        ("dp2a", Some("lo"), [S32, S32]) => {
            lanes!(|a: u32, b: u32, c: u32| dot(signed_halves(a), pair::<0>(signed_bytes(b)), c))
        }
        ("dp2a", Some("hi"), [S32, S32]) => {
            lanes!(|a: u32, b: u32, c: u32| dot(signed_halves(a), pair::<2>(signed_bytes(b)), c))
        }
        _ => return Err(StatementError::ty()),
    };
    lane_operation(names, U32, operands, LaneFunction::Word3(run))
}

/// `mul` and `mad` of integers.
pub(super) fn multiply<'a>(
    mut opcode: Opcode<'a>,
    ty: Type,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    use LaneFunction::{Long2, Long3, Word2, Word3};
    use Type::{S16, S32, S64, U16, U32, U64};
    let part = opcode.take_any(&["lo", "hi", "wide"]);
    let adds = opcode.base == "mad";
    opcode.finish()?;
    let run = match (part, ty, adds) {
        (Some("lo"), U32 | S32, false) => Word2(lanes!(|a: u32, b: u32| a.wrapping_mul(b))),
        (Some("lo"), U16 | S16, false) => Word2(lanes!(|a: u16, b: u16| a.wrapping_mul(b))),
        (Some("lo"), U64 | S64, false) => Long2(lanes!(|a: u64, b: u64| a.wrapping_mul(b))),
        (Some("lo"), U32 | S32, true) => {
            Word3(lanes!(|a: u32, b: u32, c: u32| a.wrapping_mul(b).wrapping_add(c)))
        }
        (Some("lo"), U16 | S16, true) => {
            Word3(lanes!(|a: u16, b: u16, c: u16| a.wrapping_mul(b).wrapping_add(c)))
        }
        (Some("lo"), U64 | S64, true) => {
            Long3(lanes!(|a: u64, b: u64, c: u64| a.wrapping_mul(b).wrapping_add(c)))
        }
        (Some("hi"), S32, false) => {
            Word2(lanes!(|a: i32, b: i32| ((i64::from(a) * i64::from(b)) >> 32) as i32))
        }
        (Some("hi"), U32, false) => {
            Word2(lanes!(|a: u32, b: u32| ((u64::from(a) * u64::from(b)) >> 32) as u32))
        }
        (Some("hi"), S64, false) => {
            Long2(lanes!(|a: i64, b: i64| ((i128::from(a) * i128::from(b)) >> 64) as i64))
        }
        (Some("hi"), U64, false) => {
            Long2(lanes!(|a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> 64) as u64))
        }
        (Some("hi"), S32, true) => Word3(lanes!(|a: i32, b: i32, c: i32| {
            (((i64::from(a) * i64::from(b)) >> 32) as i32).wrapping_add(c)
        })),
        (Some("hi"), U32, true) => Word3(lanes!(|a: u32, b: u32, c: u32| {
            (((u64::from(a) * u64::from(b)) >> 32) as u32).wrapping_add(c)
        })),
        (Some("wide"), S16, false) => {
            Word2(lanes!(|a: i16, b: i16| i32::from(a).wrapping_mul(b.into())))
        }
        (Some("wide"), U16, false) => {
            Word2(lanes!(|a: u16, b: u16| u32::from(a).wrapping_mul(b.into())))
        }
        (Some("wide"), U32 | S32, _) => return widening(ty, names, operands),
        _ => return Err(StatementError::ty()),
    };
    lane_operation(names, ty, operands, run)
}

fn widening<'a>(
    ty: Type,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let signed = ty.is_signed();
    match operands {
        [d, a, b] => {
            let (a, b) = (names.read_word(a, ty)?, names.read_word(b, ty)?);
            let run: fn(&Words, &Words) -> Longs = if signed {
                lanes!(|a: i32, b: i32| i64::from(a) * i64::from(b))
            } else {
                lanes!(|a: u32, b: u32| u64::from(a) * u64::from(b))
            };
            Ok(Operation::Widen2 { run, d: names.written(d, Class::Long)?, a, b })
        }
        [d, a, b, c] => {
            let (a, b) = (names.read_word(a, ty)?, names.read_word(b, ty)?);
            let c = names.read_long(c, if signed { Type::S64 } else { Type::U64 })?;
            let run: fn(&Words, &Words, &Longs) -> Longs = if signed {
                lanes!(|a: i32, b: i32, c: i64| (i64::from(a) * i64::from(b)).wrapping_add(c))
            } else {
                lanes!(|a: u32, b: u32, c: u64| (u64::from(a) * u64::from(b)).wrapping_add(c))
            };
            Ok(Operation::Widen3 { run, d: names.written(d, Class::Long)?, a, b, c })
        }
        _ => Err(StatementError::operands()),
    }
}
