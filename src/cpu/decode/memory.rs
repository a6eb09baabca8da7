//! Loads, stores, copies and atomic operations (ISA sections 9.7.9 and 9.7.13.15).

use super::Fault;
use super::names::Names;
use super::opcode::Opcode;
use crate::cpu::numeric::float::bits32;
use crate::cpu::operation::{
    Direction, Element, MatrixMove, Operation, Register, Slot, Update, Vector,
};
use crate::cpu::parse::Operand;
use crate::cpu::types::{Class, Space, Type};

/// What hints at caches, and orders that one block at a time keeps anyway.
const HINTS: [&str; 24] = [
    "nc",
    "volatile",
    "weak",
    "relaxed",
    "acquire",
    "release",
    "acq_rel",
    "cta",
    "gpu",
    "sys",
    "cluster",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "L1::no_allocate",
    "L1::evict_last",
    "L1::evict_first",
    "L2::64B",
    "L2::128B",
    "L2::256B",
];

fn drop_hints(opcode: &mut Opcode<'_>) {
    while opcode.take_any(&HINTS).is_some() {}
}

/// The space of an access; without a modifier, that of a named variable, or any.
fn space(opcode: &mut Opcode<'_>, names: &Names<'_>, address: &Operand<'_>) -> Space {
    let named = opcode.take_map(Space::named);
    named.or_else(|| names.space_of(address)).unwrap_or(Space::Generic)
}

fn element(opcode: &mut Opcode<'_>) -> Result<(Type, u32), Fault> {
    let length = match opcode.take_any(&["v2", "v4", "v8"]) {
        Some("v2") => 2,
        Some("v4") => 4,
        Some("v8") => 8,
        _ => 1,
    };
    let ty = opcode.ty()?;
    if ty == Type::Predicate {
        return Err(Fault::ty());
    }
    if ty.bytes() * length > 32 {
        return Err(Fault::new("an access has at most 32 bytes"));
    }
    Ok((ty, length))
}

fn check_length(vector: Vector, length: u32) -> Result<Vector, Fault> {
    if vector.length == length {
        return Ok(vector);
    }
    Err(Fault::new(format!("its vector has {} parts, not {length}", vector.length)))
}

/// `ld`, `ldu`
pub(super) fn load<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let [d, address] = operands else { return Err(Fault::operands()) };
    let space = space(&mut opcode, names, address);
    drop_hints(&mut opcode);
    let (ty, length) = element(&mut opcode)?;
    opcode.finish()?;
    let address = names.address(address)?;
    let d = check_length(names.vector(d, |names, part| names.written_any(part))?, length)?;
    let element = Element { bytes: ty.bytes(), signed: ty.is_signed() };
    check_widths(d, element)?;
    Ok(Operation::Load { space, element, address, d })
}

/// `st`
pub(super) fn store<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let [address, a] = operands else { return Err(Fault::operands()) };
    let space = space(&mut opcode, names, address);
    drop_hints(&mut opcode);
    let (ty, length) = element(&mut opcode)?;
    opcode.finish()?;
    if matches!(space, Space::Constant | Space::Parameter) {
        return Err(Fault::new("nothing stores there"));
    }
    let address = names.address(address)?;
    let a = check_length(names.vector(a, |names, part| names.read(part, ty))?, length)?;
    if a.parts().contains(&None) {
        return Err(Fault::new("`_` has no value"));
    }
    let element = Element { bytes: ty.bytes(), signed: false };
    check_widths(a, element)?;
    Ok(Operation::Store { space, element, address, a })
}

/// A register may be wider than what is moved, not narrower (ISA section 9.4.1).
fn check_widths(vector: Vector, element: Element) -> Result<(), Fault> {
    let narrow = |part: &Register| element.bytes == 8 && matches!(part, Register::Word(_));
    if vector.parts().iter().flatten().any(narrow) {
        return Err(Fault::new("a register is narrower than what it is loaded with"));
    }
    Ok(())
}

