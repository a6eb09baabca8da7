//! Report of a lookup.

use serde_json::{Value, json};

use super::json::problem_document;
use super::records::{self, NON_DETERMINISTIC};
use super::table::{TableStyle, pairs};
use crate::lookup::{Answer, AnswerSource, Question};
use crate::model::{Device, LaunchPlan, Storage, Tflops};

/// The kernel, the source of the answer, and its predicted time.
pub fn text(
    question: &Question,
    device: &Device,
    answer: &Answer<'_>,
    plan: &LaunchPlan,
    style: TableStyle,
) -> String {
    let Question { problem, storage, .. } = question;
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
    row("kernel", format!("{} {}", answer.family.name, answer.configuration));
    row("source", answer.source.name().to_owned());
    row("because", answer.because());
    let error = match answer.error_percent {
        Some(error) if answer.source == AnswerSource::Exact => {
            format!(", samples within {error:.1} %")
        }
        Some(error) => format!(", 90 % of predictions within {error:.0} %"),
        None => ", error unknown".to_owned(),
    };
    let word = match (answer.source, device.is_cpu()) {
        (AnswerSource::Exact, false) => "measured",
        (AnswerSource::Exact, true) => "modelled",
        _ => "predicted",
    };
    row(
        word,
        match answer.predicted {
            Some(time) => {
                let rate = Tflops::of(problem.operations(), time);
                format!("{time} = {rate} TFLOP/s{error}")
            }
            None => "unknown: no similar kernel was measured".to_owned(),
        },
    );
    if let Some(record) = answer.record {
        row("record", format!("{} (key {})", records::problem(record), record.key()));
        if let Some(baseline) =
            record.baseline.as_ref().filter(|_| answer.source != AnswerSource::Default)
        {
            let word = if baseline.speedup >= 1.0 { "faster than" } else { "as fast as" };
            row(
                "library",
                format!("the record is {:.3} times {word} {}", baseline.speedup, baseline.name),
            );
        }
    }
    if !answer.is_deterministic() {
        row("deterministic", NON_DETERMINISTIC.to_owned());
    }
    if answer.template_changed {
        row(
            "warning",
            "its template has changed: the recorded time is of another kernel".to_owned(),
        );
    }
    if *storage != Storage::packed(problem) {
        let Storage { lda, ldb, ldc, alignment } = storage;
        row("storage", format!("lda {lda}, ldb {ldb}, ldc {ldc}, aligned to {alignment} bytes"));
    }
    for launch in &plan.kernels {
        row(
            "launch",
            format!(
                "{} grid {:?} block {:?} dynamic shared memory {}",
                launch.entry, launch.grid, launch.block, launch.dynamic_shared_bytes
            ),
        );
    }
    format!("{problem} on {}\n{}", device.name, pairs(&rows, style))
}

/// The answer as JSON.
pub fn document(
    question: &Question,
    device: &Device,
    answer: &Answer<'_>,
    plan: &LaunchPlan,
) -> Value {
    let Storage { lda, ldb, ldc, alignment } = question.storage;
    json!({
        "problem": problem_document(&question.problem),
        "storage": { "lda": lda, "ldb": ldb, "ldc": ldc, "alignment": alignment },
        "device": device.name,
        "source": answer.source.name(),
        "because": answer.because(),
        "family": answer.family.name,
        "parameters": answer.configuration,
        "deterministic": answer.is_deterministic(),
        "launch": plan,
        "predicted_us": answer.predicted,
        "error_percent": answer.error_percent,
        "record": answer.record.map(records::summary),
        "template_changed": answer.template_changed,
    })
}
