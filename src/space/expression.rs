//! An expression of a search-space file: its formula, its place in the file, and the names behind it.

use std::ops::Range;
use std::sync::Arc;

use super::formula::{EvaluationFault, FaultKind, Formula, ReadError, Slot, Term, read};
use super::scope::{BUILT_INS, Scope};
use crate::model::Diagnostic;

/// An expression, parsed.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    /// As written.
    pub(super) text: String,
    /// Its place in the file.
    pub(super) span: Range<usize>,
    pub(super) formula: Formula,
    /// The place of each of the formula's nodes in the text, a node before its operands.
    places: Vec<Range<usize>>,
    /// The slots that it reads itself.
    pub(super) reads: Vec<Slot>,
    /// The derived values that it needs, directly or through others, in an order in which they can be
    /// computed: places in the family's list.
    pub(super) needs: Vec<usize>,
}

/// A derived value: the expression of a name.
#[derive(Debug, Clone)]
pub(crate) struct DerivedValue {
    pub(super) slot: Slot,
    pub(super) expression: Expression,
}

/// The text that a family was read from, for pointing at it, and its names by slot.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub(super) name: String,
    pub(super) text: String,
}

impl Expression {
    /// Parses an expression that stands at `span` of the file. `derived` has the values that it may
    /// need.
    pub(super) fn parse(
        text: &str,
        span: Range<usize>,
        slot: &dyn Fn(&str) -> Option<Slot>,
        derived: &[DerivedValue],
    ) -> Result<Self, ReadError> {
        let (formula, places) = read(text, slot)?;
        let reads = formula.slots();
        let mut expression =
            Self { text: text.to_owned(), span, formula, places, reads, needs: Vec::new() };
        expression.find_needs(derived);
        Ok(expression)
    }

    /// Finds what it needs of `derived`.
    pub(super) fn find_needs(&mut self, derived: &[DerivedValue]) {
        let mut needs = Vec::new();
        for (at, value) in derived.iter().enumerate() {
            if self.reads.contains(&value.slot) {
                needs.extend(value.expression.needs.iter().copied().chain([at]));
            }
        }
        needs.sort_unstable();
        needs.dedup();
        self.needs = needs;
    }

    /// Its value in `scope`, which has those of the names that it reads.
    pub(super) fn value<'a>(&'a self, scope: &Scope<'a>) -> Result<Term<'a>, EvaluationFault> {
        let value = self.formula.evaluate(scope.values())?;
        match value {
            Term::Int(number) if i64::try_from(number).is_err() => {
                Err(EvaluationFault { kind: FaultKind::Overflow, node: 0 })
            }
            _ => Ok(value),
        }
    }

    /// The diagnosis of a fault in it. `names` are those of the family, by slot after the built-in.
    pub(super) fn blame(
        &self,
        file: &SourceFile,
        names: &[String],
        scope: &Scope<'_>,
        fault: EvaluationFault,
    ) -> Diagnostic {
        let name = |slot: Slot| {
            let own = usize::from(slot).checked_sub(BUILT_INS.len());
            match own {
                None => BUILT_INS[usize::from(slot)].0.to_owned(),
                Some(own) => names.get(own).cloned().unwrap_or_default(),
            }
        };
        let span = self.places.get(fault.node as usize).cloned().unwrap_or(0..self.text.len());
        let read = self.reads.iter().filter(|slot| scope.get(**slot) != Term::Unknown);
        let mut read: Vec<(String, Term<'_>)> =
            read.map(|slot| (name(*slot), scope.get(*slot))).collect();
        read.sort_by(|(a, _), (b, _)| a.cmp(b));
        let values: Vec<String> =
            read.into_iter().map(|(name, value)| format!("{name} = {value}")).collect();
        Diagnostic {
            help: (!values.is_empty()).then(|| format!("with {}", values.join(", "))),
            ..file.expression_error(&self.span, &self.text, span, fault.kind.message(name))
        }
    }
}

impl SourceFile {
    pub(super) fn new(name: &str, text: &str) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), text: text.to_owned() })
    }

    pub(super) fn error(&self, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            file: self.name.clone(),
            source: self.text.clone(),
            span,
            message: message.into(),
            help: None,
        }
    }

    /// An error at `inside` of an expression that stands at `at`. The text of a TOML string starts one
    /// byte after its span where it is written plainly; otherwise the whole string is blamed.
    pub(super) fn expression_error(
        &self,
        at: &Range<usize>,
        text: &str,
        inside: Range<usize>,
        message: String,
    ) -> Diagnostic {
        let plain = self.text.get(at.start + 1..at.start + 1 + text.len()) == Some(text);
        let span =
            if plain { at.start + 1 + inside.start..at.start + 1 + inside.end } else { at.clone() };
        self.error(span, message)
    }
}
