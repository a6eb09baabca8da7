//! The `mbarrier` instruction.

use super::error::StatementError;
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::operation::{MbarrierOperation, Operation, PhaseOperand};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::{Class, Space, Type};

/// `mbarrier`
pub(super) fn mbarrier<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let steps = ["init", "inval", "arrive", "expect_tx", "test_wait", "try_wait"];
    let step = opcode.take_any(&steps).unwrap_or_default();
    let expects = step == "arrive" && opcode.take("expect_tx");
    let parity = opcode.take("parity");
    let space = match opcode.take_map(Space::named) {
        Some(space @ (Space::Shared | Space::Cluster)) => space,
        _ => return Err(StatementError::new("only mbarriers in `.shared` memory are supported")),
    };
    // Arrivals release and waits acquire, also without a modifier. All scopes are equal on this
    // device.
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
        return Err(StatementError::ty());
    }
    let mut word = |operand: &ParsedOperand<'a>| names.read_word(operand, Type::U32);
    let (address, step) = match (step, operands) {
        ("init", [address, count]) => (address, MbarrierOperation::Init { count: word(count)? }),
        ("inval", [address]) => (address, MbarrierOperation::Invalidate),
        ("expect_tx", [address, bytes]) => {
            (address, MbarrierOperation::Expect { bytes: word(bytes)? })
        }
        ("arrive", [state, address, others @ ..]) => {
            let (count, bytes) = match (expects, others) {
                (false, []) => (None, None),
                (false, [count]) => (Some(word(count)?), None),
                (true, [bytes]) => (None, Some(word(bytes)?)),
                _ => return Err(StatementError::operands()),
            };
            let state = match state {
                ParsedOperand::Name("_") => None,
                other => Some(names.written(other, Class::Long)?),
            };
            (address, MbarrierOperation::Arrive { count, bytes, state })
        }
        // A time limit hint may follow.
        ("test_wait" | "try_wait", [d, address, phase] | [d, address, phase, _]) => {
            let phase = match parity {
                true => PhaseOperand::Parity(word(phase)?),
                false => PhaseOperand::State(names.read_long(phase, Type::B64)?),
            };
            let d = names.written(d, Class::Predicate)?;
            (address, MbarrierOperation::Wait { d, phase, patient: step == "try_wait" })
        }
        _ => return Err(StatementError::operands()),
    };
    Ok(Operation::Mbarrier { space, address: names.address(address)?, step })
}
