//! What concerns several lanes: barriers, shuffles, votes, matrix products (ISA sections 9.7.9.6,
//! 9.7.13 and 9.7.14).

use super::memory::words;
use super::names::Names;
use super::opcode::Opcode;
use super::{Fault, cluster};
use crate::cpu::operation::{
    Arrival, Asks, Match, MatrixElement, MatrixProduct, Operation, Poll, Shuffle, Sums, Vote,
};
use crate::cpu::parse::Operand;
use crate::cpu::types::{Class, Type};

/// `bar` and `barrier`
pub(super) fn barrier<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    if opcode.take("warp") {
        let sync = opcode.take("sync");
        opcode.finish()?;
        return match (sync, operands) {
            (true, [_members]) => Ok(Operation::WarpBarrier),
            _ => Err(Fault::operands()),
        };
    }
    if opcode.take("cluster") {
        return cluster::barrier(opcode, operands);
    }
    opcode.take("cta");
    opcode.take("aligned");
    let (arrival, asks) = match opcode.take_any(&["sync", "arrive", "red"]) {
        Some("sync") => (Arrival::Wait, None),
        Some("arrive") => (Arrival::Announce, None),
        Some(_) => (Arrival::Wait, opcode.take_any(&["popc", "and", "or"])),
        None => return Err(Fault::new("only `.sync`, `.arrive` and `.red` are executed")),
    };
    let (poll, operands) = match (asks, operands) {
        (None, _) => (None, operands),
        (Some(asks), [d, others @ .., a]) => {
            opcode.ty()?;
            let asks = match asks {
                "popc" => Asks::Count(names.written(d, Class::Word)?),
                "and" => Asks::All(names.written(d, Class::Predicate)?),
                _ => Asks::Any(names.written(d, Class::Predicate)?),
            };
            (Some(Poll { asks, a: names.test(a)? }), others)
        }
        _ => return Err(Fault::operands()),
    };
    opcode.finish()?;
    let (id, threads) = match operands {
        [id] => (id, None),
        [id, threads] => (id, Some(names.read_word(threads, Type::U32)?)),
        _ => return Err(Fault::operands()),
    };
    if arrival == Arrival::Announce && threads.is_none() {
        return Err(Fault::operands());
    }
    let id = names.read_word(id, Type::U32)?;
    Ok(Operation::Barrier { id, threads, arrival, poll })
}

/// `membar` and `fence`
pub(super) fn fence(mut opcode: Opcode<'_>) -> Result<Operation, Fault> {
    // That what other units do is ordered too is not told apart: they see everything at once here.
    if opcode.take("proxy") {
        let known = opcode.take("async");
        opcode.take_any(&["global", "shared::cta", "shared::cluster"]);
        if !known {
            return Err(Fault::new("of proxies only `.async` is known"));
        }
    } else if opcode.take("mbarrier_init") {
        opcode.take("release");
        opcode.take("cluster");
    }
    while opcode.take_any(&["gl", "cta", "sys", "gpu", "cluster", "acq_rel", "sc"]).is_some() {}
    opcode.finish()?;
    Ok(Operation::Fence)
}

/// `shfl.sync`
pub(super) fn shuffle<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    if !opcode.take("sync") {
        return Err(Fault::new("only `shfl.sync` is executed"));
    }
    let how = match opcode.take_any(&["up", "down", "bfly", "idx"]) {
        Some("up") => Shuffle::Up,
        Some("down") => Shuffle::Down,
        Some("bfly") => Shuffle::Butterfly,
        Some("idx") => Shuffle::Index,
        _ => return Err(Fault::new("it names no mode")),
    };
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a, lane, clamp, members] = operands else { return Err(Fault::operands()) };
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
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let sync = opcode.take("sync");
    let mode = opcode.take_any(&["all", "any", "uni", "ballot"]);
    opcode.ty()?;
    opcode.finish()?;
    let [d, a, members] = operands else { return Err(Fault::operands()) };
    let a = names.test(a)?;
    let members = names.read_word(members, Type::U32)?;
    if let (true, Some("ballot")) = (sync, mode) {
        let how = Vote::Ballot(names.written(d, Class::Word)?);
        return Ok(Operation::Vote { how, d: None, a, members });
    }
    let how = match (sync, mode) {
        (true, Some("all")) => Vote::All,
        (true, Some("any")) => Vote::Any,
        (true, Some("uni")) => Vote::Uniform,
        _ => return Err(Fault::new("only `vote.sync` is executed")),
    };
    Ok(Operation::Vote { how, d: Some(names.written(d, Class::Predicate)?), a, members })
}

