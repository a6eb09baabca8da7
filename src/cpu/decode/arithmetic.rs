//! Integer and bit instructions, moves, selections and conversions (ISA sections 9.7.1, 9.7.2,
//! 9.7.7 to 9.7.9).

use super::Fault;
use super::lanes::{Lane, lanes};
use super::names::Names;
use super::opcode::Opcode;
use crate::cpu::numeric::Rounding;
use crate::cpu::numeric::convert::{Conversion, Integral, Range, Subnormals};
use crate::cpu::operation::{Longs, Operation, Register, Slot, Test, Words};
use crate::cpu::parse::Operand;
use crate::cpu::types::{Class, Type};

pub(super) type Word1 = fn(&Words) -> Words;
pub(super) type Word2 = fn(&Words, &Words) -> Words;
pub(super) type Word3 = fn(&Words, &Words, &Words) -> Words;
pub(super) type Long1 = fn(&Longs) -> Longs;
pub(super) type Long2 = fn(&Longs, &Longs) -> Longs;
pub(super) type Long3 = fn(&Longs, &Longs, &Longs) -> Longs;

/// What an instruction computes, by the classes of what it works on.
pub(super) enum Compute {
    Word1(Word1),
    Word2(Word2),
    Word3(Word3),
    Long1(Long1),
    Long2(Long2),
    Long3(Long3),
}

/// Makes an operation of `run` and operands of type `ty`.
pub(super) fn computing<'a>(
    names: &mut Names<'a>,
    ty: Type,
    operands: &[Operand<'a>],
    run: Compute,
) -> Result<Operation, Fault> {
    Ok(match (run, operands) {
        (Compute::Word1(run), [d, a]) => {
            let a = names.read_word(a, ty)?;
            Operation::Word1 { run, d: names.written(d, Class::Word)?, a }
        }
        (Compute::Word2(run), [d, a, b]) => {
            let (a, b) = (names.read_word(a, ty)?, names.read_word(b, ty)?);
            Operation::Word2 { run, d: names.written(d, Class::Word)?, a, b }
        }
        (Compute::Word3(run), [d, a, b, c]) => {
            let (a, b) = (names.read_word(a, ty)?, names.read_word(b, ty)?);
            let c = names.read_word(c, ty)?;
            Operation::Word3 { run, d: names.written(d, Class::Word)?, a, b, c }
        }
        (Compute::Long1(run), [d, a]) => {
            let a = names.read_long(a, ty)?;
            Operation::Long1 { run, d: names.written(d, Class::Long)?, a }
        }
        (Compute::Long2(run), [d, a, b]) => {
            let (a, b) = (names.read_long(a, ty)?, names.read_long(b, ty)?);
            Operation::Long2 { run, d: names.written(d, Class::Long)?, a, b }
        }
        (Compute::Long3(run), [d, a, b, c]) => {
            let (a, b) = (names.read_long(a, ty)?, names.read_long(b, ty)?);
            let c = names.read_long(c, ty)?;
            Operation::Long3 { run, d: names.written(d, Class::Long)?, a, b, c }
        }
        _ => return Err(Fault::operands()),
    })
}

/// `add`, `sub`, `min`, `max`, `div`, `rem`, `abs`, `neg` of integers.
pub(super) fn integer<'a>(
    mut opcode: Opcode<'a>,
    ty: Type,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    use Compute::{Long1, Long2, Word1, Word2};
    use Type::{S16, S32, S64, U16, U32, U64};
    if opcode.take("sat") {
        if ty != S32 || !matches!(opcode.base, "add" | "sub") {
            return Err(Fault::new("`.sat` goes with s32 only"));
        }
        let run: self::Word2 = match opcode.base {
            "add" => lanes!(|a: i32, b: i32| a.saturating_add(b)),
            _ => lanes!(|a: i32, b: i32| a.saturating_sub(b)),
        };
        opcode.finish()?;
        return computing(names, ty, operands, Word2(run));
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
        // Division by zero gives all ones, its remainder the dividend: PTX leaves it open, the
        // hardware does this.
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
        _ => return Err(Fault::ty()),
    };
    opcode.finish()?;
    computing(names, ty, operands, run)
}

/// `mul` and `mad` of integers.
pub(super) fn multiply<'a>(
    mut opcode: Opcode<'a>,
    ty: Type,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    use Compute::{Long2, Long3, Word2, Word3};
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
        _ => return Err(Fault::ty()),
    };
    computing(names, ty, operands, run)
}

fn widening<'a>(
    ty: Type,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
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
        _ => Err(Fault::operands()),
    }
}

