//! Moves, selections and conversions (ISA sections 9.7.7 and 9.7.9).

use super::Fault;
use super::arithmetic::{Compute, Long1, Word1, Word2, computing};
use super::floating::pack;
use super::lanes::{Lane, lanes};
use super::names::Names;
use super::opcode::Opcode;
use crate::cpu::numeric::Rounding;
use crate::cpu::numeric::convert::{Conversion, Integral, Range, Subnormals};
use crate::cpu::numeric::float::{BF16, F16};
use crate::cpu::operation::{Longs, Operation, Register, Slot, Test, Vector, Words};
use crate::cpu::parse::Operand;
use crate::cpu::types::{Class, Type};

/// Copies of slots.
const COPY_WORD: Word1 = |a| *a;
const COPY_LONG: Long1 = |a| *a;

/// `mov`, which also packs and unpacks vectors (ISA section 9.7.9.3).
pub(super) fn copy<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a] = operands else { return Err(Fault::operands()) };
    if let (Operand::Vector(parts), Operand::Name(_)) = (a, d) {
        let bits = part_bits(ty, parts.len())?;
        let parts = names.vector(a, |names, part| names.read(part, part_type(bits)))?;
        return Ok(Operation::Pack { bits, d: names.written_any(d)?, parts });
    }
    if let Operand::Vector(parts) = d {
        let bits = part_bits(ty, parts.len())?;
        let a = names.read(a, ty)?;
        let parts = names.vector(d, |names, part| names.written_any(part))?;
        return Ok(Operation::Unpack { bits, parts, a });
    }
    match (ty.class(), a) {
        (Class::Predicate, _) => {
            let a = names.test(a)?;
            Ok(Operation::PredicateMove { d: names.written(d, Class::Predicate)?, a })
        }
        (_, Operand::Name("%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo")) => {
            Ok(Operation::Clock { d: names.written_any(d)?, shift: 0 })
        }
        (_, Operand::Name("%clock_hi" | "%globaltimer_hi")) => {
            Ok(Operation::Clock { d: names.written_any(d)?, shift: 32 })
        }
        (Class::Word, _) => computing(names, ty, operands, Compute::Word1(COPY_WORD)),
        (Class::Long, _) => computing(names, ty, operands, Compute::Long1(COPY_LONG)),
    }
}

fn part_bits(ty: Type, parts: usize) -> Result<u32, Fault> {
    match (ty.bytes(), parts) {
        (8, 2) => Ok(32),
        (8, 4) | (4, 2) => Ok(16),
        (4, 4) | (2, 2) => Ok(8),
        _ => Err(Fault::new("the parts do not make up the whole")),
    }
}

fn part_type(bits: u32) -> Type {
    match bits {
        32 => Type::B32,
        16 => Type::B16,
        _ => Type::B8,
    }
}

/// `selp`
pub(super) fn select<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    let ty = opcode.ty()?;
    opcode.finish()?;
    let [d, a, b, test] = operands else { return Err(Fault::operands()) };
    let Test { slot: test, negated } = names.test(test)?;
    let (a, b) = if negated { (b, a) } else { (a, b) };
    match ty.class() {
        Class::Long => {
            let (a, b) = (names.read_long(a, ty)?, names.read_long(b, ty)?);
            Ok(Operation::LongSelect { d: names.written(d, Class::Long)?, a, b, test })
        }
        _ => {
            let (a, b) = (names.read_word(a, ty)?, names.read_word(b, ty)?);
            Ok(Operation::WordSelect { d: names.written(d, Class::Word)?, a, b, test })
        }
    }
}

/// `cvt` from one type to another; the common ones have functions of their own.
pub(super) fn convert<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Vec<Operation>, Fault> {
    let subnormals = if opcode.take("ftz") { Subnormals::Flushed } else { Subnormals::Kept };
    let range = if opcode.take("sat") {
        Range::Saturate
    } else if opcode.take("relu") {
        Range::Positive
    } else {
        Range::Natural
    };
    let whole = opcode.take_map(|part| {
        Some(match part {
            "rni" => Rounding::NearestEven,
            "rzi" => Rounding::Zero,
            "rmi" => Rounding::Down,
            "rpi" => Rounding::Up,
            _ => return None,
        })
    });
    let rounding = whole.unwrap_or_else(|| opcode.rounding());
    let integral = if whole.is_some() { Integral::Yes } else { Integral::No };
    let (to, from) = (opcode.ty()?, opcode.ty()?);
    opcode.finish()?;
    if let (Type::F16x2 | Type::Bf16x2, [d, high, low]) = (to, operands) {
        let to = if to == Type::F16x2 { Type::F16 } else { Type::Bf16 };
        let how = Conversion { to, from, rounding, integral, range, subnormals };
        return convert_pair(names, how, d, high, low);
    }
    if to == Type::F64
        && from.bytes() == 8
        && rounding != Rounding::NearestEven
        && integral == Integral::No
    {
        return Err(Fault::new("only `.rn` is executed for f64"));
    }
    let [d, a] = operands else { return Err(Fault::operands()) };
    let (a, d) = (names.read(a, from)?, names.written_any(d)?);
    let how = Conversion { to, from, rounding, integral, range, subnormals };
    let plain = range == Range::Natural && subnormals == Subnormals::Kept;
    let fast = fast_conversion(how, d, a).filter(|_| plain);
    Ok(vec![fast.unwrap_or(Operation::Convert { how, d, a })])
}

