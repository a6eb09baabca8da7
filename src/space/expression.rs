//! The expressions of a search-space file: the template engine's own, so that a space and its
//! template read alike. Integers are exact and checked; `//` is floor division; no code runs.
//!
//! An expression is stored as the template `{{ (EXPRESSION) | typed }}`; the `typed` filter puts
//! the value's type in front of its text, so that nothing is lost on the way back. One evaluation
//! costs about a microsecond, which [`super::enumerate`] pays once for each distinct input.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::OnceLock;

use tera::{Context, ErrorKind, Kwargs, State, Tera};

use super::formula::Formula;
use crate::model::Value;

/// What stands before the expression in its template, to map positions back.
const PREFIX: &str = "{{ (";
const SUFFIX: &str = ") | typed }}";

/// The longest `range(...)`: a template unrolls code, and no kernel has this many lines.
const MAX_RANGE: i64 = 65_536;

/// An engine with this project's filters, for expressions and templates alike:
/// `M | ceil_div(by=BM)`, `x | at_least(least=1)`, `x | at_most(most=8)`.
pub fn language() -> Tera {
    let mut tera = Tera::new();
    tera.autoescape_on(Vec::<&str>::new());
    tera.register_filter("typed", |value: tera::Value, _: Kwargs, _: &State<'_>| typed(&value));
    tera.register_filter("ceil_div", |value: i64, arguments: Kwargs, _: &State<'_>| {
        let by: i64 = arguments.must_get("by")?;
        if by <= 0 || value < 0 {
            return Err(tera::Error::message(format!("{value} | ceil_div(by={by})")));
        }
        Ok(value / by + i64::from(value % by != 0))
    });
    tera.register_filter("at_least", |value: i64, arguments: Kwargs, _: &State<'_>| {
        Ok::<i64, tera::Error>(value.max(arguments.must_get("least")?))
    });
    tera.register_filter("at_most", |value: i64, arguments: Kwargs, _: &State<'_>| {
        Ok::<i64, tera::Error>(value.min(arguments.must_get("most")?))
    });
    // The engine's own `range` has no limit: a typing error could fill the memory.
    tera.register_function("range", |arguments: Kwargs, _: &State<'_>| {
        let start: i64 = arguments.get("start")?.unwrap_or(0);
        let end: i64 = arguments.must_get("end")?;
        let step: i64 = arguments.get("step_by")?.unwrap_or(1);
        if step <= 0 || end.saturating_sub(start) / step > MAX_RANGE {
            return Err(tera::Error::message(format!(
                "range(start={start}, end={end}, step_by={step}) has no end within {MAX_RANGE} steps"
            )));
        }
        let steps = (start..end).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        Ok(tera::Value::from_serializable(&steps.collect::<Vec<i64>>()))
    });
    tera
}

fn typed(value: &tera::Value) -> Result<String, tera::Error> {
    if let Some(value) = value.as_bool() {
        return Ok(format!("b{value}"));
    }
    if let Some(text) = value.as_str() {
        return Ok(format!("s{text}"));
    }
    if let Some(value) = value.as_i64() {
        return Ok(format!("i{value}"));
    }
    match value.as_number() {
        Some(number) if number.is_float() => Ok(format!("f{}", number.as_float())),
        Some(number) => {
            Err(tera::Error::message(format!("{number} does not fit 64-bit signed integers")))
        }
        None => Err(tera::Error::message(format!(
            "an expression gives a number, a boolean or a string, not a {}",
            value.name()
        ))),
    }
}

fn untyped(text: &str) -> Option<Value> {
    let (kind, rest) = text.split_at_checked(1)?;
    match kind {
        "b" => rest.parse().ok().map(Value::Bool),
        "i" => rest.parse().ok().map(Value::Int),
        "f" => rest.parse().ok().map(Value::Float),
        "s" => Some(Value::Text(rest.to_owned())),
        _ => None,
    }
}

/// Names one expression of an [`Expressions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpressionId(usize);

/// What is wrong with an expression, and where in its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    /// Lower case, no final period.
    pub message: String,
    /// Bytes of the expression's text.
    pub span: Range<usize>,
}

/// All expressions of one family.
#[derive(Debug, Clone)]
pub struct Expressions {
    tera: Tera,
    texts: Vec<String>,
    /// Each as a formula, where it is one: found when it is first asked for, for a lookup that is made
    /// ready asks about each of its kernels.
    formulas: Vec<OnceLock<Option<Formula>>>,
}

impl Default for Expressions {
    fn default() -> Self {
        Self { tera: language(), texts: Vec::new(), formulas: Vec::new() }
    }
}

impl Expressions {
    /// Takes in an expression.
    ///
    /// # Errors
    /// Where the text is no expression.
    pub fn add(&mut self, text: &str) -> Result<ExpressionId, ExpressionError> {
        // The engine's delimiters would end the expression and begin a template.
        for delimiter in ["{{", "}}", "{%", "%}", "{#", "#}"] {
            if let Some(at) = text.find(delimiter) {
                return Err(ExpressionError {
                    message: format!("`{delimiter}` has no place in an expression"),
                    span: at..at + 2,
                });
            }
        }
        let id = ExpressionId(self.texts.len());
        self.tera
            .add_raw_template(&name(id), &format!("{PREFIX}{text}{SUFFIX}"))
            .map_err(|error| located(&error, text))?;
        self.texts.push(text.to_owned());
        self.formulas.push(OnceLock::new());
        Ok(id)
    }

