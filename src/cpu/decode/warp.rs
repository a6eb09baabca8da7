//! Instructions that combine lanes of a warp: shuffles, votes, reductions and matches (ISA section
//! 9.7.9.6 and 9.7.13).

use super::error::StatementError;
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::operation::{MatchMode, Operation, ShuffleMode, VoteMode};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::{Class, Type};

/// `shfl.sync`
pub(super) fn shuffle<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    if !opcode.take("sync") {
        return Err(StatementError::new("only `shfl.sync` is supported"));
    }
    let how = match opcode.take_any(&["up", "down", "bfly", "idx"]) {
        Some("up") => ShuffleMode::Up,
        Some("down") => ShuffleMode::Down,
        Some("bfly") => ShuffleMode::Butterfly,
        Some("idx") => ShuffleMode::Index,
        _ => return Err(StatementError::new("the opcode has no mode")),
    };
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a, lane, clamp, members] = operands else { return Err(StatementError::operands()) };
    let a = names.read_word(a, ty)?;
    let lane = names.read_word(lane, Type::U32)?;
    let clamp = names.read_word(clamp, Type::U32)?;
    let members = names.read_word(members, Type::U32)?;
    let (d, inside) = names.result_and_test(d)?;
    Ok(Operation::Shuffle { how, d, inside, a, lane, clamp, members })
}

/// `vote.sync`
pub(super) fn vote<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let sync = opcode.take("sync");
    let mode = opcode.take_any(&["all", "any", "uni", "ballot"]);
    opcode.ty()?;
    opcode.finish()?;
    let [d, a, members] = operands else { return Err(StatementError::operands()) };
    let a = names.test(a)?;
    let members = names.read_word(members, Type::U32)?;
    if let (true, Some("ballot")) = (sync, mode) {
        let how = VoteMode::Ballot(names.written(d, Class::Word)?);
        return Ok(Operation::Vote { how, d: None, a, members });
    }
    let how = match (sync, mode) {
        (true, Some("all")) => VoteMode::All,
        (true, Some("any")) => VoteMode::Any,
        (true, Some("uni")) => VoteMode::Uniform,
        _ => return Err(StatementError::new("only `vote.sync` is supported")),
    };
    Ok(Operation::Vote { how, d: Some(names.written(d, Class::Predicate)?), a, members })
}

/// `redux.sync`
pub(super) fn reduce<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let sync = opcode.take("sync");
    let what = opcode.take_any(&["add", "min", "max", "and", "or", "xor"]);
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a, members] = operands else { return Err(StatementError::operands()) };
    if !sync {
        return Err(StatementError::new("only `redux.sync` is supported"));
    }
    let run: fn(u32, u32) -> u32 = match (what, ty) {
        (Some("add"), Type::U32 | Type::S32) => u32::wrapping_add,
        (Some("min"), Type::U32) => Ord::min,
        (Some("max"), Type::U32) => Ord::max,
        (Some("min"), Type::S32) => |a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned(),
        (Some("max"), Type::S32) => |a, b| a.cast_signed().max(b.cast_signed()).cast_unsigned(),
        (Some("and"), Type::B32) => |a, b| a & b,
        (Some("or"), Type::B32) => |a, b| a | b,
        (Some("xor"), Type::B32) => |a, b| a ^ b,
        _ => return Err(StatementError::ty()),
    };
    let (a, members) = (names.read_word(a, ty)?, names.read_word(members, Type::U32)?);
    Ok(Operation::Reduce { run, d: names.written(d, Class::Word)?, a, members })
}

/// `match.sync`
pub(super) fn match_values<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let sync = opcode.take("sync");
    let all = opcode.take_any(&["any", "all"]) == Some("all");
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a, members] = operands else { return Err(StatementError::operands()) };
    if !sync {
        return Err(StatementError::new("only `match.sync` is supported"));
    }
    let (a, members) = (names.read(a, ty)?, names.read_word(members, Type::U32)?);
    let (d, same) = names.result_and_test(d)?;
    let how = if all { MatchMode::All(same) } else { MatchMode::Any };
    Ok(Operation::Match { how, d, a, members })
}

/// `elect.sync`
pub(super) fn elect<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let sync = opcode.take("sync");
    opcode.finish()?;
    let [d, members] = operands else { return Err(StatementError::operands()) };
    let members = names.read_word(members, Type::U32)?;
    let (d, chosen) = match d {
        ParsedOperand::Pair("_", chosen) => {
            (None, names.written(&ParsedOperand::Name(chosen), Class::Predicate)?)
        }
        other => match names.result_and_test(other)? {
            (d, Some(chosen)) => (Some(d), chosen),
            _ => return Err(StatementError::operands()),
        },
    };
    if !sync {
        return Err(StatementError::operands());
    }
    Ok(Operation::Elect { d, chosen, members })
}

/// `activemask`
pub(super) fn active_mask<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    opcode.ty()?;
    opcode.finish()?;
    let [d] = operands else { return Err(StatementError::operands()) };
    Ok(Operation::ActiveMask { d: names.written(d, Class::Word)? })
}
