//! Loads and stores, and cache hints (ISA sections 9.7.9 and 9.7.14.5).

use super::error::StatementError;
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::operation::{Element, MemoryOrder, Operation, Register, Vector};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::{Class, Space, Type};

/// Cache hints, which have no effect on this device.
const HINTS: [&str; 24] = [
    "nc",
    "weak",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::evict_normal",
    "L2::evict_first",
    "L2::evict_last",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    // Scopes, which are all equal on this device.
    "cta",
    "cluster",
    "gpu",
    "sys",
];

/// Modifiers of a strong memory order.
const STRONG: [&str; 5] = ["volatile", "relaxed", "acquire", "release", "acq_rel"];

/// Removes hints, and returns the memory order and the operands without the policy of
/// `.L2::cache_hint`.
pub(super) fn drop_hints<'a, 'o>(
    opcode: &mut Opcode<'_>,
    operands: &'o [ParsedOperand<'a>],
) -> (MemoryOrder, &'o [ParsedOperand<'a>]) {
    while opcode.take_any(&HINTS).is_some() {}
    let order =
        if opcode.take_any(&STRONG).is_some() { MemoryOrder::Strong } else { MemoryOrder::Weak };
    let operands = match (opcode.take("L2::cache_hint"), operands) {
        (true, [others @ .., _policy]) => others,
        _ => operands,
    };
    (order, operands)
}

/// `createpolicy`, whose result is unused.
pub(super) fn create_policy<'a>(
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let [d, ..] = operands else { return Err(StatementError::operands()) };
    let a = names.long(0);
    Ok(Operation::Long1 { run: |a| *a, d: names.written(d, Class::Long)?, a })
}

/// Space of an access: that of the modifier, else that of a named variable, else generic.
pub(super) fn space(
    opcode: &mut Opcode<'_>,
    names: &NameTable<'_>,
    address: &ParsedOperand<'_>,
) -> Space {
    let of_variable = names.space_of(address);
    match opcode.take_map(Space::named) {
        // Parameters of inlined calls are in local memory.
        Some(Space::Parameter) if of_variable == Some(Space::Local) => Space::Local,
        named => named.or(of_variable).unwrap_or(Space::Generic),
    }
}

fn element(opcode: &mut Opcode<'_>) -> Result<(Type, u32), StatementError> {
    let length = match opcode.take_any(&["v2", "v4", "v8"]) {
        Some("v2") => 2,
        Some("v4") => 4,
        Some("v8") => 8,
        _ => 1,
    };
    let ty = opcode.ty()?;
    if ty == Type::Predicate {
        return Err(StatementError::ty());
    }
    if ty.bytes() * length > 32 {
        return Err(StatementError::new("an access is limited to 32 bytes"));
    }
    Ok((ty, length))
}

pub(super) fn check_length(vector: Vector, length: u32) -> Result<Vector, StatementError> {
    if vector.length == length {
        return Ok(vector);
    }
    Err(StatementError::new(format!(
        "the vector operand has {} parts, not {length}",
        vector.length
    )))
}

/// `ld`, `ldu`
pub(super) fn load<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let (order, operands) = drop_hints(&mut opcode, operands);
    let [d, address] = operands else { return Err(StatementError::operands()) };
    let space = space(&mut opcode, names, address);
    let (ty, length) = element(&mut opcode)?;
    opcode.finish()?;
    let address = names.address(address)?;
    let d = check_length(names.vector(d, |names, part| names.written_any(part))?, length)?;
    let element = Element { bytes: ty.bytes(), signed: ty.is_signed() };
    check_widths(d, element)?;
    Ok(Operation::Load { space, element, address, d, order })
}

/// `st`
pub(super) fn store<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let (order, operands) = drop_hints(&mut opcode, operands);
    let [address, a] = operands else { return Err(StatementError::operands()) };
    let space = space(&mut opcode, names, address);
    let (ty, length) = element(&mut opcode)?;
    opcode.finish()?;
    if matches!(space, Space::Constant | Space::Parameter) {
        return Err(StatementError::new("stores do not support this space"));
    }
    let address = names.address(address)?;
    let a = check_length(names.vector(a, |names, part| names.read(part, ty))?, length)?;
    if a.parts().contains(&None) {
        return Err(StatementError::new("`_` is not a source operand"));
    }
    let element = Element { bytes: ty.bytes(), signed: false };
    check_widths(a, element)?;
    Ok(Operation::Store { space, element, address, a, order })
}

/// Checks that no register is narrower than the element; wider registers are valid (ISA section
/// 9.4.1).
fn check_widths(vector: Vector, element: Element) -> Result<(), StatementError> {
    let narrow = |part: &Register| element.bytes == 8 && matches!(part, Register::Word(_));
    if vector.parts().iter().flatten().any(narrow) {
        return Err(StatementError::new("a register is narrower than the element"));
    }
    Ok(())
}
