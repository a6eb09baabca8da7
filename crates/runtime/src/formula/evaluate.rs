//! Values of formulas. Integers are exact within 128 bits, and what does not fit is an error.

use std::cmp::Ordering;
use std::ops::Range;

use super::{Binary, Formula, OPEN, Slot, Unary};
use crate::model::Value;

/// A value while expressions are evaluated; strings belong to the family or the configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Term<'a> {
    /// A name without a value.
    Unknown,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A real number.
    Float(f64),
    /// A string.
    Text(&'a str),
}

/// Why a formula has no value, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvaluationFault {
    /// The reason.
    pub kind: FaultKind,
    /// The node at fault, counted from the whole, a node before its operands.
    pub node: u32,
}

/// Why a formula has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A name has no value.
    Undefined(Slot),
    /// A division by zero.
    DivisionByZero,
    /// A result beyond 128 bits, or the end result beyond 64.
    Overflow,
    /// An operand of this kind where a number is needed.
    NoNumber(TermKind),
    /// An operand of this kind where an integer within 64 bits is needed.
    NoInteger(TermKind),
    /// Operands of these kinds, which have no order.
    Incomparable(TermKind, TermKind),
    /// Something of this kind to the right of `in`.
    NoContainer(TermKind),
    /// `ceil_div` of a negative number or by less than 1.
    CeilDiv,
}

/// The kind of a value. Small, as faults are: results of evaluation then fit four words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TermKind {
    /// No value.
    Nothing,
    /// A condition.
    Boolean,
    /// A whole number.
    Integer,
    /// A real number.
    Float,
    /// A text.
    String,
    /// Values in brackets.
    List,
}

impl std::fmt::Display for TermKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Float => "float",
            Self::String => "string",
            Self::List => "list",
        })
    }
}

/// The operand of an operation that is at fault.
#[derive(Clone, Copy)]
enum OperandSide {
    Both,
    Left,
    Right,
}

type EvaluationResult<'a> = Result<Term<'a>, EvaluationFault>;

impl EvaluationFault {
    fn new(kind: FaultKind) -> Self {
        Self { kind, node: 0 }
    }

    /// The same for the node that has this one `nodes` further on.
    #[cold]
    fn after(self, nodes: usize) -> Self {
        Self { node: self.node + nodes as u32, ..self }
    }
}

impl<'a> Term<'a> {
    /// A value of a parameter.
    pub fn of(value: &'a Value) -> Self {
        match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(i128::from(*value)),
            Value::Float(value) => Self::Float(*value),
            Value::Text(text) => Self::Text(text),
        }
    }

    /// Its kind, for messages.
    pub fn kind(self) -> TermKind {
        match self {
            Self::Unknown => TermKind::Nothing,
            Self::Bool(_) => TermKind::Boolean,
            Self::Int(_) => TermKind::Integer,
            Self::Float(_) => TermKind::Float,
            Self::Text(_) => TermKind::String,
        }
    }

    /// What conditions take it for: zero and the empty string are false.
    pub(super) fn is_true(self) -> bool {
        match self {
            Self::Unknown => false,
            Self::Bool(value) => value,
            Self::Int(value) => value != 0,
            Self::Float(value) => value != 0.0,
            Self::Text(text) => !text.is_empty(),
        }
    }

    fn order(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(&b)),
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(&b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(&b),
            (Self::Int(a), Self::Float(b)) => order_with_float(a, b),
            (Self::Float(a), Self::Int(b)) => order_with_float(b, a).map(Ordering::reverse),
            _ => None,
        }
    }

    fn as_float(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
            _ => f64::NAN,
        }
    }
}

/// The exact order of an integer and a real number.
fn order_with_float(a: i128, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    // Saturates, as the comparison then should.
    let whole = b.trunc() as i128;
    a.cmp(&whole).then(0.0.partial_cmp(&b.fract()).unwrap_or(Ordering::Equal)).into()
}