/// `atom` and `red`
pub(super) fn atomic<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let returns = opcode.base == "atom";
    let (d, address, a, b) = match (returns, operands) {
        (true, [d, address, a]) => (Some(d), address, a, None),
        (true, [d, address, a, b]) => (Some(d), address, a, Some(b)),
        (false, [address, a]) => (None, address, a, None),
        _ => return Err(Fault::operands()),
    };
    let space = space(&mut opcode, names, address);
    if !matches!(space, Space::Global | Space::Shared | Space::Generic) {
        return Err(Fault::new("nothing is atomic there"));
    }
    drop_hints(&mut opcode);
    let what = opcode
        .take_any(&["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"])
        .ok_or_else(|| Fault::new("it names no operation"))?;
    opcode.take("noftz");
    let ty = opcode.ty()?;
    opcode.finish()?;
    if (what == "cas") != b.is_some() {
        return Err(Fault::operands());
    }
    let update =
        if ty.class() == Class::Long { long_update(what, ty) } else { word_update(what, ty) };
    let update = update.ok_or_else(Fault::ty)?;
    let address = names.address(address)?;
    let a = names.read(a, ty)?;
    let b = b.map(|b| names.read(b, ty)).transpose()?;
    // The old value of `_` is not wanted.
    let d = match d {
        Some(Operand::Name("_")) | None => None,
        Some(d) => Some(names.written_any(d)?),
    };
    let fits = |register: &Register| {
        matches!(
            (ty.class(), register),
            (Class::Long, Register::Long(_)) | (Class::Word, Register::Word(_))
        )
    };
    if !fits(&a) || !b.iter().all(fits) || !d.iter().all(fits) {
        return Err(Fault::new("an operand is of another size than the instruction works on"));
    }
    Ok(Operation::Atomic { space, update, d, address, a, b })
}

fn word_update(what: &str, ty: Type) -> Option<Update> {
    use Type::{B32, F32, S32, U32};
    Some(Update::Word(match (what, ty) {
        ("add", U32 | S32) => |old, a, _| old.wrapping_add(a),
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

fn long_update(what: &str, ty: Type) -> Option<Update> {
    use Type::{B64, F64, S64, U64};
    Some(Update::Long(match (what, ty) {
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

/// `cp.async` and what orders it.
pub(super) fn copy_async<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    if !opcode.take("async") {
        return Err(Fault::new("only `cp.async` is executed"));
    }
    if opcode.take("commit_group") {
        opcode.finish()?;
        return Ok(Operation::CopyCommit);
    }
    if opcode.take("wait_all") {
        opcode.finish()?;
        return Ok(Operation::CopyWait { pending: None });
    }
    if opcode.take("wait_group") {
        opcode.finish()?;
        let [Operand::Integer(pending)] = operands else { return Err(Fault::operands()) };
        let pending = u32::try_from(*pending).map_err(|_| Fault::operands())?;
        return Ok(Operation::CopyWait { pending: Some(pending) });
    }
    drop_hints(&mut opcode);
    if !(opcode.take("shared") || opcode.take("shared::cta")) || !opcode.take("global") {
        return Err(Fault::new("it does not copy from global to shared memory"));
    }
    opcode.finish()?;
    let (to, from, bytes, source) = match operands {
        [to, from, Operand::Integer(bytes @ (4 | 8 | 16))] => (to, from, *bytes, None),
        [to, from, Operand::Integer(bytes @ (4 | 8 | 16)), source] => {
            (to, from, *bytes, Some(names.read_word(source, Type::U32)?))
        }
        _ => return Err(Fault::new("it copies 4, 8 or 16 bytes")),
    };
    let (to, from) = (names.address(to)?, names.address(from)?);
    Ok(Operation::Copy { bytes: bytes as u32, to, from, source_bytes: source })
}

/// `ldmatrix` and `stmatrix` of 8 x 8 elements of 16 bits (ISA section 9.7.14.5.15).
pub(super) fn matrix<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let loads = opcode.base == "ldmatrix";
    let aligned = opcode.take("sync") && opcode.take("aligned") && opcode.take("m8n8");
    let count = match opcode.take_any(&["x1", "x2", "x4"]) {
        Some("x1") => 1,
        Some("x2") => 2,
        Some("x4") => 4,
        _ => return Err(Fault::new("it names no number of matrices")),
    };
    let transposed = opcode.take("trans");
    let shared = opcode.take("shared") || opcode.take("shared::cta");
    let ty = opcode.ty()?;
    opcode.finish()?;
    if !aligned || !shared || ty != Type::B16 {
        return Err(Fault::new("only 8 x 8 matrices of b16 in shared memory are executed"));
    }
    let (registers, address) = match operands {
        [registers, address] if loads => (registers, address),
        [address, registers] => (registers, address),
        _ => return Err(Fault::operands()),
    };
    let address = names.address(address)?;
    let direction = if loads { Direction::Load } else { Direction::Store };
    let vector = names.vector(registers, |names, part| match direction {
        Direction::Load => names.written_any(part),
        Direction::Store => names.read(part, Type::B32),
    })?;
    let registers = words(check_length(vector, count)?)?;
    Ok(Operation::MatrixMove(Box::new(MatrixMove { direction, transposed, address, registers })))
}

/// The slots of a vector of words.
pub(super) fn words(vector: Vector) -> Result<Vec<Slot>, Fault> {
    let word = |part: &Option<Register>| match part {
        Some(Register::Word(slot)) => Ok(*slot),
        _ => Err(Fault::new("a fragment has registers of 32 bits")),
    };
    vector.parts().iter().map(word).collect()
}