    /// The names that the expression reads.
    pub fn reads(&self, id: ExpressionId) -> BTreeSet<String> {
        let names = self.tera.get_template_variables(&name(id)).unwrap_or_default();
        names.into_iter().map(str::to_owned).collect()
    }

    /// The expression as written.
    pub fn text(&self, id: ExpressionId) -> &str {
        self.texts.get(id.0).map_or("", String::as_str)
    }

    /// The expression as a formula, if it is one.
    pub(super) fn formula(&self, id: ExpressionId) -> Option<&Formula> {
        let cell = self.formulas.get(id.0)?;
        cell.get_or_init(|| Formula::read(self.text(id))).as_ref()
    }

    /// The texts of all.
    #[cfg(test)]
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The expression's value for the names in `scope`.
    ///
    /// # Errors
    /// Division by zero, an overflow of 64 bits, operands of the wrong kind, a missing name.
    pub fn evaluate(&self, id: ExpressionId, scope: &Context) -> Result<Value, ExpressionError> {
        let text = self.text(id);
        let rendered = self.tera.render(&name(id), scope).map_err(|error| located(&error, text))?;
        untyped(&rendered).ok_or_else(|| ExpressionError {
            message: format!("`{rendered}` is no value"),
            span: 0..text.len(),
        })
    }
}

fn name(id: ExpressionId) -> String {
    id.0.to_string()
}

/// The engine's error with its position moved from the template to the expression.
fn located(error: &tera::Error, text: &str) -> ExpressionError {
    let (message, range) = match error.kind() {
        ErrorKind::SyntaxError(report) | ErrorKind::RenderingError(report) => {
            (report.message().to_owned(), report.span().range.clone())
        }
        kind => (kind.to_string(), 0..usize::MAX),
    };
    let inside = |at: usize| at.saturating_sub(PREFIX.len()).min(text.len());
    ExpressionError { message: tidy(&message), span: inside(range.start)..inside(range.end) }
}

/// The engine's sentences begin with a capital and may end with a period; ours do not.
pub(crate) fn tidy(message: &str) -> String {
    let message = message.lines().next().unwrap_or("").trim().trim_end_matches('.');
    let mut characters = message.chars();
    match characters.next() {
        Some(first) => first.to_lowercase().chain(characters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(text: &str) -> Result<Value, ExpressionError> {
        let mut expressions = Expressions::default();
        let id = expressions.add(text)?;
        let mut scope = Context::new();
        scope.insert("BM", &96);
        scope.insert("SPLIT", &true);
        scope.insert("LOADER", "tma");
        expressions.evaluate(id, &scope)
    }

    #[test]
    fn values_keep_their_kind() {
        for (text, value) in [
            ("BM // 7", Value::Int(13)),
            ("-7 // 2", Value::Int(-4)),
            ("BM % 7", Value::Int(5)),
            ("BM / 8", Value::Float(12.0)),
            ("BM == 96 and not SPLIT", Value::Bool(false)),
            ("LOADER", Value::Text("tma".into())),
            ("'12'", Value::Text("12".into())),
            ("BM if SPLIT else 0", Value::Int(96)),
            ("BM in [64, 96]", Value::Bool(true)),
            ("BM | ceil_div(by=7)", Value::Int(14)),
            ("BM | at_most(most=8) + 1", Value::Int(9)),
            ("3000000000 * 3", Value::Int(9_000_000_000)),
        ] {
            assert_eq!(evaluate(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_computed_is_an_error_at_its_place() {
        for (text, message) in [
            ("BM // 0", "divide by 0"),
            ("BM % (BM - 96)", "divide by 0"),
            ("9223372036854775807 + 1", "64-bit"),
            ("BM +", ""),
            ("BM) + (1", ""),
            ("WMM > 1", "undefined"),
            ("BM }} {% for i in x %}", "no place"),
            ("[1, 2]", "array"),
            ("LOADER + 1", ""),
            ("range(end=10000000000)", "no end"),
        ] {
            let error = match evaluate(text) {
                Err(error) => error,
                Ok(value) => panic!("{text} gave {value:?}"),
            };
            assert!(error.message.contains(message), "{text}: {error:?}");
            assert!(error.span.end <= text.len(), "{text}: {error:?}");
        }
    }

    #[test]
    fn an_expression_knows_what_it_reads() {
        let mut expressions = Expressions::default();
        let id = expressions.add("(BM // TM) * 2 if SPLIT else M | ceil_div(by=BN)").unwrap();
        let reads: Vec<String> = expressions.reads(id).into_iter().collect();
        assert_eq!(reads, ["BM", "BN", "M", "SPLIT", "TM"]);
    }
}
