//! Formulas made smaller: what is known is computed, what cannot matter is left out.

use super::{Binary, Formula, Unary};

impl Formula {
    /// The same with `known` put in for its names, and folded. `known` gives `None` for a name that
    /// stays.
    #[must_use]
    pub fn with(&self, known: &impl Fn(&str) -> Option<Self>) -> Self {
        match self {
            Self::Name(name) => known(name).unwrap_or_else(|| self.clone()),
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
                    Self::Bool(true) => holds.with(known),
                    Self::Bool(false) => fails.with(known),
                    condition => {
                        let (holds, fails) = (holds.with(known), fails.with(known));
                        if holds == fails {
                            return holds;
                        }
                        Self::If(Box::new([condition, holds, fails]))
                    }
                }
            }
            _ => self.clone(),
        }
    }
}

fn unary(operation: Unary, of: Formula) -> Formula {
    match (operation, of) {
        (Unary::Not, Formula::Bool(value)) => Formula::Bool(!value),
        (Unary::Not, Formula::Unary(Unary::Not, of)) => *of,
        (Unary::Minus, Formula::Int(value)) => Formula::Int(-value),
        (operation, of) => Formula::Unary(operation, Box::new(of)),
    }
}

fn binary(operation: Binary, a: Formula, b: Formula) -> Formula {
    use Formula::{Bool, Int};
    match (operation, &a, &b) {
        (Binary::And, Bool(true), _) | (Binary::Or, Bool(false), _) => return b,
        (Binary::And, _, Bool(true)) | (Binary::Or, _, Bool(false)) => return a,
        (Binary::Times | Binary::Divide | Binary::CeilDiv, _, Int(1))
        | (Binary::Plus | Binary::Minus, _, Int(0)) => return a,
        (Binary::Times, Int(1), _) | (Binary::Plus, Int(0), _) => return b,
        (Binary::In, _, Formula::List(items)) => {
            if is_known(&a) && items.iter().all(is_known) {
                return Bool(items.contains(&a));
            }
            // A number that is open: one comparison for each.
            let equal = items.iter().map(|item| binary(Binary::Equal, a.clone(), item.clone()));
            let any = equal.reduce(|one, other| binary(Binary::Or, one, other));
            return any.unwrap_or(Bool(false));
        }
        (Binary::Equal, a, b) if is_known(a) && is_known(b) => return Bool(a == b),
        (Binary::Unequal, a, b) if is_known(a) && is_known(b) => return Bool(a != b),
        (_, Int(x), Int(y)) => {
            if let Some(value) = operation.of(*x, *y) {
                return if operation.is_condition() { Bool(value != 0) } else { Int(value) };
            }
        }
        _ => {}
    }
    Formula::Binary(operation, Box::new(a), Box::new(b))
}

fn is_known(formula: &Formula) -> bool {
    matches!(formula, Formula::Int(_) | Formula::Bool(_) | Formula::Text(_))
}

impl Binary {
    /// Whether its result is a condition.
    pub(super) fn is_condition(self) -> bool {
        !matches!(
            self,
            Self::Plus
                | Self::Minus
                | Self::Times
                | Self::Divide
                | Self::Remainder
                | Self::CeilDiv
                | Self::Most
                | Self::Least
        )
    }
}
