//! Matrix products of a warpgroup: `wgmma`, and `setmaxnreg` (ISA section 9.7.15).

use super::error::StatementError;
use super::matrix::formats;
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::operation::{
    AccumulatorFormat, DescribedMatrix, FactorSource, MajorDimension, MatrixElement, Operation,
    PredicateOperand, Register, RegisterSlot, WarpgroupOrder, WarpgroupProduct,
};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::Type;

/// Registers of A of a lane, for all types.
const FRAGMENT_REGISTERS: usize = 4;

/// `wgmma`
pub(super) fn warpgroup<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let step = opcode.take_any(&["mma_async", "fence", "commit_group", "wait_group"]);
    if !opcode.take("sync") || !opcode.take("aligned") {
        return Err(StatementError::new("`wgmma` needs `.sync.aligned`"));
    }
    let order = match (step, operands) {
        (Some("mma_async"), _) => return product(opcode, names, operands),
        (Some("fence"), []) => WarpgroupOrder::Fence,
        (Some("commit_group"), []) => WarpgroupOrder::Commit,
        (Some("wait_group"), [ParsedOperand::Integer(pending)]) => {
            let pending = u32::try_from(*pending).map_err(|_| StatementError::operands())?;
            WarpgroupOrder::Wait { pending }
        }
        (None, _) => {
            return Err(StatementError::new("this device does not support the instruction"));
        }
        _ => return Err(StatementError::operands()),
    };
    opcode.finish()?;
    Ok(Operation::WarpgroupOrder(order))
}

/// `setmaxnreg`, whose effect on registers this device does not have.
pub(super) fn check_register_limit(
    mut opcode: Opcode<'_>,
    operands: &[ParsedOperand<'_>],
) -> Result<(), StatementError> {
    let changes = opcode.take("inc") || opcode.take("dec");
    let aligned = opcode.take("sync") && opcode.take("aligned");
    let ty = opcode.ty()?;
    opcode.finish()?;
    if !changes || !aligned || ty != Type::U32 {
        return Err(StatementError::new("only `.inc` and `.dec` with `.sync.aligned.u32` exist"));
    }
    match operands {
        [ParsedOperand::Integer(count)] if count % 8 == 0 && (24..=256).contains(count) => Ok(()),
        _ => Err(StatementError::new("the number of registers is no multiple of 8 in 24..256")),
    }
}

/// `wgmma.mma_async`, from its shape on.
fn product<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    if opcode.take("sp") {
        return Err(StatementError::new("sparse products are not supported"));
    }
    let shape = opcode.take_map(shape);
    let saturates = opcode.take("satfinite");
    let mut ty = || {
        let ty = opcode.take_map(Type::named);
        let text = "only products of f16, bf16, tf32 and integers of 8 bits are supported";
        ty.ok_or_else(|| StatementError::new(text))
    };
    let [d, a, b] = [ty()?, ty()?, ty()?];
    opcode.finish()?;
    let (elements, accumulator) = formats([d, a, b, d], saturates)?;
    let [element, _] = elements;
    let is_integer = matches!(element, MatrixElement::S8 | MatrixElement::U8);
    // A row of A has 32 bytes.
    let wanted = 8 * element.per_register();
    let Some((columns, depth)) = shape.filter(|shape| is_shape(*shape, wanted, is_integer)) else {
        return Err(StatementError::new("the opcode has no shape that its types support"));
    };
    let [d, a, b, accumulates, immediates @ ..] = operands else {
        return Err(StatementError::operands());
    };
    let in_registers = matches!(a, ParsedOperand::Vector(_));
    let Immediates { negated, majors } = immediates_of(immediates, element, in_registers)?;
    let count = match accumulator {
        AccumulatorFormat::F16 => columns / 4,
        AccumulatorFormat::F32 | AccumulatorFormat::S32 { .. } => columns / 2,
    };
    let accumulates: PredicateOperand = names.test(accumulates)?;
    let a = if in_registers {
        let read =
            |names: &mut NameTable<'a>, part: &ParsedOperand<'a>| names.read(part, Type::B32);
        FactorSource::Registers(registers(names, a, FRAGMENT_REGISTERS, read)?)
    } else {
        let descriptor = names.read_long(a, Type::B64)?;
        FactorSource::Shared(DescribedMatrix { descriptor, major: majors[0] })
    };
    let descriptor = names.read_long(b, Type::B64)?;
    let b = DescribedMatrix { descriptor, major: majors[1] };
    let d = registers(names, d, count, |names, part| names.written_any(part))?;
    let c = d.clone();
    Ok(Operation::WarpgroupProduct(Box::new(WarpgroupProduct {
        elements,
        accumulator,
        columns,
        depth,
        d,
        c,
        a,
        b,
        accumulates,
        negated,
    })))
}

