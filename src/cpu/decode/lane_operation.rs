//! Operations that apply one lane function to operands.

use super::error::StatementError;
use super::name_table::NameTable;
use crate::cpu::operation::{Longs, Operation, Words};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::{Class, Type};

pub(super) type Word1 = fn(&Words) -> Words;
pub(super) type Word2 = fn(&Words, &Words) -> Words;
pub(super) type Word3 = fn(&Words, &Words, &Words) -> Words;
pub(super) type Long1 = fn(&Longs) -> Longs;
pub(super) type Long2 = fn(&Longs, &Longs) -> Longs;
pub(super) type Long3 = fn(&Longs, &Longs, &Longs) -> Longs;

/// A lane function, by the classes of its operands.
pub(super) enum LaneFunction {
    Word1(Word1),
    Word2(Word2),
    Word3(Word3),
    Long1(Long1),
    Long2(Long2),
    Long3(Long3),
}

/// Operation of a lane function and operands of type `ty`.
pub(super) fn lane_operation<'a>(
    names: &mut NameTable<'a>,
    ty: Type,
    operands: &[ParsedOperand<'a>],
    run: LaneFunction,
) -> Result<Operation, StatementError> {
    Ok(match (run, operands) {
        (LaneFunction::Word1(run), [d, a]) => {
            let a = names.read_word(a, ty)?;
            Operation::Word1 { run, d: names.written(d, Class::Word)?, a }
        }
        (LaneFunction::Word2(run), [d, a, b]) => {
            let (a, b) = (names.read_word(a, ty)?, names.read_word(b, ty)?);
            Operation::Word2 { run, d: names.written(d, Class::Word)?, a, b }
        }
        (LaneFunction::Word3(run), [d, a, b, c]) => {
            let (a, b) = (names.read_word(a, ty)?, names.read_word(b, ty)?);
            let c = names.read_word(c, ty)?;
            Operation::Word3 { run, d: names.written(d, Class::Word)?, a, b, c }
        }
        (LaneFunction::Long1(run), [d, a]) => {
            let a = names.read_long(a, ty)?;
            Operation::Long1 { run, d: names.written(d, Class::Long)?, a }
        }
        (LaneFunction::Long2(run), [d, a, b]) => {
            let (a, b) = (names.read_long(a, ty)?, names.read_long(b, ty)?);
            Operation::Long2 { run, d: names.written(d, Class::Long)?, a, b }
        }
        (LaneFunction::Long3(run), [d, a, b, c]) => {
            let (a, b) = (names.read_long(a, ty)?, names.read_long(b, ty)?);
            let c = names.read_long(c, ty)?;
            Operation::Long3 { run, d: names.written(d, Class::Long)?, a, b, c }
        }
        _ => return Err(StatementError::operands()),
    })
}
