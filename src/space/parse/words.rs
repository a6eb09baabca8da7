//! Names, words and expressions of a search-space file.

use std::ops::Range;

use toml::Spanned;

use super::{Builder, Parsing, standard_names};
use crate::model::diagnostic::did_you_mean;
use crate::model::{Diagnostic, UnknownWord};
use crate::space::expression::Expression;
use crate::space::file::SizeText;
use crate::space::formula::Slot;
use crate::space::scope::{self, BUILT_INS, FIRST_PARAMETER};

impl Builder {
    pub(super) fn expression(&self, text: &Spanned<String>) -> Parsing<Expression> {
        self.parse_expression(text.get_ref(), text.span())
    }

    pub(super) fn extent(&self, extent: &Spanned<SizeText>) -> Parsing<Expression> {
        match extent.get_ref() {
            SizeText::Number(number) => self.parse_expression(&number.to_string(), extent.span()),
            SizeText::Expression(text) => self.parse_expression(text, extent.span()),
        }
    }

    pub(super) fn extents(
        &self,
        extents: &Spanned<Vec<Spanned<SizeText>>>,
        what: &str,
        count: std::ops::RangeInclusive<usize>,
    ) -> Parsing<Vec<Expression>> {
        let list = extents.get_ref();
        if !count.contains(&list.len()) {
            let (least, most) = (count.start(), count.end());
            let wanted =
                if least == most { least.to_string() } else { format!("{least} to {most}") };
            let message = format!("`{what}` has {wanted} extents, this has {}", list.len());
            return Err(self.source.error(extents.span(), message));
        }
        list.iter().map(|extent| self.extent(extent)).collect()
    }

    pub(super) fn parse_expression(&self, text: &str, span: Range<usize>) -> Parsing<Expression> {
        let slot = |name: &str| {
            let own = self.names.iter().position(|known| known == name);
            scope::slot_of(name).or(own.map(|at| (FIRST_PARAMETER + at) as Slot))
        };
        Expression::parse(text, span.clone(), &slot, &self.derived).map_err(|error| {
            let known = self.names.iter().map(String::as_str);
            let names = known.chain(BUILT_INS.iter().map(|(name, _)| *name));
            let help = error.unknown.and_then(|name| did_you_mean(&name, names));
            Diagnostic {
                help,
                ..self.source.expression_error(&span, text, error.span, error.message)
            }
        })
    }

    pub(super) fn new_name(&self, name: &Spanned<String>) -> Parsing<()> {
        if scope::is_built_in(name.get_ref()) {
            let message = format!("`{}` is a built-in name", name.get_ref());
            return Err(self.source.error(name.span(), message));
        }
        self.identifier(name, "a name").map(|_| ())
    }

    pub(super) fn identifier(&self, name: &Spanned<String>, what: &str) -> Parsing<String> {
        let text = name.get_ref();
        let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let goes_on_well = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if starts_well && goes_on_well {
            return Ok(text.clone());
        }
        let message = format!("{what} has letters, digits and `_` only, this is `{text}`");
        Err(self.source.error(name.span(), message))
    }

    /// The name of a workspace or a tensor map, by which kernels take it among their arguments.
    pub(super) fn buffer_name(&self, name: &Spanned<String>, what: &str) -> Parsing<String> {
        if standard_names().contains(name.get_ref()) {
            let message = format!("`{}` is an argument of all kernels", name.get_ref());
            return Err(self.source.error(name.span(), message));
        }
        self.identifier(name, what)
    }

    pub(super) fn one_of(
        &self,
        word: &Spanned<String>,
        what: &str,
        choices: &[&str],
    ) -> Parsing<String> {
        let text = word.get_ref();
        if choices.contains(&text.as_str()) {
            return Ok(text.clone());
        }
        let help = did_you_mean(text, choices.iter().copied())
            .unwrap_or_else(|| format!("choose one of {}", choices.join(", ")));
        let message = format!("`{text}` is no {what}");
        Err(Diagnostic { help: Some(help), ..self.source.error(word.span(), message) })
    }

    pub(super) fn words<T: std::str::FromStr<Err = UnknownWord>>(
        &self,
        words: &[Spanned<String>],
    ) -> Parsing<Vec<T>> {
        words.iter().map(|word| self.word(word)).collect()
    }

    pub(super) fn word<T: std::str::FromStr<Err = UnknownWord>>(
        &self,
        word: &Spanned<String>,
    ) -> Parsing<T> {
        word.get_ref()
            .parse()
            .map_err(|error: T::Err| self.source.error(word.span(), error.to_string()))
    }
}