fn fast_conversion(how: Conversion, d: Register, a: Register) -> Option<Operation> {
    use Register::{Long, Word};
    use Type::{F32, F64, S32, S64, U32, U64};
    let nearest = how.rounding == Rounding::NearestEven && how.integral == Integral::No;
    let narrow =
        |d: Slot, a: Slot, run: fn(&Longs) -> Words| Some(Operation::Narrow1 { run, d, a });
    let widen = |d: Slot, a: Slot, run: fn(&Words) -> Longs| Some(Operation::Widen1 { run, d, a });
    match (how.to, how.from, d, a) {
        (S64 | U64, S32, Long(d), Word(a)) => widen(d, a, lanes!(|a: i32| i64::from(a))),
        (S64 | U64, U32, Long(d), Word(a)) => widen(d, a, lanes!(|a: u32| u64::from(a))),
        (S32 | U32, S64 | U64, Word(d), Long(a)) => narrow(d, a, lanes!(|a: u64| a as u32)),
        (F64, F32, Long(d), Word(a)) => widen(d, a, lanes!(|a: f32| f64::from(a))),
        (F64, S32, Long(d), Word(a)) => widen(d, a, lanes!(|a: i32| f64::from(a))),
        (F32, F64, Word(d), Long(a)) if nearest => narrow(d, a, lanes!(|a: f64| a as f32)),
        (F32, S32, Word(d), Word(a)) if nearest => {
            Some(Operation::Word1 { run: lanes!(|a: i32| a as f32), d, a })
        }
        (F32, U32, Word(d), Word(a)) if nearest => {
            Some(Operation::Word1 { run: lanes!(|a: u32| a as f32), d, a })
        }
        _ => None,
    }
}

/// `cvt.rn.f16x2.f32 d, high, low`
fn convert_pair<'a>(
    names: &mut Names<'a>,
    how: Conversion,
    d: &Operand<'a>,
    high: &Operand<'a>,
    low: &Operand<'a>,
) -> Result<Vec<Operation>, Fault> {
    if how.from != Type::F32 || how.subnormals == Subnormals::Flushed {
        return Err(Fault::ty());
    }
    let (high, low) = (names.read_word(high, Type::F32)?, names.read_word(low, Type::F32)?);
    let d = names.written(d, Class::Word)?;
    if (how.rounding, how.range) == (Rounding::NearestEven, Range::Natural) {
        let run: Word2 = match how.to {
            Type::F16 => lanes!(|high: f32, low: f32| pack(F16, high.into(), low.into())),
            _ => lanes!(|high: f32, low: f32| pack(BF16, high.into(), low.into())),
        };
        return Ok(vec![Operation::Word2 { run, d, a: high, b: low }]);
    }
    let [upper, lower] = [names.scratch(), names.scratch()].map(Register::Word);
    let parts = Vector::of(&[Some(lower), Some(upper)]);
    Ok(vec![
        Operation::Convert { how, d: upper, a: Register::Word(high) },
        Operation::Convert { how, d: lower, a: Register::Word(low) },
        Operation::Pack { bits: 16, d: Register::Word(d), parts },
    ])
}

/// `cvta` (ISA section 9.7.9.22): windows of shared and local memory lie at fixed places among
/// generic addresses, global memory at its own address.
pub(super) fn convert_address<'a>(
    mut opcode: Opcode<'a>,
    names: &mut Names<'a>,
    operands: &[Operand<'a>],
) -> Result<Operation, Fault> {
    use crate::cpu::layout::{LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW};
    use crate::cpu::types::Space;
    let to_space = opcode.take("to");
    let space = opcode.take_map(Space::named).ok_or_else(|| Fault::new("it names no space"))?;
    let ty = opcode.ty()?;
    opcode.finish()?;
    let base: fn(&Longs) -> Longs = match (space, to_space) {
        (Space::Global | Space::Constant, _) => COPY_LONG,
        (Space::Parameter, false) => lanes!(|a: u64| a.wrapping_add(PARAMETER_WINDOW)),
        (Space::Parameter, true) => lanes!(|a: u64| a.wrapping_sub(PARAMETER_WINDOW)),
        (Space::Shared | Space::Cluster, false) => lanes!(|a: u64| a.wrapping_add(SHARED_WINDOW)),
        (Space::Shared | Space::Cluster, true) => lanes!(|a: u64| a.wrapping_sub(SHARED_WINDOW)),
        (Space::Local, false) => lanes!(|a: u64| a.wrapping_add(LOCAL_WINDOW)),
        (Space::Local, true) => lanes!(|a: u64| a.wrapping_sub(LOCAL_WINDOW)),
        (Space::Generic, _) => return Err(Fault::new("it names no space")),
    };
    computing(names, ty, operands, Compute::Long1(base))
}
