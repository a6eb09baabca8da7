//! Bulk copies with a tensor map: `cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor`.

use super::error::StatementError;
use super::memory::drop_hints;
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::operation::{
    Address, Operation, RegisterSlot, StoreEffect, StoreWait, TensorCopy, TensorStore,
};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::Type;

/// Decodes `cp.async.bulk` and `cp.reduce.async.bulk` after these parts.
pub(super) fn bulk<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
    effect: StoreEffect,
) -> Result<Vec<Operation>, StatementError> {
    if effect == StoreEffect::Replace {
        if opcode.take("commit_group") {
            opcode.finish()?;
            return Ok(vec![Operation::StoreCommit]);
        }
        if opcode.take("wait_group") {
            let what = if opcode.take("read") { StoreWait::Reads } else { StoreWait::Writes };
            opcode.finish()?;
            let [ParsedOperand::Integer(pending)] = operands else {
                return Err(StatementError::operands());
            };
            let pending = u32::try_from(*pending).map_err(|_| StatementError::operands())?;
            return Ok(vec![Operation::StoreWait { pending, what }]);
        }
    }
    let (_, operands) = drop_hints(&mut opcode, operands);
    if !opcode.take("tensor") {
        return Err(StatementError::new("only bulk copies with a tensor map are supported"));
    }
    let ranks = ["1d", "2d", "3d", "4d", "5d"];
    let rank = opcode.take_any(&ranks).and_then(|rank| ranks.iter().position(|one| *one == rank));
    let rank =
        rank.ok_or_else(|| StatementError::new("the opcode has no number of dimensions"))? + 1;
    // `.tile` is the default.
    opcode.take("tile");
    if opcode.take("bulk_group") {
        return store(opcode, names, operands, (rank, effect));
    }
    // The destination is the block's own shared memory, which is part of the cluster's.
    let to_shared = opcode.take("shared::cluster") || opcode.take("shared::cta");
    let is_load = effect == StoreEffect::Replace && to_shared && opcode.take("global");
    if !is_load || !opcode.take("mbarrier::complete_tx::bytes") {
        return Err(StatementError::new(
            "only tensor copies to shared memory with an mbarrier, and to global memory with a bulk group, are \
             supported",
        ));
    }
    let casts = opcode.take("multicast::cluster");
    opcode.finish()?;
    let (to, tensor, barrier, blocks) = match operands {
        [to, tensor, barrier] if !casts => (to, tensor, barrier, None),
        [to, tensor, barrier, blocks] if casts => (to, tensor, barrier, Some(blocks)),
        _ => return Err(StatementError::operands()),
    };
    let (map, coordinates) = tensor_box(names, tensor, rank)?;
    let blocks = blocks.map(|blocks| names.read_word(blocks, Type::U16)).transpose()?;
    Ok(vec![Operation::TensorCopy(Box::new(TensorCopy {
        to: names.address(to)?,
        map,
        coordinates,
        barrier: names.address(barrier)?,
        blocks,
    }))])
}

/// A copy from shared to global memory.
fn store<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
    (rank, effect): (usize, StoreEffect),
) -> Result<Vec<Operation>, StatementError> {
    let supported = opcode.take("global") && opcode.take("shared::cta");
    if !supported || effect == StoreEffect::Add && !opcode.take("add") {
        return Err(StatementError::new(
            "only bulk groups from shared to global memory are supported, of copies and of `.add`",
        ));
    }
    opcode.finish()?;
    let [tensor, from] = operands else { return Err(StatementError::operands()) };
    let (map, coordinates) = tensor_box(names, tensor, rank)?;
    let from = names.address(from)?;
    Ok(vec![Operation::TensorStore(Box::new(TensorStore { from, map, coordinates, effect }))])
}

/// Address of the map and coordinates of `[%rd1, {%r1, %r2}]`.
fn tensor_box<'a>(
    names: &mut NameTable<'a>,
    operand: &ParsedOperand<'a>,
    rank: usize,
) -> Result<(Address, Vec<RegisterSlot>), StatementError> {
    let ParsedOperand::TensorBox { base, offset, coordinates } = operand else {
        return Err(StatementError::operands());
    };
    if coordinates.len() != rank {
        return Err(StatementError::new(format!(
            "the box has {} coordinates for {rank} dimensions",
            coordinates.len()
        )));
    }
    let coordinates = coordinates.iter().map(|one| names.read_word(one, Type::S32));
    let coordinates = coordinates.collect::<Result<_, _>>()?;
    Ok((names.address(&ParsedOperand::Address { base: *base, offset: *offset })?, coordinates))
}
