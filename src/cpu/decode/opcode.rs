//! Parser of an opcode's modifiers. Modifiers that no decoder has taken are an error.

use super::error::StatementError;
use crate::cpu::numeric::Rounding;
use crate::cpu::types::Type;

/// An opcode and its remaining modifiers.
#[derive(Debug)]
pub(super) struct Opcode<'a> {
    /// `ld`
    pub(super) base: &'a str,
    rest: Vec<&'a str>,
}

impl<'a> Opcode<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut parts = text.split('.');
        Self { base: parts.next().unwrap_or(""), rest: parts.collect() }
    }

    /// Takes a modifier at any position; returns whether it was present.
    pub(super) fn take(&mut self, modifier: &str) -> bool {
        let place = self.rest.iter().position(|part| *part == modifier);
        place.map(|place| self.rest.remove(place)).is_some()
    }

    /// Takes the first present modifier of a list.
    pub(super) fn take_any(&mut self, modifiers: &[&str]) -> Option<&'a str> {
        let place = self.rest.iter().position(|part| modifiers.contains(part))?;
        Some(self.rest.remove(place))
    }

    /// Takes the first modifier for which `meaning` returns a value.
    pub(super) fn take_map<T>(&mut self, meaning: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (place, value) =
            self.rest.iter().enumerate().find_map(|(at, part)| Some((at, meaning(part)?)))?;
        self.rest.remove(place);
        Some(value)
    }

    /// Takes the next type.
    pub(super) fn ty(&mut self) -> Result<Type, StatementError> {
        self.take_map(Type::named).ok_or_else(|| StatementError::new("the opcode has no type"))
    }

    /// Takes a floating-point rounding mode; the default is `.rn`.
    pub(super) fn rounding(&mut self) -> Rounding {
        self.take_map(|part| {
            Some(match part {
                "rn" => Rounding::NearestEven,
                "rna" => Rounding::NearestAway,
                "rz" => Rounding::Zero,
                "rm" => Rounding::Down,
                "rp" => Rounding::Up,
                _ => return None,
            })
        })
        .unwrap_or(Rounding::NearestEven)
    }

    /// Fails if a modifier is left.
    pub(super) fn finish(self) -> Result<(), StatementError> {
        match self.rest.first() {
            None => Ok(()),
            Some(part) => Err(StatementError::new(format!("modifier `.{part}` is not supported"))),
        }
    }
}
