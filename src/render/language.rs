//! The template engine with this project's filters, and the values that a template sees.

use std::collections::BTreeMap;

use tera::{ErrorKind, Kwargs, State, Tera, Value};

use super::children::{EngineError, TemplateValue};
use crate::space::formula::{Slot, Term};
use crate::space::scope::BUILT_INS;
use crate::space::{Family, Scope};

/// The longest `range(...)`: a template unrolls code, and no kernel has this many lines.
const MAX_RANGE: i64 = 65_536;

/// An engine with the filters that expressions of search-space files have too:
/// `M | ceil_div(by=BM)`, `x | at_least(least=1)`, `x | at_most(most=8)`.
pub(crate) fn language() -> Tera {
    let mut tera = Tera::new();
    tera.autoescape_on(Vec::<&str>::new());
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
        Ok(Value::from_serializable(&steps.collect::<Vec<i64>>()))
    });
    tera
}

/// The values of all names that a template of `family` may use.
pub(super) fn values(family: &Family, scope: &Scope<'_>) -> BTreeMap<String, TemplateValue> {
    let built_in =
        BUILT_INS.iter().zip(0..).map(|((name, _), slot): (_, Slot)| (*name, scope.get(slot)));
    let known = built_in.chain(family.own_values(scope)).filter_map(|(name, term)| {
        let value = match term {
            Term::Unknown => return None,
            Term::Bool(value) => TemplateValue::Bool(value),
            Term::Int(value) => match i64::try_from(value) {
                Ok(value) => TemplateValue::Int(value),
                Err(_) => TemplateValue::Long(value.to_string()),
            },
            Term::Float(value) => TemplateValue::Float(value),
            Term::Text(text) => TemplateValue::Text(text.to_owned()),
        };
        Some((name.to_owned(), value))
    });
    known.collect()
}

/// File, message and place of an error.
pub(super) fn engine_error(error: &tera::Error) -> EngineError {
    let blame = |template: &str, message: String, name: Option<&String>| EngineError {
        template: Some(template.to_owned()),
        message,
        span: 0..0,
        name: name.cloned(),
    };
    match error.kind() {
        ErrorKind::SyntaxError(report) | ErrorKind::RenderingError(report) => EngineError {
            template: Some(report.filename().to_owned()),
            message: report.message().to_owned(),
            span: report.span().range.clone(),
            name: None,
        },
        ErrorKind::CircularInclude { tpl, include_chain: chain } => {
            let message = format!("circular include: {}", chain.join(" -> "));
            blame(tpl, message, chain.iter().find(|name| *name != tpl).or(Some(tpl)))
        }
        ErrorKind::CircularExtend { tpl, inheritance_chain: chain } => {
            let message = format!("circular extend: {}", chain.join(" -> "));
            blame(tpl, message, chain.iter().find(|name| *name != tpl).or(Some(tpl)))
        }
        ErrorKind::MissingParent { current, parent } => {
            blame(current, error.to_string(), Some(parent))
        }
        kind => EngineError { template: None, message: kind.to_string(), span: 0..0, name: None },
    }
}

/// The first fault that the engine found in templates, with its place. It reports faults of several templates as text:
/// `error: MESSAGE`, then a line ` --> TEMPLATE:LINE:COLUMN`. `text` returns the text of a template.
pub(super) fn reported_error<'a>(
    error: &tera::Error,
    text: impl Fn(&str) -> Option<&'a str>,
) -> Option<EngineError> {
    let ErrorKind::Msg(report) = error.kind() else { return None };
    let (message, rest) = report.strip_prefix("error: ")?.split_once('\n')?;
    let place = rest.lines().next()?.trim_start().strip_prefix("--> ")?;
    let mut parts = place.rsplitn(3, ':');
    let (column, line, template) = (parts.next()?, parts.next()?, parts.next()?);
    let (column, line): (usize, usize) = (column.parse().ok()?, line.parse().ok()?);
    let text = text(template)?;
    let start = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum::<usize>();
    let (within, _) = text.get(start..)?.char_indices().nth(column.checked_sub(1)?)?;
    let included =
        message.strip_prefix("Unknown template `").and_then(|name| name.strip_suffix('`'));
    Some(EngineError {
        template: Some(template.to_owned()),
        message: message.to_owned(),
        span: start + within..start + within + 1,
        name: included.map(str::to_owned),
    })
}

/// The engine's sentences begin with a capital and may end with a period; ours do not.
pub(super) fn tidy(message: &str) -> String {
    let message = message.lines().next().unwrap_or("").trim().trim_end_matches('.');
    let mut characters = message.chars();
    match characters.next() {
        Some(first) => first.to_lowercase().chain(characters).collect(),
        None => String::new(),
    }
}
