//! Comparisons and predicate logic (ISA sections 9.7.6 and 9.7.8).

use super::error::StatementError;
use super::lane_functions::{LaneValue, tests};
use super::name_table::NameTable;
use super::opcode::Opcode;
use crate::cpu::numeric::float::{bf16_value, f16_value};
use crate::cpu::operation::{Combined, Logic, Longs, Operation, RegisterSlot, Words};
use crate::cpu::parse::ParsedOperand;
use crate::cpu::types::{Class, Type};

type WordTest = fn(&Words, &Words) -> u32;
type LongTest = fn(&Longs, &Longs) -> u32;

/// Comparisons of an integer type.
macro_rules! integer_tests {
    ($ty:ty, $name:expr) => {
        match $name {
            "eq" => tests!(|a: $ty, b: $ty| a == b),
            "ne" => tests!(|a: $ty, b: $ty| a != b),
            "lt" | "lo" => tests!(|a: $ty, b: $ty| a < b),
            "le" | "ls" => tests!(|a: $ty, b: $ty| a <= b),
            "gt" | "hi" => tests!(|a: $ty, b: $ty| a > b),
            "ge" | "hs" => tests!(|a: $ty, b: $ty| a >= b),
            _ => return None,
        }
    };
}

/// Comparisons of a floating-point type, including those that are true for NaN (`ltu`), `num` and
/// `nan`.
macro_rules! float_tests {
    ($bits:ty, $name:expr, $value:expr) => {
        match $name {
            "eq" => tests!(|a: $bits, b: $bits| $value(a) == $value(b)),
            "ne" => tests!(|a: $bits, b: $bits| $value(a) < $value(b) || $value(a) > $value(b)),
            "lt" => tests!(|a: $bits, b: $bits| $value(a) < $value(b)),
            "le" => tests!(|a: $bits, b: $bits| $value(a) <= $value(b)),
            "gt" => tests!(|a: $bits, b: $bits| $value(a) > $value(b)),
            "ge" => tests!(|a: $bits, b: $bits| $value(a) >= $value(b)),
            "equ" => tests!(|a: $bits, b: $bits| !($value(a) < $value(b) || $value(a) > $value(b))),
            "neu" => tests!(|a: $bits, b: $bits| $value(a) != $value(b)),
            "ltu" => tests!(|a: $bits, b: $bits| {
                let (a, b) = ($value(a), $value(b));
                a < b || a.is_nan() || b.is_nan()
            }),
            "leu" => tests!(|a: $bits, b: $bits| {
                let (a, b) = ($value(a), $value(b));
                a <= b || a.is_nan() || b.is_nan()
            }),
            "gtu" => tests!(|a: $bits, b: $bits| {
                let (a, b) = ($value(a), $value(b));
                a > b || a.is_nan() || b.is_nan()
            }),
            "geu" => tests!(|a: $bits, b: $bits| {
                let (a, b) = ($value(a), $value(b));
                a >= b || a.is_nan() || b.is_nan()
            }),
            "num" => tests!(|a: $bits, b: $bits| !$value(a).is_nan() && !$value(b).is_nan()),
            "nan" => tests!(|a: $bits, b: $bits| $value(a).is_nan() || $value(b).is_nan()),
            _ => return None,
        }
    };
}

fn word_test(name: &str, ty: Type) -> Option<WordTest> {
    Some(match ty {
        Type::B32 | Type::U32 => integer_tests!(u32, name),
        Type::S32 => integer_tests!(i32, name),
        Type::B16 | Type::U16 => integer_tests!(u16, name),
        Type::S16 => integer_tests!(i16, name),
        Type::F32 => float_tests!(u32, name, f32::from_bits),
        Type::F16 => float_tests!(u32, name, |bits: u32| f16_value(bits & 0xffff)),
        Type::Bf16 => float_tests!(u32, name, |bits: u32| bf16_value(bits & 0xffff)),
        _ => return None,
    })
}

fn long_test(name: &str, ty: Type) -> Option<LongTest> {
    Some(match ty {
        Type::B64 | Type::U64 => integer_tests!(u64, name),
        Type::S64 => integer_tests!(i64, name),
        Type::F64 => float_tests!(u64, name, f64::from_bits),
        _ => return None,
    })
}

const COMPARISONS: [&str; 18] = [
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu",
    "geu", "num", "nan",
];

