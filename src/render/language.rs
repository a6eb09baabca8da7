//! The template engine with this project's filters, and the values that a template sees.

use tera::{Context, Kwargs, State, Tera, Value};

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
pub(super) fn context(family: &Family, scope: &Scope<'_>) -> Context {
    let mut context = Context::new();
    let built_in =
        BUILT_INS.iter().zip(0..).map(|((name, _), slot): (_, Slot)| (*name, scope.get(slot)));
    for (name, term) in built_in.chain(family.own_values(scope)) {
        let value = match term {
            Term::Unknown => continue,
            Term::Bool(value) => Value::from(value),
            Term::Int(value) => match i64::try_from(value) {
                Ok(value) => Value::from(value),
                Err(_) => Value::from(value),
            },
            Term::Float(value) => Value::from(value),
            Term::Text(text) => Value::normal_string(text),
        };
        context.insert_value(name.to_owned(), value);
    }
    context
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
