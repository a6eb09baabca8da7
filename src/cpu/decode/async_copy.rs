//! Asynchronous copies from global to shared memory (ISA section 9.7.9.25).

use super::error::StatementError;
use super::memory::drop_hints;
use super::name_table::NameTable;
use super::opcode::Opcode;
use super::tensor_copy::bulk;
use crate::cpu::operation::{Operation, StoreEffect};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::Type;

/// `cp.async`, its commits and its waits.
pub(super) fn copy_async<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Vec<Operation>, StatementError> {
    let effect = if opcode.take("reduce") { StoreEffect::Add } else { StoreEffect::Replace };
    if !opcode.take("async") {
        return Err(StatementError::new("only `cp.async` is supported"));
    }
    if opcode.take("bulk") {
        return bulk(opcode, names, operands, effect);
    }
    if effect == StoreEffect::Add {
        return Err(StatementError::new("only `cp.reduce.async.bulk` is supported"));
    }
    if opcode.take("commit_group") {
        opcode.finish()?;
        return Ok(vec![Operation::CopyCommit]);
    }
    if opcode.take("wait_all") {
        opcode.finish()?;
        return Ok(vec![Operation::CopyWait { pending: None }]);
    }
    if opcode.take("wait_group") {
        opcode.finish()?;
        let [ParsedOperand::Integer(pending)] = operands else {
            return Err(StatementError::operands());
        };
        let pending = u32::try_from(*pending).map_err(|_| StatementError::operands())?;
        return Ok(vec![Operation::CopyWait { pending: Some(pending) }]);
    }
    let (_, operands) = drop_hints(&mut opcode, operands);
    if !(opcode.take("shared") || opcode.take("shared::cta")) || !opcode.take("global") {
        return Err(StatementError::new("only copies from global to shared memory are supported"));
    }
    opcode.finish()?;
    let (to, from, bytes, source) = match operands {
        [to, from, ParsedOperand::Integer(bytes @ (4 | 8 | 16))] => (to, from, *bytes as u32, None),
        [to, from, ParsedOperand::Integer(bytes @ (4 | 8 | 16)), source] => {
            (to, from, *bytes as u32, Some(source))
        }
        _ => return Err(StatementError::new("only copies of 4, 8 or 16 bytes are supported")),
    };
    let (to, from) = (names.address(to)?, names.address(from)?);
    let Some(source) = source else {
        return Ok(vec![Operation::Copy { bytes, to, from, source_bytes: None }]);
    };
    // The last operand is a number of bytes to read, or a predicate that suppresses the read.
    if !matches!(source, ParsedOperand::Integer(_))
        && let Ok(ignored) = names.test(source)
    {
        let (none, all, read) = (names.word(0), names.word(bytes), names.scratch());
        let (a, b) = if ignored.negated { (all, none) } else { (none, all) };
        return Ok(vec![
            Operation::WordSelect { d: read, a, b, test: ignored.slot },
            Operation::Copy { bytes, to, from, source_bytes: Some(read) },
        ]);
    }
    let source_bytes = Some(names.read_word(source, Type::U32)?);
    Ok(vec![Operation::Copy { bytes, to, from, source_bytes }])
}