impl std::fmt::Display for Term<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => write!(f, "nothing"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value}"),
        }
    }
}

impl FaultKind {
    /// What is wrong, lower case and without a period.
    pub fn message(self, name: impl Fn(Slot) -> String) -> String {
        match self {
            Self::Undefined(slot) => format!("`{}` is undefined", name(slot)),
            Self::DivisionByZero => "cannot divide by 0".to_owned(),
            Self::Overflow => "the result does not fit 64-bit signed integers".to_owned(),
            Self::NoNumber(kind) => format!("arithmetic needs numbers, this is a {kind}"),
            Self::NoInteger(kind) => format!("this needs an integer of 64 bits, not a {kind}"),
            Self::Incomparable(a, b) => format!("cannot compare a {a} with a {b}"),
            Self::NoContainer(kind) => format!("`in` needs a list or a string, not a {kind}"),
            Self::CeilDiv => {
                "`ceil_div` divides numbers of at least 0 by numbers above 0".to_owned()
            }
        }
    }
}

impl Formula {
    /// Its value where `scope` has those of its names, by slot.
    ///
    /// # Errors
    /// Division by zero, overflow, operands of the wrong kind, a name without a value.
    pub fn evaluate<'a>(&'a self, scope: &[Term<'a>]) -> EvaluationResult<'a> {
        Ok(match self {
            Self::Int(value) => Term::Int(i128::from(*value)),
            Self::Float(value) => Term::Float(value.value()),
            Self::Bool(value) => Term::Bool(*value),
            Self::Text(text) => Term::Text(text),
            Self::Name(slot) => match scope.get(usize::from(*slot)) {
                Some(Term::Unknown) | None => {
                    return Err(EvaluationFault::new(FaultKind::Undefined(*slot)));
                }
                Some(value) => *value,
            },
            Self::List(_) => return Err(EvaluationFault::new(FaultKind::NoNumber(TermKind::List))),
            Self::Unary(operation, of) => {
                let value = of.evaluate(scope).map_err(|fault| fault.after(1))?;
                operation.apply(value).map_err(|kind| EvaluationFault { kind, node: 1 })?
            }
            Self::Binary(operation, a, b) => {
                let left = a.evaluate(scope).map_err(|fault| fault.after(1))?;
                let short = match operation {
                    Binary::And => !left.is_true(),
                    Binary::Or => left.is_true(),
                    _ => false,
                };
                if short {
                    return Ok(left);
                }
                if let (Binary::In, Self::List(items)) = (operation, b.as_ref()) {
                    let mut node = 2 + a.size();
                    let mut found = false;
                    for item in items {
                        let item_value = item.evaluate(scope).map_err(|fault| fault.after(node))?;
                        found |= left.order(item_value) == Some(Ordering::Equal);
                        node += item.size();
                    }
                    return Ok(Term::Bool(found));
                }
                let right = b.evaluate(scope).map_err(|fault| fault.after(1 + a.size()))?;
                operation.apply(left, right).map_err(|(kind, side)| {
                    let node = match side {
                        OperandSide::Both => 0,
                        OperandSide::Left => 1,
                        OperandSide::Right => 1 + a.size(),
                    };
                    EvaluationFault { kind, node: node as u32 }
                })?
            }
            Self::If(parts) => {
                let [condition, holds, fails] = parts.as_ref();
                let chosen = condition.evaluate(scope).map_err(|fault| fault.after(1))?;
                let after = 1 + condition.size();
                return if chosen.is_true() {
                    holds.evaluate(scope).map_err(|fault| fault.after(after))
                } else {
                    fails.evaluate(scope).map_err(|fault| fault.after(after + holds.size()))
                };
            }
        })
    }

    /// The value of a closed formula for these values of [`OPEN`], conditions being 0 and 1; `None`
    /// where it has none, as a division by zero has none.
    pub fn value(&self, open: &[i64; OPEN.len()]) -> Option<i64> {
        self.quick(open).or_else(|| {
            match self.evaluate(&open.map(|value| Term::Int(i128::from(value)))).ok()? {
                Term::Int(value) => i64::try_from(value).ok(),
                Term::Bool(value) => Some(i64::from(value)),
                _ => None,
            }
        })
    }

    /// The value of a closed formula whose intermediate results fit 64 bits; `None` also for some that
    /// have a value. Faster than [`Formula::evaluate`]: lookups check many
    /// kernels in a microsecond.
    fn quick(&self, open: &[i64; OPEN.len()]) -> Option<i64> {
        Some(match self {
            Self::Int(value) => *value,
            Self::Bool(value) => i64::from(*value),
            Self::Name(slot) => *open.get(usize::from(*slot))?,
            Self::Float(_) | Self::Text(_) | Self::List(_) => return None,
            Self::Unary(Unary::Not, of) => i64::from(of.quick(open)? == 0),
            Self::Unary(Unary::Minus, of) => of.quick(open)?.checked_neg()?,
            Self::If(parts) => {
                let [condition, holds, fails] = parts.as_ref();
                return if condition.quick(open)? != 0 { holds } else { fails }.quick(open);
            }
            Self::Binary(operation, a, b) => {
                let a = a.quick(open)?;
                match operation {
                    Binary::And if a == 0 => return Some(0),
                    Binary::Or if a != 0 => return Some(a),
                    _ => {}
                }
                operation.quick(a, b.quick(open)?)?
            }
        })
    }

    /// Whether it has a value and is true.
    pub fn holds(&self, open: &[i64; OPEN.len()]) -> bool {
        self.value(open).is_some_and(|value| value != 0)
    }
}

impl Unary {
    pub(super) fn apply(self, value: Term<'_>) -> Result<Term<'_>, FaultKind> {
        Ok(match (self, value) {
            (Self::Not, value) => Term::Bool(!value.is_true()),
            (Self::Minus, Term::Int(value)) => {
                Term::Int(value.checked_neg().ok_or(FaultKind::Overflow)?)
            }
            (Self::Minus, Term::Float(value)) => Term::Float(-value),
            (Self::Minus, value) => return Err(FaultKind::NoNumber(value.kind())),
        })
    }
}

impl Binary {
    /// The result for two values; `and` and `or` have been decided by the first.
    fn apply<'a>(self, a: Term<'a>, b: Term<'a>) -> Result<Term<'a>, (FaultKind, OperandSide)> {
        let ordered =
            || a.order(b).ok_or((FaultKind::Incomparable(a.kind(), b.kind()), OperandSide::Both));
        Ok(match self {
            Self::And | Self::Or => b,
            Self::Equal => Term::Bool(a.order(b) == Some(Ordering::Equal)),
            Self::Unequal => Term::Bool(a.order(b) != Some(Ordering::Equal)),
            Self::Less => Term::Bool(ordered()?.is_lt()),
            Self::AtMost => Term::Bool(ordered()?.is_le()),
            Self::Greater => Term::Bool(ordered()?.is_gt()),
            Self::AtLeast => Term::Bool(ordered()?.is_ge()),
            Self::In => match (a, b) {
                (Term::Text(part), Term::Text(whole)) => Term::Bool(whole.contains(part)),
                (_, Term::Text(_)) => Term::Bool(false),
                _ => return Err((FaultKind::NoContainer(b.kind()), OperandSide::Right)),
            },
            Self::CeilDiv | Self::Most | Self::Least => {
                let (a, b) = (integer(a, OperandSide::Left)?, integer(b, OperandSide::Right)?);
                Term::Int(i128::from(match self {
                    Self::Most => a.max(b),
                    Self::Least => a.min(b),
                    _ if a >= 0 && b > 0 => a / b + i64::from(a % b != 0),
                    _ => return Err((FaultKind::CeilDiv, OperandSide::Both)),
                }))
            }
            _ => match (a, b) {
                (Term::Int(a), Term::Int(b)) if self != Self::Quotient => {
                    Term::Int(self.of_integers(a, b)?)
                }
                (Term::Int(_) | Term::Float(_), Term::Int(_) | Term::Float(_)) => {
                    Term::Float(self.of_floats(a.as_float(), b.as_float())?)
                }
                (Term::Int(_) | Term::Float(_), other) => {
                    return Err((FaultKind::NoNumber(other.kind()), OperandSide::Right));
                }
                (other, _) => return Err((FaultKind::NoNumber(other.kind()), OperandSide::Left)),
            },
        })
    }

