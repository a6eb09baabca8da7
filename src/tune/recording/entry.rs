//! What the readers of all formats share: the configuration of an entry, and the fault in a text.

use serde_json::Value as Json;

use crate::model::{Configuration, Value};
use crate::search::RowError;

/// Why a text is no recorded space, and where in it.
#[derive(Debug)]
pub(super) struct RecordingFault {
    pub(super) at: Option<(usize, usize)>,
    pub(super) reason: String,
}

impl RecordingFault {
    pub(super) fn somewhere(reason: impl Into<String>) -> Self {
        Self { at: None, reason: reason.into() }
    }
}

impl From<serde_json::Error> for RecordingFault {
    fn from(error: serde_json::Error) -> Self {
        // The place is said by whoever names the file.
        let text = error.to_string();
        let reason = text.split(" at line ").next().unwrap_or_default().to_owned();
        Self { at: (error.line() > 0).then(|| (error.line(), error.column())), reason }
    }
}

impl From<RowError> for RecordingFault {
    fn from(error: RowError) -> Self {
        Self::somewhere(error.to_string())
    }
}

/// A parameter's value, as far as JSON has one for it.
fn value(json: &Json) -> Option<Value> {
    match json {
        Json::Bool(value) => Some(Value::Bool(*value)),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Some(Value::Int(whole)),
            None => number.as_f64().map(Value::Float),
        },
        Json::String(word) => Some(Value::Text(word.clone())),
        _ => None,
    }
}

/// The values of named parameters; an entry is blamed by `name`.
pub(super) fn configuration<'a>(
    name: &str,
    values: impl Iterator<Item = (&'a str, Option<&'a Json>)>,
) -> Result<Configuration, RecordingFault> {
    let values = values.map(|(parameter, json)| match json.map(value) {
        Some(Some(value)) => Ok((parameter.to_owned(), value)),
        Some(None) => Err(RecordingFault::somewhere(format!(
            "entry `{name}`: the value of `{parameter}` is neither a number, a word nor a truth"
        ))),
        None => {
            Err(RecordingFault::somewhere(format!("entry `{name}` has no value for `{parameter}`")))
        }
    });
    values.collect()
}