/// `and`, `or`, `xor`, `not`, `cnot`, counts and reversals of bits.
pub(super) fn bits<'a>(
    opcode: Opcode<'a>,
    ty: Type,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    use Compute::{Long1, Long2, Word1, Word2};
    let base = opcode.base;
    opcode.finish()?;
    let run = match (base, ty.bytes()) {
        ("and", 1..=4) => Word2(lanes!(|a: u32, b: u32| a & b)),
        ("or", 1..=4) => Word2(lanes!(|a: u32, b: u32| a | b)),
        ("xor", 1..=4) => Word2(lanes!(|a: u32, b: u32| a ^ b)),
        ("not", 2) => Word1(lanes!(|a: u16| !a)),
        ("not", 4) => Word1(lanes!(|a: u32| !a)),
        ("cnot", 4) => Word1(lanes!(|a: u32| u32::from(a == 0))),
        ("brev", 4) => Word1(lanes!(|a: u32| a.reverse_bits())),
        ("popc", 4) => Word1(lanes!(|a: u32| a.count_ones())),
        ("clz", 4) => Word1(lanes!(|a: u32| a.leading_zeros())),
        ("and", 8) => Long2(lanes!(|a: u64, b: u64| a & b)),
        ("or", 8) => Long2(lanes!(|a: u64, b: u64| a | b)),
        ("xor", 8) => Long2(lanes!(|a: u64, b: u64| a ^ b)),
        ("not", 8) => Long1(lanes!(|a: u64| !a)),
        ("brev", 8) => Long1(lanes!(|a: u64| a.reverse_bits())),
        ("popc" | "clz", 8) => {
            let [d, a] = operands else { return Err(Fault::operands()) };
            let run: fn(&Longs) -> Words = match base {
                "popc" => lanes!(|a: u64| a.count_ones()),
                _ => lanes!(|a: u64| a.leading_zeros()),
            };
            let a = names.read_long(a, ty)?;
            return Ok(Operation::Narrow1 { run, d: names.written(d, Class::Word)?, a });
        }
        _ => return Err(Fault::ty()),
    };
    computing(names, ty, operands, run)
}

/// `shl` and `shr`: amounts beyond the width count as the width (ISA section 9.7.8.8).
pub(super) fn shift<'a>(
    opcode: Opcode<'a>,
    ty: Type,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let [d, a, b] = operands else { return Err(Fault::operands()) };
    let left = opcode.base == "shl";
    opcode.finish()?;
    let b = names.read_word(b, Type::U32)?;
    if ty.bytes() == 8 {
        let run: fn(&Longs, &Words) -> Longs = match (left, ty.is_signed()) {
            (true, _) => lanes!(|a: u64, b: u32| a.checked_shl(b).unwrap_or(0)),
            (_, true) => lanes!(|a: i64, b: u32| a >> b.min(63)),
            _ => lanes!(|a: u64, b: u32| a.checked_shr(b).unwrap_or(0)),
        };
        let a = names.read_long(a, ty)?;
        return Ok(Operation::Shift { run, d: names.written(d, Class::Long)?, a, b });
    }
    let run: Word2 = match (left, ty) {
        (true, Type::B16) => lanes!(|a: u16, b: u32| a.checked_shl(b).unwrap_or(0)),
        (true, Type::B32) => lanes!(|a: u32, b: u32| if b < 32 { a << (b & 31) } else { 0 }),
        (false, Type::B16 | Type::U16) => lanes!(|a: u16, b: u32| a.checked_shr(b).unwrap_or(0)),
        (false, Type::B32 | Type::U32) => {
            lanes!(|a: u32, b: u32| if b < 32 { a >> (b & 31) } else { 0 })
        }
        (false, Type::S16) => lanes!(|a: i16, b: u32| a >> b.min(15)),
        (false, Type::S32) => lanes!(|a: i32, b: u32| a >> b.min(31)),
        _ => return Err(Fault::ty()),
    };
    let a = names.read_word(a, ty)?;
    Ok(Operation::Word2 { run, d: names.written(d, Class::Word)?, a, b })
}

