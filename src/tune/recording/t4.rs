//! Results in the T4 format, version 1.0.0: a list of configurations, each with its measurements
//! and whether it is valid.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value as Json;

use super::entry::{RecordingFault, configuration};
use crate::model::Micros;
use crate::search::RecordedRow;

/// What is read of a file.
#[derive(Debug, Deserialize)]
pub(super) struct T4Results {
    #[serde(default)]
    metadata: Metadata,
    results: Vec<T4Entry>,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    timeunit: Option<String>,
}

#[derive(Debug, Deserialize)]
struct T4Entry {
    configuration: IndexMap<String, Json>,
    /// `correct`, or the class of the failure.
    invalidity: String,
    #[serde(default)]
    measurements: Vec<Figure>,
}

#[derive(Debug, Deserialize)]
struct Figure {
    name: String,
    value: Json,
    #[serde(default)]
    unit: String,
}

pub(super) fn rows(results: T4Results) -> Result<Vec<RecordedRow>, RecordingFault> {
    let default_unit = results.metadata.timeunit.unwrap_or_default();
    let row = |(at, entry): (usize, &T4Entry)| {
        let name = format!("results[{at}]");
        let values = entry.configuration.iter().map(|(key, value)| (key.as_str(), Some(value)));
        let configuration = configuration(&name, values)?;
        let time = match entry.invalidity.as_str() {
            "correct" => Some(time(&name, entry, &default_unit)?),
            _ => None,
        };
        Ok(RecordedRow { family: String::new(), configuration, time })
    };
    results.results.iter().enumerate().map(row).collect()
}

/// The measurement named `time` of a valid entry.
fn time(name: &str, entry: &T4Entry, default_unit: &str) -> Result<Micros, RecordingFault> {
    let fault = |reason: String| RecordingFault::somewhere(format!("entry `{name}`: {reason}"));
    let figure = entry.measurements.iter().find(|figure| figure.name == "time");
    let Some(Figure { value, unit, .. }) = figure else {
        return Err(fault("is correct and has no measurement `time`".to_owned()));
    };
    let unit = if unit.is_empty() { default_unit } else { unit };
    let micros = match unit {
        // The format's own unit where a file names none.
        "" | "seconds" | "s" => 1e6,
        // The second spelling is that of the format's first programs.
        "milliseconds" | "miliseconds" | "ms" => 1e3,
        "microseconds" | "us" => 1.0,
        "nanoseconds" | "ns" => 1e-3,
        other => return Err(fault(format!("`{other}` is no unit of time"))),
    };
    match value.as_f64() {
        Some(time) if time > 0.0 => Ok(Micros(time * micros)),
        _ => Err(fault(format!("the time {value} is not above 0"))),
    }
}
