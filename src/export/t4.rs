//! T4 export: all evaluated configurations of a family in the T4 results format, version 1.0.0, of
//! the auto-tuning community (`results-schema.json` of Kernel Tuner and of autotuning_methodology).
//! Times are in milliseconds, as the metadata states; readers assume seconds otherwise.

use serde_json::{Map, Value as Json, json};

use super::space::{EvaluatedSpace, ordered, plain};
use crate::model::{Measurement, Outcome, OutcomeKind};

/// Makes the document. Values that a journal does not store, such as compile times, are 0.
pub fn t4(space: &EvaluatedSpace<'_>) -> Json {
    let timestamp = space.timestamp();
    let results: Vec<Json> = space
        .entries
        .iter()
        .map(|entry| {
            let configuration: Map<String, Json> = ordered(&entry.parameters, &space.parameters)
                .map(|(name, value)| (name.to_owned(), plain(value)))
                .collect();
            let outcome = &entry.outcome;
            let measurement = outcome.measurement();
            json!({
                "timestamp": timestamp,
                "configuration": configuration,
                "objectives": ["time"],
                "times": {
                    "compilation": 0.0,
                    "benchmark": measurement.map_or(0.0, benchmark_ms),
                    "framework": 0.0,
                    "search_algorithm": 0.0,
                    "validation": 0.0,
                    "runtimes": measurement.map(runtimes_ms).unwrap_or_default(),
                },
                "invalidity": outcome.kind().name(),
                "correctness": i32::from(outcome.kind() == OutcomeKind::Correct),
                "measurements": measurements(outcome),
            })
        })
        .collect();
    let problem = space.problem;
    let timing = if space.is_modelled() { "modelled" } else { "measured" };
    json!({
        "schema_version": "1.0.0",
        "metadata": {
            "timeunit": "milliseconds",
            "gemm_tune": env!("CARGO_PKG_VERSION"),
            "device": space.device,
            "kernel": space.kernel_name(),
            "problem": problem,
            "timing": timing,
        },
        "results": results,
    })
}

fn measurements(outcome: &Outcome) -> Vec<Json> {
    let of =
        |name: &str, value: Json, unit: &str| json!({ "name": name, "value": value, "unit": unit });
    match outcome {
        Outcome::Correct { measurement, resources, validation } => vec![
            of("time", json!(measurement.median().as_millis()), "ms"),
            of("registers", json!(resources.registers), ""),
            of("shared_bytes", json!(resources.shared_bytes), "bytes"),
            of("max_error", number(validation.max_error), ""),
            of("error_bound", number(validation.bound), ""),
        ],
        Outcome::Correctness(mismatch) => vec![
            of("time", json!(failure(outcome.kind())), "ms"),
            of("max_error", number(mismatch.error), ""),
            of("error_bound", number(mismatch.bound), ""),
        ],
        _ => vec![of("time", json!(failure(outcome.kind())), "ms")],
    }
}

/// Converts a number; infinities and NaN become text, which JSON numbers cannot express.
fn number(value: f64) -> Json {
    if value.is_finite() { json!(value) } else { json!(value.to_string()) }
}

/// Kernel Tuner's error class in place of a time. It has none for wrong results.
pub(super) fn failure(kind: OutcomeKind) -> &'static str {
    match kind {
        OutcomeKind::Constraints => "InvalidConfig",
        OutcomeKind::Compile => "CompilationFailedConfig",
        OutcomeKind::Correct
        | OutcomeKind::Runtime
        | OutcomeKind::Timeout
        | OutcomeKind::Correctness => "RuntimeFailedConfig",
    }
}

/// Samples in milliseconds.
pub(super) fn runtimes_ms(measurement: &Measurement) -> Vec<f64> {
    measurement.samples.iter().map(|sample| sample.as_millis()).collect()
}

/// Total time of the samples in milliseconds.
pub(super) fn benchmark_ms(measurement: &Measurement) -> f64 {
    runtimes_ms(measurement).iter().sum::<f64>() * f64::from(measurement.launches_per_sample)
}
