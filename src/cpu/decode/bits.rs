//! Bitwise logic, shifts and bit fields (ISA sections 9.7.1 and 9.7.8).

use super::error::StatementError;
use super::lane_functions::{LaneValue, lanes};
use super::lane_operation::{LaneFunction, Long3, Word1, Word2, Word3, lane_operation};
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::operation::{Longs, Operation, Words};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::{Class, Type};

/// `and`, `or`, `xor`, `not`, `cnot`, `popc`, `clz` and `brev`.
pub(super) fn bits<'a>(
    opcode: Opcode<'a>,
    ty: Type,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    use LaneFunction::{Long1, Long2, Word1, Word2};
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
            let [d, a] = operands else { return Err(StatementError::operands()) };
            let run: fn(&Longs) -> Words = match base {
                "popc" => lanes!(|a: u64| a.count_ones()),
                _ => lanes!(|a: u64| a.leading_zeros()),
            };
            let a = names.read_long(a, ty)?;
            return Ok(Operation::Narrow1 { run, d: names.written(d, Class::Word)?, a });
        }
        _ => return Err(StatementError::ty()),
    };
    lane_operation(names, ty, operands, run)
}

/// `bfind`: position of the highest bit that differs from the sign, or all ones if there is none.
pub(super) fn find_bit<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let shift_amount = opcode.take("shiftamt");
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a] = operands else { return Err(StatementError::operands()) };
    if ty.class() == Class::Long {
        let run: fn(&Longs) -> Words = match (shift_amount, ty) {
            (false, Type::U64) => lanes!(|a: u64| 63_u32.wrapping_sub(a.leading_zeros())),
            (false, Type::S64) => {
                lanes!(|a: i64| 63_u32.wrapping_sub((a ^ a >> 63).leading_zeros()))
            }
            (true, Type::U64) => lanes!(|a: u64| amount(a.leading_zeros(), 64)),
            (true, Type::S64) => lanes!(|a: i64| amount((a ^ a >> 63).leading_zeros(), 64)),
            _ => return Err(StatementError::ty()),
        };
        let a = names.read_long(a, ty)?;
        return Ok(Operation::Narrow1 { run, d: names.written(d, Class::Word)?, a });
    }
    let run: Word1 = match (shift_amount, ty) {
        (false, Type::U32) => lanes!(|a: u32| 31_u32.wrapping_sub(a.leading_zeros())),
        (false, Type::S32) => lanes!(|a: i32| 31_u32.wrapping_sub((a ^ a >> 31).leading_zeros())),
        (true, Type::U32) => lanes!(|a: u32| amount(a.leading_zeros(), 32)),
        (true, Type::S32) => lanes!(|a: i32| amount((a ^ a >> 31).leading_zeros(), 32)),
        _ => return Err(StatementError::ty()),
    };
    lane_operation(names, ty, operands, LaneFunction::Word1(run))
}

/// Left shift that moves the highest set bit to the top, for a number with `zeros` leading zeros.
fn amount(zeros: u32, width: u32) -> u32 {
    if zeros == width { u32::MAX } else { zeros }
}

/// `shl` and `shr`: amounts beyond the width are clamped to it (ISA section 9.7.8.8).
pub(super) fn shift<'a>(
    opcode: Opcode<'a>,
    ty: Type,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let [d, a, b] = operands else { return Err(StatementError::operands()) };
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
        _ => return Err(StatementError::ty()),
    };
    let a = names.read_word(a, ty)?;
    Ok(Operation::Word2 { run, d: names.written(d, Class::Word)?, a, b })
}

