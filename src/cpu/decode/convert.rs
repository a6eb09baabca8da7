//! Conversions of values and addresses: `cvt` and `cvta` (ISA section 9.7.9).

use super::error::StatementError;
use super::lane_functions::{LaneValue, lanes};
use super::lane_operation::{LaneFunction, Word2, lane_operation};
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::layout::{LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW};
use crate::cpu::numeric::Rounding;
use crate::cpu::numeric::convert::{Conversion, Integral, ResultRange, Subnormals};
use crate::cpu::numeric::float::pack;
use crate::cpu::numeric::float::{BF16, F16};
use crate::cpu::operation::{Longs, Operation, Register, RegisterSlot, Vector, Words};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::{Class, Space, Type};

/// `cvt`; common conversions use lane functions of their own.
pub(super) fn convert<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Vec<Operation>, StatementError> {
    let subnormals = if opcode.take("ftz") { Subnormals::Flushed } else { Subnormals::Kept };
    let range = if opcode.take("sat") {
        ResultRange::Saturate
    } else if opcode.take("relu") {
        ResultRange::Positive
    } else {
        ResultRange::Natural
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
        return Err(StatementError::new("only `.rn` is supported for f64"));
    }
    let [d, a] = operands else { return Err(StatementError::operands()) };
    let (a, d) = (names.read(a, from)?, names.written_any(d)?);
    let how = Conversion { to, from, rounding, integral, range, subnormals };
    let plain = range == ResultRange::Natural && subnormals == Subnormals::Kept;
    let fast = fast_conversion(how, d, a).filter(|_| plain);
    Ok(vec![fast.unwrap_or(Operation::Convert { how, d, a })])
}

fn fast_conversion(how: Conversion, d: Register, a: Register) -> Option<Operation> {
    use Register::{Long, Word};
    use Type::{F32, F64, S32, S64, U32, U64};
    let nearest = how.rounding == Rounding::NearestEven && how.integral == Integral::No;
    let narrow = |d: RegisterSlot, a: RegisterSlot, run: fn(&Longs) -> Words| {
        Some(Operation::Narrow1 { run, d, a })
    };
    let widen = |d: RegisterSlot, a: RegisterSlot, run: fn(&Words) -> Longs| {
        Some(Operation::Widen1 { run, d, a })
    };
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
    names: &mut NameTable<'a>,
    how: Conversion,
    d: &ParsedOperand<'a>,
    high: &ParsedOperand<'a>,
    low: &ParsedOperand<'a>,
) -> Result<Vec<Operation>, StatementError> {
    if how.from != Type::F32 || how.subnormals == Subnormals::Flushed {
        return Err(StatementError::ty());
    }
    let (high, low) = (names.read_word(high, Type::F32)?, names.read_word(low, Type::F32)?);
    let d = names.written(d, Class::Word)?;
    if (how.rounding, how.range) == (Rounding::NearestEven, ResultRange::Natural) {
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

/// `cvta` (ISA section 9.7.9.22). The windows of shared and local memory have fixed generic
/// addresses; global memory keeps its own.
pub(super) fn convert_address<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let to_space = opcode.take("to");
    let space = opcode
        .take_map(Space::named)
        .ok_or_else(|| StatementError::new("the opcode has no space"))?;
    let ty = opcode.ty()?;
    opcode.finish()?;
    let base: fn(&Longs) -> Longs = match (space, to_space) {
        (Space::Global | Space::Constant, _) => |a| *a,
        (Space::Parameter, false) => lanes!(|a: u64| a.wrapping_add(PARAMETER_WINDOW)),
        (Space::Parameter, true) => lanes!(|a: u64| a.wrapping_sub(PARAMETER_WINDOW)),
        (Space::Shared | Space::Cluster, false) => lanes!(|a: u64| a.wrapping_add(SHARED_WINDOW)),
        (Space::Shared | Space::Cluster, true) => lanes!(|a: u64| a.wrapping_sub(SHARED_WINDOW)),
        (Space::Local, false) => lanes!(|a: u64| a.wrapping_add(LOCAL_WINDOW)),
        (Space::Local, true) => lanes!(|a: u64| a.wrapping_sub(LOCAL_WINDOW)),
        (Space::Generic, _) => return Err(StatementError::new("the opcode has no space")),
    };
    lane_operation(names, ty, operands, LaneFunction::Long1(base))
}