/// `shf.l` and `shf.r`: the words of a pair, shifted.
pub(super) fn funnel_shift<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let direction = opcode.take_any(&["l", "r"]);
    let mode = opcode.take_any(&["wrap", "clamp"]);
    let ty = opcode.ty()?;
    opcode.finish()?;
    let run: Word3 = match (direction, mode) {
        (Some("l"), Some("wrap")) => lanes!(|a: u32, b: u32, c: u32| {
            ((pair(a, b) << (c & 31)) >> 32) as u32
        }),
        (Some("l"), Some("clamp")) => lanes!(|a: u32, b: u32, c: u32| {
            ((pair(a, b) << c.min(32)) >> 32) as u32
        }),
        (Some("r"), Some("wrap")) => lanes!(|a: u32, b: u32, c: u32| (pair(a, b) >> (c & 31)) as u32),
        (Some("r"), Some("clamp")) => {
            lanes!(|a: u32, b: u32, c: u32| (pair(a, b) >> c.min(32)) as u32)
        }
        _ => return Err(Fault::new("it names no direction and mode")),
    };
    computing(names, ty, operands, Compute::Word3(run))
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// `prmt` in its default mode: picks four of eight bytes (ISA section 9.7.9.7).
pub(super) fn permute<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let ty = opcode.ty()?;
    opcode.finish()?;
    let run: Word3 = lanes!(|a: u32, b: u32, c: u32| {
        let bytes = pair(a, b).to_le_bytes();
        u32::from_le_bytes([0, 4, 8, 12].map(|at| {
            let selector = c >> at;
            let byte = bytes[(selector & 7) as usize];
            // The fourth bit spreads the byte's sign.
            if selector & 8 == 0 { byte } else { (byte.cast_signed() >> 7).cast_unsigned() }
        }))
    });
    computing(names, ty, operands, Compute::Word3(run))
}

/// `lop3`: the third-but-last operand is a table of 8 bits. Decoded into the words themselves.
pub(super) fn logic3<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Vec<Operation>, Fault> {
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a, b, c, Operand::Integer(table)] = operands else { return Err(Fault::operands()) };
    let (a, b) = (names.read_word(a, ty)?, names.read_word(b, ty)?);
    let c = names.read_word(c, ty)?;
    let d = names.written(d, Class::Word)?;
    // With c fixed to 0 and to 1, two tables of a and b remain; they are told apart by c.
    let table = *table as u32;
    let on = |wanted: u32| (0..4).map(|ab| (table >> (2 * ab + wanted) & 1) << ab).sum::<u32>();
    let (clear, set) = (names.word(on(0)), names.word(on(1)));
    let first = names.scratch();
    let second = names.scratch();
    let two: Word3 = lanes!(|a: u32, b: u32, table: u32| {
        let all = |bit: u32| 0_u32.wrapping_sub(table >> bit & 1);
        (!a & !b & all(0)) | (!a & b & all(1)) | (a & !b & all(2)) | (a & b & all(3))
    });
    let choose: Word3 = lanes!(|c: u32, one: u32, zero: u32| (c & one) | (!c & zero));
    Ok(vec![
        Operation::Word3 { run: two, d: first, a, b, c: set },
        Operation::Word3 { run: two, d: second, a, b, c: clear },
        Operation::Word3 { run: choose, d, a: c, b: first, c: second },
    ])
}

/// `bfe` and `bfi` of 32 bits (ISA sections 9.7.1.19 and 9.7.1.20).
pub(super) fn bit_field<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Vec<Operation>, Fault> {
    let ty = opcode.ty()?;
    let base = opcode.base;
    opcode.finish()?;
    if ty.bytes() != 4 {
        return Err(Fault::ty());
    }
    if base == "bfe" {
        let run: Word3 = if ty.is_signed() {
            lanes!(|a: i32, b: u32, c: u32| {
                let (first, length) = (b & 0xff, c & 0xff);
                let end = (first + length).min(32);
                let sign = if length == 0 { 0 } else { a >> (end.saturating_sub(1)).min(31) & 1 };
                let wide = i64::from(a) & 0xffff_ffff;
                let field = (wide >> first.min(63)) & ((1_i64 << length.min(32)) - 1);
                let kept = end.saturating_sub(first);
                let fill = if sign == 1 { -1_i64 << kept } else { 0 };
                (field | if length == 0 { 0 } else { fill }) as i32
            })
        } else {
            lanes!(|a: u32, b: u32, c: u32| {
                let (first, length) = (b & 0xff, c & 0xff);
                ((u64::from(a) >> first.min(63)) & ((1_u64 << length.min(32)) - 1)) as u32
            })
        };
        return Ok(vec![computing(names, ty, operands, Compute::Word3(run))?]);
    }
    let [d, a, b, c, e] = operands else { return Err(Fault::operands()) };
    let read = |names: &mut Names<'a>, operand| names.read_word(operand, Type::U32);
    let (a, b) = (read(names, a)?, read(names, b)?);
    let (first, length) = (read(names, c)?, read(names, e)?);
    let d = names.written(d, Class::Word)?;
    let mask = names.scratch();
    let moved = names.scratch();
    let mask_of: Word2 = lanes!(|first: u32, length: u32| {
        let ones = (1_u64 << (length & 0xff).min(32)) - 1;
        ones.checked_shl(first & 0xff).unwrap_or(0) as u32
    });
    let shifted: Word2 =
        lanes!(|a: u32, first: u32| u64::from(a).checked_shl(first & 0xff).unwrap_or(0) as u32);
    let merged: Word3 = lanes!(|mask: u32, moved: u32, b: u32| (mask & moved) | (!mask & b));
    Ok(vec![
        Operation::Word2 { run: mask_of, d: mask, a: first, b: length },
        Operation::Word2 { run: shifted, d: moved, a, b: first },
        Operation::Word3 { run: merged, d, a: mask, b: moved, c: b },
    ])
}

