//! Expressions of search-space files and of manifests: parsed once by `read`, evaluated everywhere by `evaluate`,
//! simplified by `fold` where some names are known, and written as C, Python or Rust by `print`.
//! `bound` has a kernel's launches for all problems that it serves.
//!
//! The syntax is the template engine's, so that a search space and its template read alike; a test
//! compares the values of random expressions with those of the engine.

mod bound;
mod evaluate;
mod fold;
mod print;
mod read;

pub use bound::{Bound, BoundLaunch, BoundMap, BoundPacking, equal, open_values, placed_values};
pub use evaluate::{EvaluationFault, FaultKind, Term, TermKind};
pub use print::Language;
pub use read::{NoFormula, ReadError, read};

/// The names that stay open until a problem's extents are known, which have the first slots.
pub const OPEN: [&str; 7] = ["M", "N", "K", "batch", "lda", "ldb", "ldc"];

/// Number of a name in a family's table of names.
pub type Slot = u16;

/// An expression as a tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Formula {
    /// An integer.
    Int(i64),
    /// A real number.
    Float(FloatBits),
    /// `true` or `false`.
    Bool(bool),
    /// A string.
    Text(String),
    /// A list, which stands to the right of `in` only.
    List(Vec<Self>),
    /// A name; the first slots are those of [`OPEN`].
    Name(Slot),
    /// `not x`, `-x`.
    Unary(Unary, Box<Self>),
    /// An operation on two operands.
    Binary(Binary, Box<Self>, Box<Self>),
    /// `x if condition else y`: condition, x, y.
    If(Box<[Self; 3]>),
}

/// A real number that compares by its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FloatBits(u64);

/// Operations on one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `not x`.
    Not,
    /// `-x`.
    Minus,
}

/// Operations on two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binary {
    /// `x or y`: x where that is true.
    Or,
    /// `x and y`: x where that is false.
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
    /// `x / y`, a real number.
    Quotient,
    /// `x % y`, which is not negative.
    Remainder,
    /// `x | ceil_div(by=y)`.
    CeilDiv,
    /// `x | at_least(least=y)`.
    Most,
    /// `x | at_most(most=y)`.
    Least,
}

impl FloatBits {
    fn new(value: f64) -> Self {
        Self(value.to_bits())
    }

    fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl Formula {
    /// Whether it has whole numbers, conditions and names of [`OPEN`] only, so that other languages
    /// can compute it.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Int(_) | Self::Bool(_) => true,
            Self::Name(slot) => usize::from(*slot) < OPEN.len(),
            Self::Float(_) | Self::Text(_) | Self::List(_) => false,
            Self::Unary(_, of) => of.is_closed(),
            Self::Binary(Binary::Quotient | Binary::In, ..) => false,
            // Elsewhere `and` and `or` give conditions, here one of the operands.
            Self::Binary(Binary::And | Binary::Or, a, b) => {
                [a, b].into_iter().all(|one| one.is_condition() && one.is_closed())
            }
            // Elsewhere conditions are numbers, here they equal none.
            Self::Binary(Binary::Equal | Binary::Unequal, a, b)
                if a.is_condition() != b.is_condition() =>
            {
                false
            }
            Self::Binary(_, a, b) => a.is_closed() && b.is_closed(),
            Self::If(parts) => parts.iter().all(Self::is_closed),
        }
    }

    /// Whether it is a condition and no number.
    pub fn is_condition(&self) -> bool {
        match self {
            Self::Bool(_) | Self::Unary(Unary::Not, _) => true,
            Self::Binary(Binary::And | Binary::Or, a, b) => a.is_condition() && b.is_condition(),
            Self::Binary(operation, ..) => operation.is_comparison(),
            Self::If(parts) => parts[1].is_condition() && parts[2].is_condition(),
            _ => false,
        }
    }

    /// Which of [`OPEN`] it reads.
    pub fn reads(&self) -> [bool; OPEN.len()] {
        let mut found = [false; OPEN.len()];
        self.visit(&mut |formula| {
            if let Self::Name(slot) = formula
                && let Some(found) = found.get_mut(usize::from(*slot))
            {
                *found = true;
            }
        });
        found
    }

    /// The slots that it reads, ascending.
    pub fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::new();
        self.visit(&mut |formula| {
            if let Self::Name(slot) = formula {
                slots.push(*slot);
            }
        });
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Number of values and operations in it.
    pub fn size(&self) -> usize {
        let mut size = 0;
        self.visit(&mut |_| size += 1);
        size
    }

    /// Most operations on the way from the whole to a value.
    pub fn depth(&self) -> usize {
        let deepest = |parts: &[Self]| parts.iter().map(Self::depth).max().unwrap_or(0);
        1 + match self {
            Self::Unary(_, of) => of.depth(),
            Self::Binary(_, a, b) => a.depth().max(b.depth()),
            Self::If(parts) => deepest(parts.as_ref()),
            Self::List(items) => deepest(items),
            _ => 0,
        }
    }

    /// Visits every node, a node before its operands.
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

impl Binary {
    /// The comparison that holds where this one does not, for operands that have an order.
    fn negated(self) -> Option<Self> {
        Some(match self {
            Self::Equal => Self::Unequal,
            Self::Unequal => Self::Equal,
            Self::Less => Self::AtLeast,
            Self::AtLeast => Self::Less,
            Self::Greater => Self::AtMost,
            Self::AtMost => Self::Greater,
            _ => return None,
        })
    }

    /// Whether its result is a condition whatever its operands are.
    fn is_comparison(self) -> bool {
        use Binary::{AtLeast, AtMost, Equal, Greater, In, Less, Unequal};
        matches!(self, In | Equal | Unequal | Less | AtMost | Greater | AtLeast)
    }
}
