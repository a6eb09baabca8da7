//! Moves and selections (ISA sections 9.7.7 and 9.7.9).

use super::error::StatementError;
use super::lane_operation::{LaneFunction, Long1, Word1, lane_operation};
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::operation::{Operation, PredicateOperand};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::{Class, Type};

/// Identity functions over slots.
const COPY_WORD: Word1 = |a| *a;
const COPY_LONG: Long1 = |a| *a;

/// `mov`, which also packs and unpacks vectors (ISA section 9.7.9.3).
pub(super) fn copy<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a] = operands else { return Err(StatementError::operands()) };
    if let (ParsedOperand::Vector(parts), ParsedOperand::Name(_)) = (a, d) {
        let bits = part_bits(ty, parts.len())?;
        let parts = names.vector(a, |names, part| names.read(part, part_type(bits)))?;
        return Ok(Operation::Pack { bits, d: names.written_any(d)?, parts });
    }
    if let ParsedOperand::Vector(parts) = d {
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
        (_, ParsedOperand::Name("%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo")) => {
            Ok(Operation::Clock { d: names.written_any(d)?, shift: 0 })
        }
        (_, ParsedOperand::Name("%clock_hi" | "%globaltimer_hi")) => {
            Ok(Operation::Clock { d: names.written_any(d)?, shift: 32 })
        }
        (Class::Word, _) => lane_operation(names, ty, operands, LaneFunction::Word1(COPY_WORD)),
        (Class::Long, _) => lane_operation(names, ty, operands, LaneFunction::Long1(COPY_LONG)),
    }
}

fn part_bits(ty: Type, parts: usize) -> Result<u32, StatementError> {
    match (ty.bytes(), parts) {
        (8, 2) => Ok(32),
        (8, 4) | (4, 2) => Ok(16),
        (4, 4) | (2, 2) => Ok(8),
        _ => Err(StatementError::new("the parts do not fill the register")),
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
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a, b, test] = operands else { return Err(StatementError::operands()) };
    let PredicateOperand { slot: test, negated } = names.test(test)?;
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
