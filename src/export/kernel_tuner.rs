//! Kernel Tuner export: all evaluated configurations of a family as a cache file for its simulation
//! mode. The file has a header and a line for each configuration. The two closing braces stand on
//! lines of their own, because Kernel Tuner removes them when it appends.
//!
//! A failed configuration has its failure as time, the older of two accepted forms:
//! autotuning_methodology 1.1 rejects the newer one.

use serde_json::{Map, Value as Json, json};

use super::space::{EvaluatedSpace, ordered, plain, word};
use super::t4::{benchmark_ms, failure, runtimes_ms};
use crate::tune::Entry;

/// Makes the text of the file. Values that a journal does not store, such as compile times, are 0.
/// Configurations that were not evaluated are left out; a simulation has to restrict its search to
/// the file.
pub fn kernel_tuner(space: &EvaluatedSpace<'_>) -> String {
    let shape = space.problem.shape;
    // In the order of the keys, which Kernel Tuner requires and a JSON object does not keep.
    let values: Vec<String> = space
        .parameters
        .iter()
        .map(|name| format!("{}: {}", json!(name), Json::from(values_of(space, name))))
        .collect();
    let lines = [
        "{".to_owned(),
        format!("\"device_name\": {},", json!(space.device)),
        format!("\"kernel_name\": {},", json!(space.kernel_name())),
        format!("\"problem_size\": {},", json!([shape.m, shape.n, shape.k])),
        format!("\"tune_params_keys\": {},", json!(space.parameters)),
        format!("\"tune_params\": {{{}}},", values.join(", ")),
        "\"objective\": \"time\",".to_owned(),
        "\"cache\": {".to_owned(),
    ];
    let timestamp = space.timestamp();
    let entries: Vec<String> =
        space.entries.iter().map(|entry| line(space, entry, &timestamp)).collect();
    format!("{}\n{}}}\n}}", lines.join("\n"), entries.join(",\n") + "\n")
}

/// Distinct values of a parameter, in order.
fn values_of(space: &EvaluatedSpace<'_>, name: &str) -> Vec<Json> {
    let found = space.entries.iter().filter_map(|entry| entry.parameters.get(name));
    let mut values: Vec<Json> = Vec::new();
    for value in found.map(plain) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values.sort_by(|a, b| match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => a.to_string().cmp(&b.to_string()),
    });
    values
}

fn line(space: &EvaluatedSpace<'_>, entry: &Entry, timestamp: &str) -> String {
    let own = || ordered(&entry.parameters, &space.parameters);
    let key: Vec<String> = own().map(|(_, value)| word(value)).collect();
    let mut fields: Map<String, Json> =
        own().map(|(name, value)| (name.to_owned(), plain(value))).collect();
    let measurement = entry.outcome.measurement();
    match measurement {
        Some(measurement) => {
            fields.insert("time".to_owned(), json!(measurement.median().as_millis()));
            fields.insert("times".to_owned(), json!(runtimes_ms(measurement)));
        }
        None => {
            fields.insert("time".to_owned(), json!(failure(entry.outcome.kind())));
        }
    }
    let benchmark = measurement.map_or(0.0, benchmark_ms);
    for (name, value) in [
        ("compile_time", 0.0),
        ("verification_time", 0.0),
        ("benchmark_time", benchmark),
        ("strategy_time", 0.0),
        ("framework_time", 0.0),
    ] {
        fields.insert(name.to_owned(), json!(value));
    }
    fields.insert("timestamp".to_owned(), json!(timestamp));
    format!("{}: {}", json!(key.join(",")), Json::Object(fields))
}
