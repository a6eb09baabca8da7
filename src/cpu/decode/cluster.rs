//! Clusters: their barrier, and addresses in the shared memory of their blocks (ISA:
//! `barrier.cluster`, `mapa`, `getctarank`).

use super::Fault;
use super::arithmetic::{Long2, Word1, Word2};
use super::lanes::{Lane, lanes};
use super::names::Names;
use super::opcode::Opcode;
use crate::cpu::layout::{CLUSTER_END, MAX_CLUSTER, SHARED_WINDOW, WINDOW_BYTES};
use crate::cpu::operation::{ClusterStep, Longs, Operation, Publishing, Register, Words};
use crate::cpu::parse::Operand;
use crate::cpu::types::{Class, Type};

/// What an instruction takes addresses for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Addresses {
    Cluster,
    Generic,
}

/// `barrier.cluster`
pub(super) fn barrier(
    mut opcode: Opcode<'_>,
    operands: &[Operand<'_>],
) -> Result<Operation, Fault> {
    let step = opcode.take_any(&["arrive", "wait"]);
    let order = opcode.take_any(&["release", "relaxed", "acquire"]);
    opcode.take("aligned");
    opcode.finish()?;
    if !operands.is_empty() {
        return Err(Fault::operands());
    }
    Ok(Operation::ClusterBarrier(match (step, order) {
        (Some("arrive"), None | Some("release")) => ClusterStep::Arrive(Publishing::Everything),
        (Some("arrive"), Some("relaxed")) => ClusterStep::Arrive(Publishing::Fenced),
        (Some("wait"), None | Some("acquire")) => ClusterStep::Wait,
        _ => return Err(Fault::new("only `.arrive` and `.wait` with their orders are executed")),
    }))
}

/// `mapa`
pub(super) fn map_address<'a>(
    opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Vec<Operation>, Fault> {
    let [d, a, rank] = operands else { return Err(Fault::operands()) };
    let (addresses, a, mut operations) = address_taken(opcode, names, a)?;
    let b = names.read_word(rank, Type::U32)?;
    operations.push(match (a, names.written_any(d)?, addresses) {
        (Register::Word(a), Register::Word(d), Addresses::Cluster) => {
            let run: Word2 = lanes!(|a: u32, rank: u32| mapped(a.into(), rank) as u32);
            Operation::Word2 { run, d, a, b }
        }
        (Register::Word(a), Register::Word(d), Addresses::Generic) => {
            let run: Word2 = lanes!(|a: u32, rank: u32| mapped_generic(a.into(), rank) as u32);
            Operation::Word2 { run, d, a, b }
        }
        (Register::Long(a), Register::Long(d), Addresses::Cluster) => {
            Operation::Shift { run: lanes!(|a: u64, rank: u32| mapped(a, rank)), d, a, b }
        }
        (Register::Long(a), Register::Long(d), Addresses::Generic) => {
            Operation::Shift { run: lanes!(|a: u64, rank: u32| mapped_generic(a, rank)), d, a, b }
        }
        _ => return Err(Fault::new("its result is of another size than its address")),
    });
    Ok(operations)
}

/// `getctarank`
pub(super) fn rank_of_address<'a>(
    opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Vec<Operation>, Fault> {
    let [d, a] = operands else { return Err(Fault::operands()) };
    let (addresses, a, mut operations) = address_taken(opcode, names, a)?;
    let d = names.written(d, Class::Word)?;
    let window = names.scratch();
    operations.push(match (a, addresses) {
        (Register::Word(a), Addresses::Cluster) => {
            Operation::Word1 { run: lanes!(|a: u32| window_of(a.into())), d: window, a }
        }
        (Register::Word(a), Addresses::Generic) => {
            let run: Word1 = lanes!(|a: u32| window_of(u64::from(a).wrapping_sub(SHARED_WINDOW)));
            Operation::Word1 { run, d: window, a }
        }
        (Register::Long(a), Addresses::Cluster) => {
            Operation::Narrow1 { run: lanes!(|a: u64| window_of(a)), d: window, a }
        }
        (Register::Long(a), Addresses::Generic) => {
            let run: fn(&Longs) -> Words =
                lanes!(|a: u64| window_of(a.wrapping_sub(SHARED_WINDOW)));
            Operation::Narrow1 { run, d: window, a }
        }
    });
    let own = names.read_word(&Operand::Name("%cluster_ctarank"), Type::U32)?;
    let run: Word2 = lanes!(|window: u32, own: u32| window.checked_sub(1).unwrap_or(own));
    operations.push(Operation::Word2 { run, d, a: window, b: own });
    Ok(operations)
}

/// The address that an instruction takes, what it takes it for, and what computes it.
fn address_taken<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operand: &Operand<'a>,
) -> Result<(Addresses, Register, Vec<Operation>), Fault> {
    let addresses =
        if opcode.take("shared::cluster") { Addresses::Cluster } else { Addresses::Generic };
    let ty = opcode.ty()?;
    if !matches!(ty, Type::U32 | Type::U64) {
        return Err(Fault::ty());
    }
    opcode.finish()?;
    let mut operations = Vec::new();
    let address = address(names, operand, ty, &mut operations)?;
    Ok((addresses, address, operations))
}

/// An address: a register, a variable, or either and an offset, which for a register takes an
/// operation of its own.
fn address<'a>(
    names: &mut Names<'a>,
    operand: &Operand<'a>,
    ty: Type,
    operations: &mut Vec<Operation>,
) -> Result<Register, Fault> {
    let (base, offset) = match operand {
        Operand::Sum(name, offset) if names.is_register(name) => (Operand::Name(name), *offset),
        _ => (operand.clone(), 0),
    };
    let fits = |register: &Register| matches!(register, Register::Long(_)) == (ty == Type::U64);
    let base = names.read(&base, ty)?;
    if !fits(&base) {
        return Err(Fault::new("its address is of another size than it names"));
    }
    if offset == 0 {
        return Ok(base);
    }
    Ok(match base {
        Register::Word(a) => {
            let (d, b) = (names.scratch(), names.word(offset as u32));
            let run: Word2 = lanes!(|a: u32, b: u32| a.wrapping_add(b));
            operations.push(Operation::Word2 { run, d, a, b });
            Register::Word(d)
        }
        Register::Long(a) => {
            let (d, b) = (names.scratch_long(), names.long(offset.cast_unsigned()));
            let run: Long2 = lanes!(|a: u64, b: u64| a.wrapping_add(b));
            operations.push(Operation::Long2 { run, d, a, b });
            Register::Long(d)
        }
    })
}

/// The same place in the shared memory of the block of a rank. What is no address of shared memory
/// stays what it is.
fn mapped(address: u64, rank: u32) -> u64 {
    if address >= CLUSTER_END {
        return address;
    }
    address % WINDOW_BYTES + (u64::from(rank.min(MAX_CLUSTER)) + 1) * WINDOW_BYTES
}

fn mapped_generic(address: u64, rank: u32) -> u64 {
    mapped(address.wrapping_sub(SHARED_WINDOW), rank).wrapping_add(SHARED_WINDOW)
}

/// The window of an address: 0 for that of the own block, then one for each rank.
fn window_of(address: u64) -> u32 {
    (address.min(CLUSTER_END) / WINDOW_BYTES) as u32
}
