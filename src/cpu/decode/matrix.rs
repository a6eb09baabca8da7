//! Matrix instructions: `mma`, `ldmatrix` and `stmatrix` (ISA section 9.7.14.5).

use super::error::StatementError;
use super::memory::check_length;
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::operation::{
    AccumulatorFormat, MatrixDirection, MatrixElement, MatrixMove, MatrixProduct, Operation,
    Register, RegisterSlot, Vector,
};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::Type;

/// `mma.sync` of 16 x 8 fragments, and of 8 x 8 of 8-bit integers.
pub(super) fn matrix_product<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let usual =
        opcode.take("sync") && opcode.take("aligned") && opcode.take("row") && opcode.take("col");
    let shape = opcode.take_any(&["m8n8k16", "m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32"]);
    let saturates = opcode.take("satfinite");
    let types = [opcode.ty()?, opcode.ty()?, opcode.ty()?, opcode.ty()?];
    opcode.finish()?;
    if !usual {
        return Err(StatementError::new(
            "only `mma.sync.aligned` with `row.col` operands is supported",
        ));
    }
    let (elements, accumulator) = formats(types, saturates)?;
    let [element, _] = elements;
    let rows = if shape == Some("m8n8k16") { 8 } else { 16 };
    let depth = match (element, shape) {
        (MatrixElement::Tf32, Some("m16n8k4")) => 4,
        (MatrixElement::Tf32 | MatrixElement::F16 | MatrixElement::Bf16, Some("m16n8k8")) => 8,
        (
            MatrixElement::F16 | MatrixElement::Bf16 | MatrixElement::S8 | MatrixElement::U8,
            Some("m16n8k16"),
        )
        | (MatrixElement::S8 | MatrixElement::U8, Some("m8n8k16")) => 16,
        (MatrixElement::S8 | MatrixElement::U8, Some("m16n8k32")) => 32,
        _ => return Err(StatementError::new("the opcode has no shape that its types support")),
    };
    let [d, a, b, c] = operands else { return Err(StatementError::operands()) };
    // Elements per register. It determines the registers of a lane's share of rows x depth and depth
    // x 8.
    let packed = element.per_register();
    let (sum_registers, sum_type) = match accumulator {
        AccumulatorFormat::F32 => (4, Type::F32),
        AccumulatorFormat::F16 => (2, Type::F32),
        AccumulatorFormat::S32 { .. } => (rows * 8 / 32, Type::S32),
    };
    let read = |names: &mut NameTable<'a>, operand: &ParsedOperand<'a>, ty, count: usize| {
        let registers = words(names.vector(operand, |names, part| names.read(part, ty))?)?;
        if registers.len() == count { Ok(registers) } else { Err(StatementError::operands()) }
    };
    let a = read(names, a, Type::B32, rows * depth / 32 / packed)?;
    let b = read(names, b, Type::B32, 8 * depth / 32 / packed)?;
    let c = read(names, c, sum_type, sum_registers)?;
    let d = words(names.vector(d, |names, part| names.written_any(part))?)?;
    if d.len() != sum_registers {
        return Err(StatementError::operands());
    }
    Ok(Operation::MatrixProduct(Box::new(MatrixProduct {
        elements,
        depth,
        d,
        a,
        b,
        c,
        accumulator,
    })))
}

/// Elements of A and B, and the format of the sums, by the types of D, A, B and C.
pub(super) fn formats(
    [d, a, b, c]: [Type; 4],
    saturates: bool,
) -> Result<([MatrixElement; 2], AccumulatorFormat), StatementError> {
    let element = |ty| match ty {
        Type::F16 => Some(MatrixElement::F16),
        Type::Bf16 => Some(MatrixElement::Bf16),
        Type::Tf32 => Some(MatrixElement::Tf32),
        Type::S8 => Some(MatrixElement::S8),
        Type::U8 => Some(MatrixElement::U8),
        _ => None,
    };
    let (Some(of_a), Some(of_b)) = (element(a), element(b)) else {
        let text = "only products of f16, bf16, tf32 and integers of 8 bits are supported";
        return Err(StatementError::new(text));
    };
    let is_integer = |element| matches!(element, MatrixElement::S8 | MatrixElement::U8);
    let accumulator = match (d, c) {
        (Type::F32, Type::F32) if of_a == of_b && !is_integer(of_a) => AccumulatorFormat::F32,
        (Type::F16, Type::F16) if [of_a, of_b] == [MatrixElement::F16; 2] => AccumulatorFormat::F16,
        (Type::S32, Type::S32) if is_integer(of_a) && is_integer(of_b) => {
            AccumulatorFormat::S32 { saturates }
        }
        _ => return Err(StatementError::new("no product has these types of operands and sums")),
    };
    if saturates && !is_integer(of_a) {
        return Err(StatementError::new("only sums of integers saturate"));
    }
    Ok(([of_a, of_b], accumulator))
}

/// `ldmatrix` and `stmatrix` of 8 x 8 elements of 16 bits (ISA section 9.7.14.5.15).
pub(super) fn matrix_move<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let loads = opcode.base == "ldmatrix";
    let aligned = opcode.take("sync") && opcode.take("aligned") && opcode.take("m8n8");
    let count = match opcode.take_any(&["x1", "x2", "x4"]) {
        Some("x1") => 1,
        Some("x2") => 2,
        Some("x4") => 4,
        _ => return Err(StatementError::new("the opcode has no number of matrices")),
    };
    let transposed = opcode.take("trans");
    let shared = opcode.take("shared") || opcode.take("shared::cta");
    let ty = opcode.ty()?;
    opcode.finish()?;
    if !aligned || !shared || ty != Type::B16 {
        return Err(StatementError::new(
            "only 8 x 8 matrices of b16 in shared memory are supported",
        ));
    }
    let (registers, address) = match operands {
        [registers, address] if loads => (registers, address),
        [address, registers] => (registers, address),
        _ => return Err(StatementError::operands()),
    };
    let address = names.address(address)?;
    let direction = if loads { MatrixDirection::Load } else { MatrixDirection::Store };
    let vector = names.vector(registers, |names, part| match direction {
        MatrixDirection::Load => names.written_any(part),
        MatrixDirection::Store => names.read(part, Type::B32),
    })?;
    let registers = words(check_length(vector, count)?)?;
    Ok(Operation::MatrixMove(Box::new(MatrixMove { direction, transposed, address, registers })))
}

/// Slots of a vector of words.
fn words(vector: Vector) -> Result<Vec<RegisterSlot>, StatementError> {
    let word = |part: &Option<Register>| match part {
        Some(Register::Word(slot)) => Ok(*slot),
        _ => Err(StatementError::new("a fragment needs registers of 32 bits")),
    };
    vector.parts().iter().map(word).collect()
}
