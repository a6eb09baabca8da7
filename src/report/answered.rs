//! Report of a lookup.

use serde_json::{Value, json};

use super::json::problem_document;
use super::records::{self, NON_DETERMINISTIC};
use super::table::{TableStyle, named, pairs};
use crate::lookup::{Answer, AnswerSource, LibraryCandidate, Question};
use crate::model::{Device, LaunchPlan, Micros, Storage, Tflops};

/// The kernel, the source of the answer, and its predicted time.
pub fn text(
    question: &Question,
    device: &Device,
    (answer, library): (&Answer<'_>, Option<&LibraryCandidate>),
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
        let is_told = answer.source != AnswerSource::Default
            && library.is_none_or(|library| !library.is_preferred);
        if let Some(baseline) = record.baseline.as_ref().filter(|_| is_told) {
            let word = if baseline.speedup >= 1.0 { "faster than" } else { "as fast as" };
            row(
                "library",
                format!("the record is {:.3} times {word} {}", baseline.speedup, baseline.name),
            );
        }
    }
    if let Some(library) = library.filter(|library| library.is_preferred) {
        row("library", library.against(answer.predicted));
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

/// The candidates of an answer, the fastest first: its kernel and the library.
pub fn candidates(
    answer: &Answer<'_>,
    library: Option<&LibraryCandidate>,
    style: TableStyle,
) -> String {
    let mut table = style.table();
    table.set_header(named("candidate", ["time", "", "error"]));
    for one in candidates_of(answer, library) {
        let time = one.time.map_or("unknown".to_owned(), |time| time.to_string());
        let word = if one.is_measured { "measured" } else { "predicted" };
        let error = one.error_percent.map_or(String::new(), |error| format!("{error:.0} %"));
        table.add_row(named(&one.name, [&*time, word, &*error]));
    }
    style.draw(table)
}

/// A row of the table of candidates.
struct CandidateRow {
    is_library: bool,
    name: String,
    time: Option<Micros>,
    is_measured: bool,
    error_percent: Option<f64>,
}

fn candidates_of(answer: &Answer<'_>, library: Option<&LibraryCandidate>) -> Vec<CandidateRow> {
    let kernel = CandidateRow {
        is_library: false,
        name: format!("{} {}", answer.family.name, answer.configuration),
        time: answer.predicted,
        is_measured: answer.source == AnswerSource::Exact,
        error_percent: answer.error_percent,
    };
    let library = library.map(|library| CandidateRow {
        is_library: true,
        name: library.name.clone(),
        time: Some(library.time),
        is_measured: library.is_measured,
        error_percent: library.error_percent,
    });
    let mut rows: Vec<CandidateRow> = [Some(kernel), library].into_iter().flatten().collect();
    let time = |row: &CandidateRow| row.time.map_or(f64::INFINITY, |time| time.0);
    rows.sort_by(|a, b| time(a).total_cmp(&time(b)));
    rows
}

/// The answer as JSON.
pub fn document(
    question: &Question,
    device: &Device,
    (answer, library): (&Answer<'_>, Option<&LibraryCandidate>),
    plan: &LaunchPlan,
) -> Value {
    let candidates = candidates_of(answer, library).into_iter().map(|row| {
        json!({
            "kind": if row.is_library { "library" } else { "kernel" },
            "name": row.name,
            "time_us": row.time,
            "measured": row.is_measured,
            "error_percent": row.error_percent,
        })
    });
    let candidates: Vec<Value> = candidates.collect();
    let library = library.map(|library| {
        json!({
            "name": library.name,
            "algorithm": library.algorithm,
            "time_us": library.time,
            "measured": library.is_measured,
            "error_percent": library.error_percent,
            "preferred": library.is_preferred,
        })
    });
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
        "library": library,
        "candidates": candidates,
    })
}