/// Copies of slots.
pub(super) const COPY_WORD: Word1 = |a| *a;
pub(super) const COPY_LONG: Long1 = |a| *a;

/// `mov`, which also packs and unpacks vectors (ISA section 9.7.9.3).
pub(super) fn copy<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a] = operands else { return Err(Fault::operands()) };
    if let (Operand::Vector(parts), Operand::Name(_)) = (a, d) {
        let bits = part_bits(ty, parts.len())?;
        let parts = names.vector(a, |names, part| names.read(part, part_type(bits)))?;
        return Ok(Operation::Pack { bits, d: names.written_any(d)?, parts });
    }
    if let Operand::Vector(parts) = d {
        let bits = part_bits(ty, parts.len())?;
        let a = names.read(a, ty)?;
        let parts = names.vector(d, |names, part| names.written_any(part))?;
        return Ok(Operation::Unpack { bits, parts, a });
    }
    match (ty.class(), a) {
        (Class::Predicate, _) => {
            let a = names.test(a)?;
            Ok(Operation::PredicateMove { d: names.written(d, Class::Predicate)?, a })
        }
        (_, Operand::Name("%clock" | "%clock64" | "%globaltimer" | "%clock_hi")) => {
            Ok(Operation::Clock { d: names.written_any(d)? })
        }
        (Class::Word, _) => computing(names, ty, operands, Compute::Word1(COPY_WORD)),
        (Class::Long, _) => computing(names, ty, operands, Compute::Long1(COPY_LONG)),
    }
}

fn part_bits(ty: Type, parts: usize) -> Result<u32, Fault> {
    match (ty.bytes(), parts) {
        (8, 2) => Ok(32),
        (8, 4) | (4, 2) => Ok(16),
        (4, 4) | (2, 2) => Ok(8),
        _ => Err(Fault::new("the parts do not make up the whole")),
    }
}

fn part_type(bits: u32) -> Type {
    match bits {
        32 => Type::B32,
        16 => Type::B16,
        _ => Type::B8,
    }
}

/// `selp`
pub(super) fn select<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a, b, test] = operands else { return Err(Fault::operands()) };
    let Test { slot: test, negated } = names.test(test)?;
    let (a, b) = if negated { (b, a) } else { (a, b) };
    match ty.class() {
        Class::Long => {
            let (a, b) = (names.read_long(a, ty)?, names.read_long(b, ty)?);
            Ok(Operation::LongSelect { d: names.written(d, Class::Long)?, a, b, test })
        }
        _ => {
            let (a, b) = (names.read_word(a, ty)?, names.read_word(b, ty)?);
            Ok(Operation::WordSelect { d: names.written(d, Class::Word)?, a, b, test })
        }
    }
}

/// `cvt` from one type to another; the common ones have functions of their own.
pub(super) fn convert<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let subnormals = if opcode.take("ftz") { Subnormals::Flushed } else { Subnormals::Kept };
    let range = if opcode.take("sat") {
        Range::Saturate
    } else if opcode.take("relu") {
        Range::Positive
    } else {
        Range::Natural
    };
    let whole = opcode.take_map(|part| {
        Some(match part {
            "rni" => Rounding::NearestEven,
            "rzi" => Rounding::Zero,
            "rmi" => Rounding::Down,
            "rpi" => Rounding::Up,
            _ => return None,
        })
    });
    let rounding = whole.unwrap_or_else(|| opcode.rounding());
    let integral = if whole.is_some() { Integral::Yes } else { Integral::No };
    let (to, from) = (opcode.ty()?, opcode.ty()?);
    opcode.finish()?;
    if let (Type::F16x2 | Type::Bf16x2, [d, high, low]) = (to, operands) {
        let element = if to == Type::F16x2 { Type::F16 } else { Type::Bf16 };
        return convert_pair(names, element, rounding, d, high, low);
    }
    if to == Type::F64 && from.bytes() == 8 && rounding != Rounding::NearestEven && integral == Integral::No {
        return Err(Fault::new("only `.rn` is executed for f64"));
    }
    let [d, a] = operands else { return Err(Fault::operands()) };
    let (a, d) = (names.read(a, from)?, names.written_any(d)?);
    let how = Conversion { to, from, rounding, integral, range, subnormals };
    let plain = range == Range::Natural && subnormals == Subnormals::Kept;
    Ok(fast_conversion(how, d, a).filter(|_| plain).unwrap_or(Operation::Convert { how, d, a }))
}