/// `shf.l` and `shf.r`: shifts of a pair of words.
pub(super) fn funnel_shift<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let direction = opcode.take_any(&["l", "r"]);
    let mode = opcode.take_any(&["wrap", "clamp"]);
    let ty = opcode.ty()?;
    opcode.finish()?;
    let run: Word3 = match (direction, mode) {
        (Some("l"), Some("wrap")) => {
            lanes!(|a: u32, b: u32, c: u32| ((pair(a, b) << (c & 31)) >> 32) as u32)
        }
        (Some("l"), Some("clamp")) => {
            lanes!(|a: u32, b: u32, c: u32| ((pair(a, b) << c.min(32)) >> 32) as u32)
        }
        (Some("r"), Some("wrap")) => {
            lanes!(|a: u32, b: u32, c: u32| (pair(a, b) >> (c & 31)) as u32)
        }
        (Some("r"), Some("clamp")) => {
            lanes!(|a: u32, b: u32, c: u32| (pair(a, b) >> c.min(32)) as u32)
        }
        _ => return Err(StatementError::new("the opcode has no direction or mode")),
    };
    lane_operation(names, ty, operands, LaneFunction::Word3(run))
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// `prmt` in its default mode: selects four of eight bytes (ISA section 9.7.9.7).
pub(super) fn permute<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let ty = opcode.ty()?;
    opcode.finish()?;
    let run: Word3 = lanes!(|a: u32, b: u32, c: u32| {
        let bytes = pair(a, b).to_le_bytes();
        u32::from_le_bytes([0, 4, 8, 12].map(|at| {
            let selector = c >> at;
            let byte = bytes[(selector & 7) as usize];
            // The fourth bit of a selector replicates the byte's sign.
            if selector & 8 == 0 { byte } else { (byte.cast_signed() >> 7).cast_unsigned() }
        }))
    });
    lane_operation(names, ty, operands, LaneFunction::Word3(run))
}

/// `lop3`: the last operand is a truth table of 8 bits. Three operations on words implement it.
pub(super) fn logic3<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Vec<Operation>, StatementError> {
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a, b, c, ParsedOperand::Integer(table)] = operands else {
        return Err(StatementError::operands());
    };
    let (a, b) = (names.read_word(a, ty)?, names.read_word(b, ty)?);
    let c = names.read_word(c, ty)?;
    let d = names.written(d, Class::Word)?;
    // Fixing c to 0 and to 1 leaves two truth tables of a and b; c selects between their results.
    let table = *table as u32;
    let on = |c: u32| (0..4).map(|ab| (table >> (2 * ab + c) & 1) << ab).sum::<u32>();
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

/// `bfe` of 32 bits, and `bfi` (ISA sections 9.7.1.19 and 9.7.1.20).
pub(super) fn bit_field<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Vec<Operation>, StatementError> {
    let ty = opcode.ty()?;
    let base = opcode.base;
    opcode.finish()?;
    if base == "bfi" && ty.bytes() == 8 {
        return insert_long(names, ty, operands);
    }
    if ty.bytes() != 4 {
        return Err(StatementError::ty());
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
        return Ok(vec![lane_operation(names, ty, operands, LaneFunction::Word3(run))?]);
    }
    let [d, a, b, c, e] = operands else { return Err(StatementError::operands()) };
    let read = |names: &mut NameTable<'a>, operand| names.read_word(operand, Type::U32);
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

/// `bfi.b64`, with which NVRTC joins the halves of a shuffled long.
fn insert_long<'a>(
    names: &mut NameTable<'a>,
    ty: Type,
    operands: &[ParsedOperand<'a>],
) -> Result<Vec<Operation>, StatementError> {
    let [d, a, b, first, length] = operands else { return Err(StatementError::operands()) };
    let (a, b) = (names.read_long(a, ty)?, names.read_long(b, ty)?);
    let first = names.read_word(first, Type::U32)?;
    let length = names.read_word(length, Type::U32)?;
    let d = names.written(d, Class::Long)?;
    let (ones, mask, moved) = (names.scratch_long(), names.scratch_long(), names.scratch_long());
    let ones_of: fn(&Longs, &Words) -> Longs = lanes!(|_a: u64, length: u32| {
        u64::MAX.checked_shr(64_u32.saturating_sub(length & 0xff)).unwrap_or(0)
    });
    let shifted: fn(&Longs, &Words) -> Longs =
        lanes!(|a: u64, first: u32| a.checked_shl(first & 0xff).unwrap_or(0));
    let merged: Long3 = lanes!(|mask: u64, moved: u64, b: u64| (mask & moved) | (!mask & b));
    Ok(vec![
        Operation::Shift { run: ones_of, d: ones, a, b: length },
        Operation::Shift { run: shifted, d: mask, a: ones, b: first },
        Operation::Shift { run: shifted, d: moved, a, b: first },
        Operation::Long3 { run: merged, d, a: mask, b: moved, c: b },
    ])
}
