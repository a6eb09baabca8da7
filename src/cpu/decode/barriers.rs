//! Barriers of warps, blocks and clusters, and fences (ISA sections 9.7.13 and 9.7.14).

use super::error::StatementError;
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::operation::{
    ArriveOrder, BarrierMode, BarrierReduction, ClusterBarrierStep, Operation, ReductionResult,
};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::{Class, Type};

/// `bar` and `barrier`
pub(super) fn barrier<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    if opcode.take("warp") {
        let sync = opcode.take("sync");
        opcode.finish()?;
        return match (sync, operands) {
            (true, [_members]) => Ok(Operation::WarpBarrier),
            _ => Err(StatementError::operands()),
        };
    }
    if opcode.take("cluster") {
        return cluster_barrier(opcode, operands);
    }
    opcode.take("cta");
    opcode.take("aligned");
    let (mode, result) = match opcode.take_any(&["sync", "arrive", "red"]) {
        Some("sync") => (BarrierMode::Sync, None),
        Some("arrive") => (BarrierMode::Arrive, None),
        Some(_) => (BarrierMode::Sync, opcode.take_any(&["popc", "and", "or"])),
        None => {
            return Err(StatementError::new("only `.sync`, `.arrive` and `.red` are supported"));
        }
    };
    let (poll, operands) = match (result, operands) {
        (None, _) => (None, operands),
        (Some(result), [d, others @ .., a]) => {
            opcode.ty()?;
            let result = match result {
                "popc" => ReductionResult::Count(names.written(d, Class::Word)?),
                "and" => ReductionResult::All(names.written(d, Class::Predicate)?),
                _ => ReductionResult::Any(names.written(d, Class::Predicate)?),
            };
            (Some(BarrierReduction { result, a: names.test(a)? }), others)
        }
        _ => return Err(StatementError::operands()),
    };
    opcode.finish()?;
    let (id, threads) = match operands {
        [id] => (id, None),
        [id, threads] => (id, Some(names.read_word(threads, Type::U32)?)),
        _ => return Err(StatementError::operands()),
    };
    if mode == BarrierMode::Arrive && threads.is_none() {
        return Err(StatementError::operands());
    }
    let id = names.read_word(id, Type::U32)?;
    Ok(Operation::Barrier { id, threads, mode, poll })
}

/// `barrier.cluster`
fn cluster_barrier(
    mut opcode: Opcode<'_>,
    operands: &[ParsedOperand<'_>],
) -> Result<Operation, StatementError> {
    let step = opcode.take_any(&["arrive", "wait"]);
    let order = opcode.take_any(&["release", "relaxed", "acquire"]);
    opcode.take("aligned");
    opcode.finish()?;
    if !operands.is_empty() {
        return Err(StatementError::operands());
    }
    Ok(Operation::ClusterBarrier(match (step, order) {
        (Some("arrive"), None | Some("release")) => {
            ClusterBarrierStep::Arrive(ArriveOrder::Release)
        }
        (Some("arrive"), Some("relaxed")) => ClusterBarrierStep::Arrive(ArriveOrder::Relaxed),
        (Some("wait"), None | Some("acquire")) => ClusterBarrierStep::Wait,
        _ => {
            return Err(StatementError::new(
                "only `.arrive` and `.wait` with their memory orders are supported",
            ));
        }
    }))
}

/// `membar` and `fence`
pub(super) fn fence(mut opcode: Opcode<'_>) -> Result<Operation, StatementError> {
    if opcode.take("proxy") {
        let supported = opcode.take("async");
        let space = opcode.take_any(&["global", "shared::cta", "shared::cluster"]);
        if !supported {
            return Err(StatementError::new("only the `.async` proxy is supported"));
        }
        opcode.finish()?;
        // Only shared memory has an async proxy on this device.
        return Ok(if space == Some("global") { Operation::Fence } else { Operation::ProxyFence });
    }
    if opcode.take("mbarrier_init") {
        opcode.take("release");
        opcode.take("cluster");
    }
    while opcode.take_any(&["gl", "cta", "sys", "gpu", "cluster", "acq_rel", "sc"]).is_some() {}
    opcode.finish()?;
    Ok(Operation::Fence)
}
