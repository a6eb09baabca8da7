//! Dispatch of opcodes to their decoders, and the instruction class of each operation.

use super::error::StatementError;
use super::name_table::NameTable;
use super::opcode::Opcode;
use super::{
    arithmetic, async_copy, atomic, barriers, bits, cluster, compare, convert, floating, matrix,
    mbarrier, memory, moves, warp, warpgroup,
};
use crate::cpu::counts::InstructionClass;
use crate::cpu::operation::{MatrixDirection, Operation};
use crate::cpu::parse::{Instruction, ParsedOperand};
use crate::cpu::types::{Space, Type};

/// Decodes an instruction other than a branch. Branches need all labels.
pub(super) fn decode<'a>(
    instruction: &Instruction<'a>,
    names: &mut NameTable<'a>,
) -> Result<Vec<Operation>, StatementError> {
    let opcode = Opcode::new(instruction.opcode);
    let operands: &[ParsedOperand<'a>] = &instruction.operands;
    one(opcode, names, operands)
}

fn one<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Vec<Operation>, StatementError> {
    let operation = match opcode.base {
        "add" | "sub" | "min" | "max" | "abs" | "neg" | "div" | "rem" | "mul" | "mad" => {
            let ty = opcode.ty()?;
            if ty.is_float() {
                return floating::floating(opcode, ty, names, operands);
            }
            match opcode.base {
                "mul" | "mad" => arithmetic::multiply(opcode, ty, names, operands),
                _ => arithmetic::integer(opcode, ty, names, operands),
            }
        }
        "fma" | "copysign" | "sqrt" | "rsqrt" | "rcp" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => {
            let ty = opcode.ty()?;
            return floating::floating(opcode, ty, names, operands);
        }
        "sad" => {
            let ty = opcode.ty()?;
            arithmetic::distance(opcode, ty, names, operands)
        }
        "dp4a" | "dp2a" => arithmetic::dot_product(opcode, names, operands),
        "bfind" => bits::find_bit(opcode, names, operands),
        "and" | "or" | "xor" | "not" | "cnot" | "popc" | "clz" | "brev" => {
            let ty = opcode.ty()?;
            if ty == Type::Predicate {
                compare::logic(opcode, names, operands)
            } else {
                bits::bits(opcode, ty, names, operands)
            }
        }
        "shl" | "shr" => {
            let ty = opcode.ty()?;
            bits::shift(opcode, ty, names, operands)
        }
        "shf" => bits::funnel_shift(opcode, names, operands),
        "prmt" => bits::permute(opcode, names, operands),
        "lop3" => return bits::logic3(opcode, names, operands),
        "bfe" | "bfi" => return bits::bit_field(opcode, names, operands),
        "mov" => moves::copy(opcode, names, operands),
        "selp" => moves::select(opcode, names, operands),
        "cvt" => return convert::convert(opcode, names, operands),
        "cvta" => convert::convert_address(opcode, names, operands),
        "mapa" => return cluster::map_address(opcode, names, operands),
        "getctarank" => return cluster::rank_of_address(opcode, names, operands),
        "setp" => compare::set_predicate(opcode, names, operands),
        "set" => return compare::set(opcode, names, operands),
        "ld" | "ldu" => memory::load(opcode, names, operands),
        "st" => memory::store(opcode, names, operands),
        "createpolicy" => memory::create_policy(names, operands),
        "atom" | "red" => return atomic::atomic(opcode, names, operands),
        "cp" => return async_copy::copy_async(opcode, names, operands),
        "mbarrier" => mbarrier::mbarrier(opcode, names, operands),
        "ldmatrix" | "stmatrix" => matrix::matrix_move(opcode, names, operands),
        "bar" | "barrier" => barriers::barrier(opcode, names, operands),
        "membar" | "fence" => barriers::fence(opcode),
        "shfl" => warp::shuffle(opcode, names, operands),
        "vote" => warp::vote(opcode, names, operands),
        "redux" => warp::reduce(opcode, names, operands),
        "match" => warp::match_values(opcode, names, operands),
        "elect" => warp::elect(opcode, names, operands),
        "activemask" => warp::active_mask(opcode, names, operands),
        "mma" => matrix::matrix_product(opcode, names, operands),
        "wgmma" => warpgroup::warpgroup(opcode, names, operands),
        "setmaxnreg" => {
            // Warps of this device do not share registers.
            warpgroup::check_register_limit(opcode, operands)?;
            return Ok(Vec::new());
        }
        "ret" | "exit" => {
            opcode.take("uni");
            opcode.finish()?;
            Ok(Operation::Exit)
        }
        "trap" | "brkpt" => {
            opcode.finish()?;
            Ok(Operation::Trap)
        }
        "nanosleep" => Ok(Operation::Sleep),
        "griddepcontrol" => {
            let waits = opcode.take("wait");
            let known = waits || opcode.take("launch_dependents");
            opcode.finish()?;
            match (waits, known) {
                (true, _) => Ok(Operation::LaunchWait),
                // A hint. Launches of this device run in turn.
                (false, true) => return Ok(Vec::new()),
                (false, false) => Err(StatementError::operands()),
            }
        }
        // Hints without effect: no caches.
        "prefetch" | "prefetchu" | "discard" | "applypriority" => return Ok(Vec::new()),
        _ => Err(StatementError::new("this device does not support the instruction")),
    };
    Ok(vec![operation?])
}

/// Instruction class of an operation.
pub(super) fn class(operation: &Operation, opcode: &str) -> InstructionClass {
    use InstructionClass as Of;
    match operation {
        Operation::Load { space, .. } => match space {
            Space::Global | Space::Generic => Of::GlobalLoad,
            Space::Shared | Space::Cluster => Of::SharedLoad,
            Space::Local | Space::Constant | Space::Parameter => Of::OtherMemory,
        },
        Operation::Store { space, .. } => match space {
            Space::Global | Space::Generic => Of::GlobalStore,
            Space::Shared | Space::Cluster => Of::SharedStore,
            Space::Local | Space::Constant | Space::Parameter => Of::OtherMemory,
        },
        Operation::MatrixMove(moved) => match moved.direction {
            MatrixDirection::Load => Of::SharedLoad,
            MatrixDirection::Store => Of::SharedStore,
        },
        Operation::Atomic { .. } => Of::Atomic,
        Operation::Copy { .. } | Operation::TensorCopy(_) | Operation::TensorStore(_) => {
            Of::AsyncCopy
        }
        Operation::StoreCommit | Operation::StoreWait { .. } => Of::Barrier,
        Operation::MatrixProduct(_) | Operation::WarpgroupProduct(_) => Of::Matrix,
        Operation::WarpgroupOrder(_) => Of::Barrier,
        Operation::Shuffle { .. } | Operation::Vote { .. } | Operation::ActiveMask { .. } => {
            Of::Warp
        }
        Operation::Reduce { .. } | Operation::Match { .. } | Operation::Elect { .. } => Of::Warp,
        Operation::Barrier { .. } | Operation::ClusterBarrier(_) => Of::Barrier,
        Operation::WarpBarrier | Operation::Fence | Operation::ProxyFence => Of::Barrier,
        Operation::Mbarrier { .. } => Of::Barrier,
        Operation::CopyCommit | Operation::CopyWait { .. } | Operation::Sleep => Of::Barrier,
        Operation::Branch { .. } | Operation::Exit | Operation::Trap => Of::Control,
        Operation::LaunchWait => Of::Control,
        _ if opcode.starts_with("fma.") && opcode.ends_with(".f32") => Of::Fma,
        _ => {
            let mut parts = opcode.split('.');
            let moves = matches!(parts.next(), Some("mov" | "selp" | "cvt" | "cvta" | "setp"));
            let floats = parts.any(|part| Type::named(part).is_some_and(Type::is_float));
            if floats && !moves { Of::Float } else { Of::Integer }
        }
    }
}
