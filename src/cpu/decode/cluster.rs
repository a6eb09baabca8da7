//! Addresses in the shared memory of a cluster's blocks: `mapa` and `getctarank`.

use super::error::StatementError;
use super::lane_functions::{LaneValue, lanes};
use super::lane_operation::{Long2, Word1, Word2};
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::layout::{CLUSTER_END, MAX_CLUSTER, SHARED_WINDOW, WINDOW_BYTES};
use crate::cpu::operation::{Longs, Operation, Register, Words};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::{Class, Type};

/// Form of the addresses of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressForm {
    Cluster,
    Generic,
}

/// `mapa`
pub(super) fn map_address<'a>(
    opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Vec<Operation>, StatementError> {
    let [d, a, rank] = operands else { return Err(StatementError::operands()) };
    let (addresses, a, mut operations) = address_taken(opcode, names, a)?;
    let b = names.read_word(rank, Type::U32)?;
    operations.push(match (a, names.written_any(d)?, addresses) {
        (Register::Word(a), Register::Word(d), AddressForm::Cluster) => {
            let run: Word2 = lanes!(|a: u32, rank: u32| mapped(a.into(), rank) as u32);
            Operation::Word2 { run, d, a, b }
        }
        (Register::Word(a), Register::Word(d), AddressForm::Generic) => {
            let run: Word2 = lanes!(|a: u32, rank: u32| mapped_generic(a.into(), rank) as u32);
            Operation::Word2 { run, d, a, b }
        }
        (Register::Long(a), Register::Long(d), AddressForm::Cluster) => {
            Operation::Shift { run: lanes!(|a: u64, rank: u32| mapped(a, rank)), d, a, b }
        }
        (Register::Long(a), Register::Long(d), AddressForm::Generic) => {
            Operation::Shift { run: lanes!(|a: u64, rank: u32| mapped_generic(a, rank)), d, a, b }
        }
        _ => return Err(StatementError::new("the result and the address differ in size")),
    });
    Ok(operations)
}

/// `getctarank`
pub(super) fn rank_of_address<'a>(
    opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Vec<Operation>, StatementError> {
    let [d, a] = operands else { return Err(StatementError::operands()) };
    let (addresses, a, mut operations) = address_taken(opcode, names, a)?;
    let d = names.written(d, Class::Word)?;
    let window = names.scratch();
    operations.push(match (a, addresses) {
        (Register::Word(a), AddressForm::Cluster) => {
            Operation::Word1 { run: lanes!(|a: u32| window_of(a.into())), d: window, a }
        }
        (Register::Word(a), AddressForm::Generic) => {
            let run: Word1 = lanes!(|a: u32| window_of(u64::from(a).wrapping_sub(SHARED_WINDOW)));
            Operation::Word1 { run, d: window, a }
        }
        (Register::Long(a), AddressForm::Cluster) => {
            Operation::Narrow1 { run: lanes!(|a: u64| window_of(a)), d: window, a }
        }
        (Register::Long(a), AddressForm::Generic) => {
            let run: fn(&Longs) -> Words =
                lanes!(|a: u64| window_of(a.wrapping_sub(SHARED_WINDOW)));
            Operation::Narrow1 { run, d: window, a }
        }
    });
    let own = names.read_word(&ParsedOperand::Name("%cluster_ctarank"), Type::U32)?;
    let run: Word2 = lanes!(|window: u32, own: u32| window.checked_sub(1).unwrap_or(own));
    operations.push(Operation::Word2 { run, d, a: window, b: own });
    Ok(operations)
}

/// The address operand, its form, and the operations that compute it.
fn address_taken<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operand: &ParsedOperand<'a>,
) -> Result<(AddressForm, Register, Vec<Operation>), StatementError> {
    let addresses =
        if opcode.take("shared::cluster") { AddressForm::Cluster } else { AddressForm::Generic };
    let ty = opcode.ty()?;
    if !matches!(ty, Type::U32 | Type::U64) {
        return Err(StatementError::ty());
    }
    opcode.finish()?;
    let mut operations = Vec::new();
    let address = address(names, operand, ty, &mut operations)?;
    Ok((addresses, address, operations))
}

/// An address: a register or a variable, with an optional offset. An offset to a register takes an
/// operation of its own.
fn address<'a>(
    names: &mut NameTable<'a>,
    operand: &ParsedOperand<'a>,
    ty: Type,
    operations: &mut Vec<Operation>,
) -> Result<Register, StatementError> {
    let (base, offset) = match operand {
        ParsedOperand::Sum(name, offset) if names.is_register(name) => {
            (ParsedOperand::Name(name), *offset)
        }
        _ => (operand.clone(), 0),
    };
    let fits = |register: &Register| matches!(register, Register::Long(_)) == (ty == Type::U64);
    let base = names.read(&base, ty)?;
    if !fits(&base) {
        return Err(StatementError::new("the address does not have the size of the opcode's type"));
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

/// The same offset in the shared memory of the block of a rank. Addresses outside of shared memory
/// are returned unchanged.
fn mapped(address: u64, rank: u32) -> u64 {
    if address >= CLUSTER_END {
        return address;
    }
    address % WINDOW_BYTES + (u64::from(rank.min(MAX_CLUSTER)) + 1) * WINDOW_BYTES
}

fn mapped_generic(address: u64, rank: u32) -> u64 {
    mapped(address.wrapping_sub(SHARED_WINDOW), rank).wrapping_add(SHARED_WINDOW)
}

/// Window of an address: 0 for the own block, then one for each rank.
fn window_of(address: u64) -> u32 {
    (address.min(CLUSTER_END) / WINDOW_BYTES) as u32
}
