//! Expressions of a search space as formulas of a problem's extents, for programs that have no
//! template engine: read from their text, with everything put in that is known, and written down as
//! C, Python or Rust. Whole numbers and conditions only; strings and lists have to be known.
//!
//! The engine stays the judge of what an expression means: that both agree on every built-in family
//! is a test.

mod fold;
mod print;
mod read;
mod solve;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use print::Language;
pub use solve::{Bound, BoundLaunch, Solver, open_values};

/// The names that a formula leaves open, in the order in which values are given.
pub const OPEN: [&str; 7] = ["M", "N", "K", "batch", "lda", "ldb", "ldc"];

/// A formula of [`OPEN`]. A condition is 1 where it holds, else 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Formula {
    /// A number.
    Int(i64),
    /// A condition that always or never holds.
    Bool(bool),
    /// A text that is known; part of comparisons that are folded away.
    Text(String),
    /// A list that is known, to the right of `in`.
    List(Vec<Self>),
    /// One of [`OPEN`].
    Open(usize),
    /// A name that is not known yet.
    Name(String),
    /// `not x`, `-x`.
    Unary(Unary, Box<Self>),
    /// Two operands.
    Binary(Binary, Box<Self>, Box<Self>),
    /// `x if condition else y`: condition, x, y.
    If(Box<[Self; 3]>),
}

/// What is done to one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `not x`.
    Not,
    /// `-x`.
    Minus,
}

/// What is done to two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binary {
    /// `x or y`.
    Or,
    /// `x and y`.
    And,
    /// `x in y`.
    In,
    /// `x == y`.
    Equal,
    /// `x != y`.
    Unequal,
    /// `x < y`.
    Less,
    /// `x <= y`.
    AtMost,
    /// `x > y`.
    Greater,
    /// `x >= y`.
    AtLeast,
    /// `x + y`.
    Plus,
    /// `x - y`.
    Minus,
    /// `x * y`.
    Times,
    /// `x // y`, rounded down.
    Divide,
    /// `x % y`.
    Remainder,
    /// `x | ceil_div(by=y)`.
    CeilDiv,
    /// `x | at_least(least=y)`.
    Most,
    /// `x | at_most(most=y)`.
    Least,
}

impl Formula {
    /// What it is for these values of [`OPEN`]; `None` where it has no value, as a division by zero
    /// has none.
    pub fn value(&self, open: &[i64; 7]) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(value) => Some(i64::from(*value)),
            Self::Open(place) => open.get(*place).copied(),
            Self::Text(_) | Self::List(_) | Self::Name(_) => None,
            Self::Unary(Unary::Not, of) => Some(i64::from(of.value(open)? == 0)),
            Self::Unary(Unary::Minus, of) => of.value(open)?.checked_neg(),
            Self::Binary(Binary::And, a, b) => match a.value(open)? {
                0 => Some(0),
                _ => b.value(open),
            },
            Self::Binary(Binary::Or, a, b) => match a.value(open)? {
                0 => b.value(open),
                _ => Some(1),
            },
            Self::Binary(operation, a, b) => operation.of(a.value(open)?, b.value(open)?),
            Self::If(parts) => {
                let [condition, holds, fails] = parts.as_ref();
                if condition.value(open)? != 0 { holds.value(open) } else { fails.value(open) }
            }
        }
    }

    /// Whether it holds.
    pub fn holds(&self, open: &[i64; 7]) -> bool {
        self.value(open).is_some_and(|value| value != 0)
    }

    /// Whether it leaves [`OPEN`] alone open: no name, no text.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Int(_) | Self::Bool(_) | Self::Open(_) => true,
            Self::Text(_) | Self::List(_) | Self::Name(_) => false,
            Self::Unary(_, of) => of.is_closed(),
            Self::Binary(_, a, b) => a.is_closed() && b.is_closed(),
            Self::If(parts) => parts.iter().all(Self::is_closed),
        }
    }

    /// Which of [`OPEN`] it reads.
    pub fn reads(&self) -> [bool; 7] {
        let mut found = [false; 7];
        self.visit(&mut |formula| {
            if let Self::Open(place) = formula {
                found[*place] = true;
            }
        });
        found
    }

    /// How many numbers and operations it has.
    pub fn size(&self) -> usize {
        let mut size = 0;
        self.visit(&mut |_| size += 1);
        size
    }

    fn visit(&self, look: &mut impl FnMut(&Self)) {
        look(self);
        match self {
            Self::Unary(_, of) => of.visit(look),
            Self::Binary(_, a, b) => {
                a.visit(look);
                b.visit(look);
            }
            Self::If(parts) => parts.iter().for_each(|part| part.visit(look)),
            Self::List(items) => items.iter().for_each(|item| item.visit(look)),
            _ => {}
        }
    }
}

/// A text that is no formula.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no formula of M, N, K, batch, lda, ldb and ldc")]
pub struct NoFormula(String);

/// As documents have it: in Python.
impl From<Formula> for String {
    fn from(formula: Formula) -> Self {
        formula.text(Language::Python)
    }
}

impl TryFrom<String> for Formula {
    type Error = NoFormula;

    fn try_from(text: String) -> Result<Self, NoFormula> {
        let formula = Self::read(&text).map(|formula| formula.with(&|_| None));
        formula.filter(Self::is_closed).ok_or(NoFormula(text))
    }
}

impl Binary {
    /// The result for numbers; conditions are 0 and 1.
    fn of(self, a: i64, b: i64) -> Option<i64> {
        Some(match self {
            Self::Or => i64::from(a != 0 || b != 0),
            Self::And => i64::from(a != 0 && b != 0),
            Self::In => return None,
            Self::Equal => i64::from(a == b),
            Self::Unequal => i64::from(a != b),
            Self::Less => i64::from(a < b),
            Self::AtMost => i64::from(a <= b),
            Self::Greater => i64::from(a > b),
            Self::AtLeast => i64::from(a >= b),
            Self::Plus => a.checked_add(b)?,
            Self::Minus => a.checked_sub(b)?,
            Self::Times => a.checked_mul(b)?,
            // Rounded down, as the engine does; what C and Rust round towards zero is the same for
            // the extents, which are positive.
            Self::Divide => a.checked_div_euclid(b)?,
            Self::Remainder => a.checked_rem_euclid(b)?,
            Self::CeilDiv if a >= 0 && b > 0 => a / b + i64::from(a % b != 0),
            Self::CeilDiv => return None,
            Self::Most => a.max(b),
            Self::Least => a.min(b),
        })
    }
}

#[cfg(test)]
mod tests;
