//! Partial evaluation: what is known is computed, what cannot matter is left out.

use super::{Binary, FloatBits, Formula, Slot, Term, Unary};

/// Most values and operations that one `in` becomes as comparisons. Each of them has a copy of the left
/// operand, so that n of them in one another would have 3^n for lists of three.
const MAX_COMPARED: usize = 1000;

impl Formula {
    /// The same with what `known` gives for its names put in and folded. Names for which it gives
    /// nothing stay.
    #[must_use]
    pub fn with(&self, known: &impl Fn(Slot) -> Option<Self>) -> Self {
        match self {
            Self::Name(slot) => known(*slot).unwrap_or_else(|| self.clone()),
            Self::List(items) => Self::List(items.iter().map(|item| item.with(known)).collect()),
            Self::Unary(operation, of) => unary(*operation, of.with(known)),
            Self::Binary(operation, a, b) => {
                let a = a.with(known);
                match (operation, &a) {
                    // What is not reached need not have a value.
                    (Binary::And, Self::Bool(false)) | (Binary::Or, Self::Bool(true)) => a,
                    _ => binary(*operation, a, b.with(known)),
                }
            }
            Self::If(parts) => {
                let [condition, holds, fails] = parts.as_ref();
                match condition.with(known) {
                    known_condition if known_condition.is_literal() => {
                        let is_true = known_condition.evaluate(&[]).is_ok_and(Term::is_true);
                        if is_true { holds.with(known) } else { fails.with(known) }
                    }
                    condition => {
                        let (holds, fails) = (holds.with(known), fails.with(known));
                        choice(condition, holds, fails)
                    }
                }
            }
            _ => self.clone(),
        }
    }

    /// A value as a formula; `None` for what is unknown or beyond 64 bits.
    pub fn literal(term: Term<'_>) -> Option<Self> {
        Some(match term {
            Term::Unknown => return None,
            Term::Bool(value) => Self::Bool(value),
            Term::Int(value) => Self::Int(i64::try_from(value).ok()?),
            Term::Float(value) => Self::Float(FloatBits::new(value)),
            Term::Text(text) => Self::Text(text.to_owned()),
        })
    }

    /// Whether it is a value and no operation.
    pub fn is_literal(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Float(_) | Self::Bool(_) | Self::Text(_))
    }

    /// Itself, or the literal that it is computed to.
    fn computed(self) -> Self {
        let literal = self.evaluate(&[]).ok().and_then(Self::literal);
        literal.unwrap_or(self)
    }
}

/// `holds if condition else fails`, for a condition that is not known. A choice between conditions of which
/// one is known is `and` or `or`.
fn choice(condition: Formula, holds: Formula, fails: Formula) -> Formula {
    use Formula::Bool;
    if holds == fails {
        return holds;
    }
    if !(condition.is_condition() && holds.is_condition() && fails.is_condition()) {
        return Formula::If(Box::new([condition, holds, fails]));
    }
    match (&holds, &fails) {
        (Bool(true), _) => binary(Binary::Or, condition, fails),
        (Bool(false), _) => binary(Binary::And, unary(Unary::Not, condition), fails),
        (_, Bool(true)) => binary(Binary::Or, unary(Unary::Not, condition), holds),
        (_, Bool(false)) => binary(Binary::And, condition, holds),
        _ => Formula::If(Box::new([condition, holds, fails])),
    }
}

/// Whether it is a literal or a choice between literals.
fn is_choice_of_literals(formula: &Formula) -> bool {
    match formula {
        Formula::If(parts) => parts[1..].iter().all(is_choice_of_literals),
        other => other.is_literal(),
    }
}

/// A choice between literals compared with a literal, as a choice between the results.
fn compared_choice(operation: Binary, chosen: Formula, literal: &Formula) -> Formula {
    match chosen {
        Formula::If(parts) => {
            let [condition, holds, fails] = *parts;
            let [holds, fails] =
                [holds, fails].map(|part| compared_choice(operation, part, literal));
            choice(condition, holds, fails)
        }
        leaf => binary(operation, leaf, literal.clone()),
    }
}

fn unary(operation: Unary, of: Formula) -> Formula {
    if let (Unary::Not, Formula::Binary(comparison, ..)) = (operation, &of)
        && let Some(negated) = comparison.negated()
        && let Formula::Binary(_, a, b) = of
    {
        return Formula::Binary(negated, a, b);
    }
    match (operation, of) {
        (Unary::Not, Formula::Unary(Unary::Not, of)) if of.is_condition() => *of,
        (operation, of) => {
            let is_literal = of.is_literal();
            let formula = Formula::Unary(operation, Box::new(of));
            if is_literal { formula.computed() } else { formula }
        }
    }
}

fn binary(operation: Binary, a: Formula, b: Formula) -> Formula {
    use Formula::{Bool, Int};
    let is_number = |formula: &Formula| !formula.is_condition() && !formula.is_literal();
    match (operation, &a, &b) {
        (Binary::And, Bool(true), _) | (Binary::Or, Bool(false), _) => return b,
        (Binary::And, _, Bool(true)) | (Binary::Or, _, Bool(false)) if a.is_condition() => {
            return a;
        }
        (Binary::Times | Binary::Divide, _, Int(1)) | (Binary::Plus | Binary::Minus, _, Int(0))
            if is_number(&a) =>
        {
            return a;
        }
        (Binary::CeilDiv, _, Int(1)) if is_number(&a) => return a,
        (Binary::Times, Int(1), _) | (Binary::Plus, Int(0), _) if is_number(&b) => return b,
        (Binary::In, _, Formula::List(items))
            if !(a.is_literal() && items.iter().all(Formula::is_literal)) =>
        {
            // It stays what other languages do not have, and the formula is not closed.
            if a.size().saturating_mul(items.len()) > MAX_COMPARED {
                return Formula::Binary(operation, Box::new(a), Box::new(b));
            }
            // A number that is open: one comparison for each.
            let equal = items.iter().map(|item| binary(Binary::Equal, a.clone(), item.clone()));
            let any = equal.reduce(|one, other| binary(Binary::Or, one, other));
            return any.unwrap_or(Bool(false));
        }
        (Binary::In, _, Formula::List(_)) => {}
        _ if operation.is_comparison()
            && matches!(a, Formula::If(_))
            && is_choice_of_literals(&a)
            && b.is_literal() =>
        {
            return compared_choice(operation, a, &b);
        }
        _ if !(a.is_literal() && b.is_literal()) => {
            return Formula::Binary(operation, Box::new(a), Box::new(b));
        }
        _ => {}
    }
    Formula::Binary(operation, Box::new(a), Box::new(b)).computed()
}