/// `redux.sync`
pub(super) fn reduce<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let sync = opcode.take("sync");
    let what = opcode.take_any(&["add", "min", "max", "and", "or", "xor"]);
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a, members] = operands else { return Err(Fault::operands()) };
    if !sync {
        return Err(Fault::new("only `redux.sync` is executed"));
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
        _ => return Err(Fault::ty()),
    };
    let (a, members) = (names.read_word(a, ty)?, names.read_word(members, Type::U32)?);
    Ok(Operation::Reduce { run, d: names.written(d, Class::Word)?, a, members })
}

/// `match.sync`
pub(super) fn match_values<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let sync = opcode.take("sync");
    let all = opcode.take_any(&["any", "all"]) == Some("all");
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a, members] = operands else { return Err(Fault::operands()) };
    if !sync {
        return Err(Fault::new("only `match.sync` is executed"));
    }
    let (a, members) = (names.read(a, ty)?, names.read_word(members, Type::U32)?);
    let (d, same) = names.result_and_test(d)?;
    let how = if all { Match::All(same) } else { Match::Any };
    Ok(Operation::Match { how, d, a, members })
}

/// `elect.sync`
pub(super) fn elect<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let sync = opcode.take("sync");
    opcode.finish()?;
    let [d, members] = operands else { return Err(Fault::operands()) };
    let members = names.read_word(members, Type::U32)?;
    let (d, chosen) = match d {
        Operand::Pair("_", chosen) => {
            (None, names.written(&Operand::Name(chosen), Class::Predicate)?)
        }
        other => match names.result_and_test(other)? {
            (d, Some(chosen)) => (Some(d), chosen),
            _ => return Err(Fault::operands()),
        },
    };
    if !sync {
        return Err(Fault::operands());
    }
    Ok(Operation::Elect { d, chosen, members })
}

/// `activemask`
pub(super) fn active_mask<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    opcode.ty()?;
    opcode.finish()?;
    let [d] = operands else { return Err(Fault::operands()) };
    Ok(Operation::ActiveMask { d: names.written(d, Class::Word)? })
}

/// `mma.sync` of 16 x 8 fragments.
pub(super) fn matrix_product<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let usual =
        opcode.take("sync") && opcode.take("aligned") && opcode.take("row") && opcode.take("col");
    let shape = opcode.take_any(&["m16n8k4", "m16n8k8", "m16n8k16"]);
    let types = [opcode.ty()?, opcode.ty()?, opcode.ty()?, opcode.ty()?];
    opcode.finish()?;
    if !usual {
        return Err(Fault::new("only `mma.sync.aligned` of `row.col` operands is executed"));
    }
    let (element, sums) = match types {
        [Type::F32, Type::F16, Type::F16, Type::F32] => (MatrixElement::F16, Sums::F32),
        [Type::F16, Type::F16, Type::F16, Type::F16] => (MatrixElement::F16, Sums::F16),
        [Type::F32, Type::Bf16, Type::Bf16, Type::F32] => (MatrixElement::Bf16, Sums::F32),
        [Type::F32, Type::Tf32, Type::Tf32, Type::F32] => (MatrixElement::Tf32, Sums::F32),
        _ => return Err(Fault::new("only products of f16, bf16 and tf32 are executed")),
    };
    let depth = match (element, shape) {
        (MatrixElement::Tf32, Some("m16n8k4")) => 4,
        (_, Some("m16n8k8")) => 8,
        (MatrixElement::F16 | MatrixElement::Bf16, Some("m16n8k16")) => 16,
        _ => return Err(Fault::new("it names no shape that goes with its types")),
    };
    let [d, a, b, c] = operands else { return Err(Fault::operands()) };
    // Elements of a register, and so the registers of a lane's share of 16 x depth and depth x 8.
    let packed = if element == MatrixElement::Tf32 { 1 } else { 2 };
    let sum_registers = if sums == Sums::F32 { 4 } else { 2 };
    let read = |names: &mut Names<'a>, operand: &Operand<'a>, ty, count: usize| {
        let registers = words(names.vector(operand, |names, part| names.read(part, ty))?)?;
        if registers.len() == count { Ok(registers) } else { Err(Fault::operands()) }
    };
    let a = read(names, a, Type::B32, 16 * depth / 32 / packed)?;
    let b = read(names, b, Type::B32, 8 * depth / 32 / packed)?;
    let c = read(names, c, Type::F32, sum_registers)?;
    let d = words(names.vector(d, |names, part| names.written_any(part))?)?;
    if d.len() != sum_registers {
        return Err(Fault::operands());
    }
    Ok(Operation::MatrixProduct(Box::new(MatrixProduct { element, depth, d, a, b, c, sums })))
}