    fn quick(self, a: i64, b: i64) -> Option<i64> {
        Some(match self {
            Self::And | Self::Or => b,
            Self::Equal => i64::from(a == b),
            Self::Unequal => i64::from(a != b),
            Self::Less => i64::from(a < b),
            Self::AtMost => i64::from(a <= b),
            Self::Greater => i64::from(a > b),
            Self::AtLeast => i64::from(a >= b),
            Self::Plus => a.checked_add(b)?,
            Self::Minus => a.checked_sub(b)?,
            Self::Times => a.checked_mul(b)?,
            Self::Divide => a.checked_div_euclid(b)?,
            Self::Remainder => a.checked_rem_euclid(b)?,
            Self::CeilDiv if a >= 0 && b > 0 => a / b + i64::from(a % b != 0),
            Self::Most => a.max(b),
            Self::Least => a.min(b),
            Self::In | Self::Quotient | Self::CeilDiv => return None,
        })
    }

    fn of_integers(self, a: i128, b: i128) -> Result<i128, (FaultKind, OperandSide)> {
        let by_zero = (FaultKind::DivisionByZero, OperandSide::Right);
        let result = match self {
            Self::Plus => a.checked_add(b),
            Self::Minus => a.checked_sub(b),
            // Division of 128 bits takes a function call, of 64 an instruction.
            Self::Times => match (i64::try_from(a), i64::try_from(b)) {
                (Ok(a), Ok(b)) => Some(i128::from(a) * i128::from(b)),
                _ => a.checked_mul(b),
            },
            Self::Divide | Self::Remainder if b == 0 => return Err(by_zero),
            Self::Divide => match (u64::try_from(a), u64::try_from(b)) {
                (Ok(a), Ok(b)) => Some(i128::from(a / b)),
                _ => a.checked_div_euclid(b),
            },
            Self::Remainder => match (u64::try_from(a), u64::try_from(b)) {
                (Ok(a), Ok(b)) => Some(i128::from(a % b)),
                _ => a.checked_rem_euclid(b),
            },
            _ => None,
        };
        result.ok_or((FaultKind::Overflow, OperandSide::Both))
    }

    fn of_floats(self, a: f64, b: f64) -> Result<f64, (FaultKind, OperandSide)> {
        let divides = matches!(self, Self::Divide | Self::Remainder | Self::Quotient);
        if divides && b == 0.0 {
            return Err((FaultKind::DivisionByZero, OperandSide::Right));
        }
        Ok(match self {
            Self::Plus => a + b,
            Self::Minus => a - b,
            Self::Times => a * b,
            Self::Divide => a.div_euclid(b),
            Self::Remainder => a.rem_euclid(b),
            _ => a / b,
        })
    }
}

/// The real numbers from the smallest integer of 64 bits to below 2^63, which is one beyond the
/// largest.
const I64: Range<f64> = i64::MIN as f64..i64::MAX as f64;

fn integer(value: Term<'_>, side: OperandSide) -> Result<i64, (FaultKind, OperandSide)> {
    match value {
        Term::Int(value) => i64::try_from(value).map_err(|_| (FaultKind::Overflow, side)),
        // As in the engine, whose filters take whole real numbers.
        Term::Float(value) if value.fract() == 0.0 && I64.contains(&value) => Ok(value as i64),
        other => Err((FaultKind::NoInteger(other.kind()), side)),
    }
}