fn fast_conversion(how: Conversion, d: Register, a: Register) -> Option<Operation> {
    use Register::{Long, Word};
    use Type::{F32, F64, S32, S64, U32, U64};
    let nearest = how.rounding == Rounding::NearestEven && how.integral == Integral::No;
    let narrow = |d: Slot, a: Slot, run: fn(&Longs) -> Words| Some(Operation::Narrow1 { run, d, a });
    let widen = |d: Slot, a: Slot, run: fn(&Words) -> Longs| Some(Operation::Widen1 { run, d, a });
    match (how.to, how.from, d, a) {
        (S64 | U64, S32, Long(d), Word(a)) => widen(d, a, lanes!(|a: i32| i64::from(a))),
        (S64 | U64, U32, Long(d), Word(a)) => widen(d, a, lanes!(|a: u32| u64::from(a))),
        (S32 | U32, S64 | U64, Word(d), Long(a)) => narrow(d, a, lanes!(|a: u64| a as u32)),
        (F64, F32, Long(d), Word(a)) => widen(d, a, lanes!(|a: f32| f64::from(a))),
        (F64, S32, Long(d), Word(a)) => widen(d, a, lanes!(|a: i32| f64::from(a))),
        (F32, F64, Word(d), Long(a)) if nearest => narrow(d, a, lanes!(|a: f64| a as f32)),
        (F32, S32, Word(d), Word(a)) if nearest => {
            Some(Operation::Word1 { run: lanes!(|a: i32| a as f32), d, a })
        }
        (F32, U32, Word(d), Word(a)) if nearest => {
            Some(Operation::Word1 { run: lanes!(|a: u32| a as f32), d, a })
        }
        _ => None,
    }
}

/// `cvt.rn.f16x2.f32 d, high, low`
fn convert_pair<'a>(
    names: &mut Names<'a>,
    element: Type,
    rounding: Rounding,
    d: &Operand<'a>,
    high: &Operand<'a>,
    low: &Operand<'a>,
) -> Result<Operation, Fault> {
    let (high, low) = (names.read_word(high, Type::F32)?, names.read_word(low, Type::F32)?);
    let run: Word2 = match (element, rounding) {
        (Type::F16, Rounding::NearestEven) => lanes!(|high: f32, low: f32| {
            super::floating::pack(crate::cpu::numeric::float::F16, high.into(), low.into())
        }),
        (Type::Bf16, Rounding::NearestEven) => lanes!(|high: f32, low: f32| {
            super::floating::pack(crate::cpu::numeric::float::BF16, high.into(), low.into())
        }),
        _ => return Err(Fault::new("only `.rn` is executed for pairs")),
    };
    Ok(Operation::Word2 { run, d: names.written(d, Class::Word)?, a: high, b: low })
}

/// `cvta` (ISA section 9.7.9.22): windows of shared and local memory lie at fixed places among
/// generic addresses, global memory at its own address.
pub(super) fn convert_address<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    use crate::cpu::layout::{LOCAL_WINDOW, SHARED_WINDOW};
    use crate::cpu::types::Space;
    let to_space = opcode.take("to");
    let space = opcode.take_map(Space::named).ok_or_else(|| Fault::new("it names no space"))?;
    let ty = opcode.ty()?;
    opcode.finish()?;
    let base: fn(&Longs) -> Longs = match (space, to_space) {
        (Space::Global | Space::Constant | Space::Parameter, _) => COPY_LONG,
        (Space::Shared, false) => lanes!(|a: u64| a.wrapping_add(SHARED_WINDOW)),
        (Space::Shared, true) => lanes!(|a: u64| a.wrapping_sub(SHARED_WINDOW)),
        (Space::Local, false) => lanes!(|a: u64| a.wrapping_add(LOCAL_WINDOW)),
        (Space::Local, true) => lanes!(|a: u64| a.wrapping_sub(LOCAL_WINDOW)),
        (Space::Generic, _) => return Err(Fault::new("it names no space")),
    };
    computing(names, ty, operands, Compute::Long1(base))
}
