//! Atomic operations on memory (ISA sections 9.7.13.5 and 9.7.13.7).

use super::error::StatementError;
use super::memory::{check_length, drop_hints, space};
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::numeric::addition::{add_bf16_pair, add_f16_pair, add_flushed};
use crate::cpu::numeric::float::bits32;
use crate::cpu::operation::{Address, AtomicUpdate, Operation, Register, Vector};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::{Class, Space, Type};

/// `atom` and `red`
pub(super) fn atomic<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Vec<Operation>, StatementError> {
    let returns = opcode.base == "atom";
    let (_, operands) = drop_hints(&mut opcode, operands);
    let (d, address, a, b) = match (returns, operands) {
        (true, [d, address, a]) => (Some(d), address, a, None),
        (true, [d, address, a, b]) => (Some(d), address, a, Some(b)),
        (false, [address, a]) => (None, address, a, None),
        _ => return Err(StatementError::operands()),
    };
    let space = space(&mut opcode, names, address);
    if matches!(space, Space::Local | Space::Constant | Space::Parameter) {
        return Err(StatementError::new("atomic operations do not support this space"));
    }
    let what = opcode
        .take_any(&["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"])
        .ok_or_else(|| StatementError::new("the opcode has no operation"))?;
    opcode.take("noftz");
    let length = opcode.take_map(|part| part.strip_prefix('v')?.parse::<u32>().ok()).unwrap_or(1);
    let ty = opcode.ty()?;
    opcode.finish()?;
    if (what == "cas") != b.is_some() {
        return Err(StatementError::operands());
    }
    let update = update(what, ty, space).ok_or_else(StatementError::ty)?;
    let address = names.address(address)?;
    let a = check_length(names.vector(a, |names, part| names.read(part, ty))?, length)?;
    let b = b.map(|b| names.read(b, ty)).transpose()?;
    // `_` discards the old value.
    let d = match d {
        Some(ParsedOperand::Name("_")) | None => Vector::of(&vec![None; length as usize]),
        Some(d) => check_length(names.vector(d, |names, part| names.written_any(part))?, length)?,
    };
    let fits = |register: &Register| {
        matches!(
            (ty.class(), register),
            (Class::Long, Register::Long(_)) | (Class::Word, Register::Word(_))
        )
    };
    if !a.parts().iter().chain(d.parts()).flatten().all(fits) || !b.iter().all(fits) {
        return Err(StatementError::new(
            "an operand does not have the operand size of the instruction",
        ));
    }
    // Each element is updated separately (ISA section 9.7.13.5); only the first needs the alignment
    // of the whole vector.
    let one = |(at, (a, d)): (usize, (&Option<Register>, &Option<Register>))| {
        let offset = address.offset.wrapping_add((at as i64) * i64::from(ty.bytes()));
        let alignment = if at == 0 { length * ty.bytes() } else { ty.bytes() };
        Ok(Operation::Atomic {
            space,
            update,
            alignment,
            d: *d,
            address: Address { offset, ..address },
            a: a.ok_or_else(|| StatementError::new("`_` is not a source operand"))?,
            b,
        })
    };
    a.parts().iter().zip(d.parts()).enumerate().map(one).collect()
}

fn update(what: &str, ty: Type, space: Space) -> Option<AtomicUpdate> {
    if (what, ty, space) == ("add", Type::F32, Space::Global) {
        return Some(AtomicUpdate::Word(|old, a, _| add_flushed(old, a)));
    }
    match ty.bytes() {
        8 => long_update(what, ty),
        4 => word_update(what, ty),
        2 => half_update(what, ty),
        _ => None,
    }
}

fn half_update(what: &str, ty: Type) -> Option<AtomicUpdate> {
    Some(AtomicUpdate::Half(match (what, ty) {
        ("add", Type::F16) => |old, a, _| add_f16_pair(old, a),
        ("add", Type::Bf16) => |old, a, _| add_bf16_pair(old, a),
        ("cas", Type::B16) => |old, a, b| if old == a { b } else { old },
        _ => return None,
    }))
}

fn word_update(what: &str, ty: Type) -> Option<AtomicUpdate> {
    use Type::{B32, Bf16x2, F16x2, F32, S32, U32};
    Some(AtomicUpdate::Word(match (what, ty) {
        ("add", U32 | S32) => |old, a, _| old.wrapping_add(a),
        ("add", F16x2) => |old, a, _| add_f16_pair(old, a),
        ("add", Bf16x2) => |old, a, _| add_bf16_pair(old, a),
        ("add", F32) => |old, a, _| bits32(f32::from_bits(old) + f32::from_bits(a)),
        ("min", U32) => |old, a, _| old.min(a),
        ("max", U32) => |old, a, _| old.max(a),
        ("min", S32) => |old, a, _| old.cast_signed().min(a.cast_signed()).cast_unsigned(),
        ("max", S32) => |old, a, _| old.cast_signed().max(a.cast_signed()).cast_unsigned(),
        ("and", B32) => |old, a, _| old & a,
        ("or", B32) => |old, a, _| old | a,
        ("xor", B32) => |old, a, _| old ^ a,
        ("exch", B32) => |_, a, _| a,
        ("cas", B32) => |old, a, b| if old == a { b } else { old },
        ("inc", U32) => |old, a, _| if old >= a { 0 } else { old + 1 },
        ("dec", U32) => |old, a, _| if old == 0 || old > a { a } else { old - 1 },
        _ => return None,
    }))
}

fn long_update(what: &str, ty: Type) -> Option<AtomicUpdate> {
    use Type::{B64, F64, S64, U64};
    Some(AtomicUpdate::Long(match (what, ty) {
        ("add", U64 | S64) => |old, a, _| old.wrapping_add(a),
        ("add", F64) => |old, a, _| (f64::from_bits(old) + f64::from_bits(a)).to_bits(),
        ("min", U64) => |old, a, _| old.min(a),
        ("max", U64) => |old, a, _| old.max(a),
        ("min", S64) => |old, a, _| old.cast_signed().min(a.cast_signed()).cast_unsigned(),
        ("max", S64) => |old, a, _| old.cast_signed().max(a.cast_signed()).cast_unsigned(),
        ("and", B64) => |old, a, _| old & a,
        ("or", B64) => |old, a, _| old | a,
        ("xor", B64) => |old, a, _| old ^ a,
        ("exch", B64) => |_, a, _| a,
        ("cas", B64) => |old, a, b| if old == a { b } else { old },
        _ => return None,
    }))
}
