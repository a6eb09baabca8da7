//! Report of checks on the host: a table and a JSON document.

use indexmap::IndexMap;
use serde_json::{Value, json};

use super::failed;
use super::json::problem_document;
use super::table::{TableStyle, right_aligned};
use crate::tune::CheckResult;

/// Results of a family for one shape in all layouts.
#[derive(Default)]
struct CheckedRow<'a> {
    layouts: Vec<&'a str>,
    executed: usize,
    padded: usize,
    failed: usize,
}

/// A line for each family and shape, then each kind of failure once.
pub fn table(results: &[CheckResult], style: TableStyle) -> String {
    let mut rows: IndexMap<(&str, String), CheckedRow<'_>> = IndexMap::new();
    for result in results.iter().filter(|result| result.legal > 0) {
        let mut problem = format!("{} {}", result.problem.shape, result.problem.types);
        if result.problem.batch > 1 {
            problem.push_str(&format!(" x{}", result.problem.batch));
        }
        if !result.problem.epilogue.is_empty() {
            problem.push_str(&format!(" {}", result.problem.epilogue));
        }
        let row = rows.entry((&result.family, problem)).or_default();
        row.layouts.push(result.problem.layout.name());
        row.executed += result.passed + result.failures.len();
        row.padded += result.padded;
        row.failed += result.failures.len();
    }
    let mut table = style.table();
    table.set_header(right_aligned(
        ["executed", "padded", "failed"],
        ["family", "problem", "layouts"],
    ));
    for ((family, problem), row) in rows {
        table.add_row(right_aligned(
            [row.executed, row.padded, row.failed].map(|count| count.to_string()),
            [family.to_owned(), problem, row.layouts.join(" ")],
        ));
    }
    let mut text = style.draw(table);
    text.push_str(&failed::of_checks(results));
    let passed: usize = results.iter().map(|result| result.passed).sum();
    let failed: usize = results.iter().map(|result| result.failures.len()).sum();
    let padded: usize = results.iter().map(|result| result.padded).sum();
    text.push_str(&format!(
        "\n{passed} passed, {failed} failed; {padded} passed on padded rows too\n"
    ));
    text
}

/// The results with all failures, as JSON.
pub fn document(results: &[CheckResult]) -> Value {
    let entries: Vec<Value> = results
        .iter()
        .map(|result| {
            let failures: Vec<Value> = result
                .failures
                .iter()
                .map(|failed| {
                    json!({
                        "parameters": failed.configuration,
                        "outcome": failed.outcome,
                        "message": failed.failure.message,
                    })
                })
                .collect();
            json!({
                "family": result.family,
                "problem": problem_document(&result.problem),
                "legal": result.legal,
                "passed": result.passed,
                "padded": result.padded,
                "failures": failures,
            })
        })
        .collect();
    json!({ "gemm_tune": env!("CARGO_PKG_VERSION"), "device": "cpu", "checked": entries })
}