fn logic_named(name: &str) -> Option<Logic> {
    Some(match name {
        "and" => Logic::And,
        "or" => Logic::Or,
        "xor" => Logic::Xor,
        _ => return None,
    })
}

/// A comparison whose operands are not resolved yet.
struct ParsedComparison<'a, 'o> {
    name: &'o str,
    ty: Type,
    a: &'o ParsedOperand<'a>,
    b: &'o ParsedOperand<'a>,
    combined: Option<Combined>,
}

impl<'a> ParsedComparison<'a, '_> {
    /// Operation that sets `d` to the result, and `opposite` to its negation.
    fn operation(
        self,
        names: &mut NameTable<'a>,
        (d, opposite): (RegisterSlot, Option<RegisterSlot>),
    ) -> Result<Operation, StatementError> {
        let Self { name, ty, a, b, combined } = self;
        if ty.class() == Class::Long {
            let run = long_test(name, ty).ok_or_else(StatementError::ty)?;
            let (a, b) = (names.read_long(a, ty)?, names.read_long(b, ty)?);
            return Ok(Operation::LongCompare { run, d, opposite, a, b, combined });
        }
        let run = word_test(name, ty).ok_or_else(StatementError::ty)?;
        let (a, b) = (names.read_word(a, ty)?, names.read_word(b, ty)?);
        Ok(Operation::WordCompare { run, d, opposite, a, b, combined })
    }
}

/// Parses the operands of `setp` and `set`: the destination and the comparison.
fn comparison<'a, 'o>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &'o [ParsedOperand<'a>],
) -> Result<(&'o ParsedOperand<'a>, ParsedComparison<'a, 'o>), StatementError> {
    let name = opcode
        .take_any(&COMPARISONS)
        .ok_or_else(|| StatementError::new("the opcode has no comparison"))?;
    let logic = opcode.take_map(logic_named);
    if opcode.take("ftz") {
        return Err(StatementError::new("comparisons with `.ftz` are not supported"));
    }
    let ty = opcode.ty()?;
    opcode.finish()?;
    let (d, a, b, combined) = match (operands, logic) {
        ([d, a, b], None) => (d, a, b, None),
        ([d, a, b, with], Some(logic)) => {
            (d, a, b, Some(Combined { logic, with: names.test(with)? }))
        }
        _ => return Err(StatementError::operands()),
    };
    Ok((d, ParsedComparison { name, ty, a, b, combined }))
}

/// `setp`
pub(super) fn set_predicate<'a>(
    opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let (d, comparison) = comparison(opcode, names, operands)?;
    let results = names.results(d)?;
    comparison.operation(names, results)
}

/// `set`: all ones or 1.0 where the comparison is true, else 0.
pub(super) fn set<'a>(
    mut opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Vec<Operation>, StatementError> {
    let holds = match opcode.ty()? {
        Type::U32 | Type::S32 => u32::MAX,
        Type::F32 => 1.0_f32.to_bits(),
        _ => return Err(StatementError::ty()),
    };
    let (d, comparison) = comparison(opcode, names, operands)?;
    let test = names.scratch_predicate();
    let compared = comparison.operation(names, (test, None))?;
    let (a, b) = (names.word(holds), names.word(0));
    let d = names.written(d, Class::Word)?;
    Ok(vec![compared, Operation::WordSelect { d, a, b, test }])
}

/// `and.pred`, `or.pred`, `xor.pred` and `not.pred`.
pub(super) fn logic<'a>(
    opcode: Opcode<'a>,
    names: &mut NameTable<'a>,
    operands: &[ParsedOperand<'a>],
) -> Result<Operation, StatementError> {
    let base = opcode.base;
    opcode.finish()?;
    match (base, operands) {
        ("not", [d, a]) => {
            let a = names.test(a)?;
            let d = names.written(d, Class::Predicate)?;
            Ok(Operation::PredicateMove {
                d,
                a: crate::cpu::operation::PredicateOperand { negated: !a.negated, ..a },
            })
        }
        (_, [d, a, b]) => {
            let logic = logic_named(base).ok_or_else(StatementError::ty)?;
            let (a, b) = (names.test(a)?, names.test(b)?);
            let d = names.written(d, Class::Predicate)?;
            Ok(Operation::PredicateLogic { logic, d, a, b })
        }
        _ => Err(StatementError::operands()),
    }
}