/// N and K of `m64nNkK`.
fn shape(text: &str) -> Option<(usize, usize)> {
    let (columns, depth) = text.strip_prefix("m64n")?.split_once('k')?;
    Some((columns.parse().ok()?, depth.parse().ok()?))
}

/// Whether a product has the shape (ISA: matrix shape of `wgmma`).
fn is_shape((columns, depth): (usize, usize), wanted: usize, is_integer: bool) -> bool {
    let fits = match is_integer {
        true => columns % 16 == 0 || columns == 8 || columns == 24,
        false => columns % 8 == 0,
    };
    depth == wanted && fits && (8..=256).contains(&columns)
}

struct Immediates {
    negated: [bool; 2],
    majors: [MajorDimension; 2],
}

/// The operands after `scale-d`: signs of A and B for floating-point formats, then transpositions for those of 16
/// bits, the one of A only where A is in shared memory.
fn immediates_of(
    operands: &[ParsedOperand<'_>],
    element: MatrixElement,
    in_registers: bool,
) -> Result<Immediates, StatementError> {
    let sign = |operand: &ParsedOperand<'_>| match operand {
        ParsedOperand::Integer(1) => Ok(false),
        ParsedOperand::Integer(-1) => Ok(true),
        _ => Err(StatementError::new("the scale of a factor is neither 1 nor -1")),
    };
    let major = |operand: &ParsedOperand<'_>| match operand {
        ParsedOperand::Integer(0) => Ok(MajorDimension::Depth),
        ParsedOperand::Integer(1) => Ok(MajorDimension::Outer),
        _ => Err(StatementError::new("a transposition is neither 0 nor 1")),
    };
    let plain = [MajorDimension::Depth; 2];
    let (negated, majors) = match (element, operands) {
        (MatrixElement::S8 | MatrixElement::U8, []) => ([false; 2], plain),
        (MatrixElement::Tf32, [a, b]) => ([sign(a)?, sign(b)?], plain),
        (MatrixElement::F16 | MatrixElement::Bf16, [a, b, of_b]) if in_registers => {
            ([sign(a)?, sign(b)?], [MajorDimension::Depth, major(of_b)?])
        }
        (MatrixElement::F16 | MatrixElement::Bf16, [a, b, of_a, of_b]) if !in_registers => {
            ([sign(a)?, sign(b)?], [major(of_a)?, major(of_b)?])
        }
        _ => return Err(StatementError::operands()),
    };
    Ok(Immediates { negated, majors })
}

/// Slots of a vector of `count` registers of 32 bits, which may be longer than that of a load.
fn registers<'a>(
    names: &mut NameTable<'a>,
    operand: &ParsedOperand<'a>,
    count: usize,
    slot: impl Fn(&mut NameTable<'a>, &ParsedOperand<'a>) -> Result<Register, StatementError>,
) -> Result<Vec<RegisterSlot>, StatementError> {
    let ParsedOperand::Vector(parts) = operand else { return Err(StatementError::operands()) };
    if parts.len() != count {
        let text = format!("an operand has {} registers, not {count}", parts.len());
        return Err(StatementError::new(text));
    }
    let word = |part| match slot(names, part)? {
        Register::Word(slot) => Ok(slot),
        Register::Long(_) => Err(StatementError::new("a fragment needs registers of 32 bits")),
    };
    parts.iter().map(word).collect()
}
