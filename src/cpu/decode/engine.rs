//! The copy engine: copies of boxes, and the mbarriers that tell of their end (ISA: `cp.async.bulk.tensor`,
//! `mbarrier`).

use super::Fault;
use super::memory::drop_hints;
use super::names::Names;
use super::opcode::Opcode;
use crate::cpu::operation::{BoxCopy, MbarrierStep, Operation, Phase};
use crate::cpu::parse::Operand;
use crate::cpu::types::{Class, Space, Type};

/// What follows `cp.async.bulk`.
pub(super) fn copy_box<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Vec<Operation>, Fault> {
    let (_, operands) = drop_hints(&mut opcode, operands);
    if !opcode.take("tensor") {
        return Err(Fault::new("of bulk copies only those of boxes of a tensor map are executed"));
    }
    let ranks = ["1d", "2d", "3d", "4d", "5d"];
    let rank = opcode.take_any(&ranks).and_then(|rank| ranks.iter().position(|one| *one == rank));
    let rank = rank.ok_or_else(|| Fault::new("it names no number of dimensions"))? + 1;
    // To the block's own shared memory, which an address of the cluster's is too. `.tile` is the default.
    let to_shared = opcode.take("shared::cluster") || opcode.take("shared::cta");
    opcode.take("tile");
    if !to_shared || !opcode.take("global") || !opcode.take("mbarrier::complete_tx::bytes") {
        return Err(Fault::new(
            "of copies of boxes only those from global to shared memory with an mbarrier are executed",
        ));
    }
    opcode.finish()?;
    let [to, Operand::Box { base, offset, coordinates }, barrier] = operands else {
        return Err(Fault::operands());
    };
    if coordinates.len() != rank {
        return Err(Fault::new(format!(
            "it has {} coordinates for {rank} dimensions",
            coordinates.len()
        )));
    }
    let coordinates = coordinates.iter().map(|one| names.read_word(one, Type::S32));
    let coordinates = coordinates.collect::<Result<_, _>>()?;
    Ok(vec![Operation::BoxCopy(Box::new(BoxCopy {
        to: names.address(to)?,
        map: names.address(&Operand::Address { base: *base, offset: *offset })?,
        coordinates,
        barrier: names.address(barrier)?,
    }))])
}

/// `mbarrier`
pub(super) fn mbarrier<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let steps = ["init", "inval", "arrive", "expect_tx", "test_wait", "try_wait"];
    let step = opcode.take_any(&steps).unwrap_or_default();
    let expects = step == "arrive" && opcode.take("expect_tx");
    let parity = opcode.take("parity");
    let space = match opcode.take_map(Space::named) {
        Some(space @ (Space::Shared | Space::Cluster)) => space,
        _ => return Err(Fault::new("only mbarriers in `.shared` memory are executed")),
    };
    // Arriving releases and waiting acquires, as they do without a word; scopes are all one here.
    if matches!(step, "arrive") {
        opcode.take("release");
    } else if step.ends_with("wait") {
        opcode.take("acquire");
    } else if step == "expect_tx" {
        opcode.take("relaxed");
    }
    opcode.take_any(&["cta", "cluster"]);
    let ty = opcode.ty()?;
    opcode.finish()?;
    if ty != Type::B64 {
        return Err(Fault::ty());
    }
    let mut word = |operand: &Operand<'a>| names.read_word(operand, Type::U32);
    let (address, step) = match (step, operands) {
        ("init", [address, count]) => (address, MbarrierStep::Init { count: word(count)? }),
        ("inval", [address]) => (address, MbarrierStep::Invalidate),
        ("expect_tx", [address, bytes]) => (address, MbarrierStep::Expect { bytes: word(bytes)? }),
        ("arrive", [state, address, others @ ..]) => {
            let (count, bytes) = match (expects, others) {
                (false, []) => (None, None),
                (false, [count]) => (Some(word(count)?), None),
                (true, [bytes]) => (None, Some(word(bytes)?)),
                _ => return Err(Fault::operands()),
            };
            let state = match state {
                Operand::Name("_") => None,
                other => Some(names.written(other, Class::Long)?),
            };
            (address, MbarrierStep::Arrive { count, bytes, state })
        }
        // A hint how long to wait may follow.
        ("test_wait" | "try_wait", [d, address, phase] | [d, address, phase, _]) => {
            let phase = match parity {
                true => Phase::Parity(word(phase)?),
                false => Phase::State(names.read_long(phase, Type::B64)?),
            };
            let d = names.written(d, Class::Predicate)?;
            (address, MbarrierStep::Wait { d, phase, patient: step == "try_wait" })
        }
        _ => return Err(Fault::operands()),
    };
    Ok(Operation::Mbarrier { space, address: names.address(address)?, step })
}
