//! Tensor copies: `cp.async.bulk.tensor`.

use super::error::StatementError;
use super::memory::drop_hints;
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::operation::{Operation, TensorCopy};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::Type;

/// Decodes `cp.async.bulk` from its third part on.
pub(super) fn copy_tensor<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Vec<Operation>, StatementError> {
    let (_, operands) = drop_hints(&mut opcode, operands);
    if !opcode.take("tensor") {
        return Err(StatementError::new("only bulk copies with a tensor map are supported"));
    }
    let ranks = ["1d", "2d", "3d", "4d", "5d"];
    let rank = opcode.take_any(&ranks).and_then(|rank| ranks.iter().position(|one| *one == rank));
    let rank =
        rank.ok_or_else(|| StatementError::new("the opcode has no number of dimensions"))? + 1;
    // The destination is the block's own shared memory, which is part of the cluster's. `.tile` is
    // the default.
    let to_shared = opcode.take("shared::cluster") || opcode.take("shared::cta");
    opcode.take("tile");
    if !to_shared || !opcode.take("global") || !opcode.take("mbarrier::complete_tx::bytes") {
        return Err(StatementError::new(
            "only tensor copies from global to shared memory with an mbarrier are supported",
        ));
    }
    opcode.finish()?;
    let [to, ParsedOperand::TensorBox { base, offset, coordinates }, barrier] = operands else {
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
    Ok(vec![Operation::TensorCopy(Box::new(TensorCopy {
        to: names.address(to)?,
        map: names.address(&ParsedOperand::Address { base: *base, offset: *offset })?,
        coordinates,
        barrier: names.address(barrier)?,
    }))])
}
