//! Report of checks on the host: a table and a JSON document.

use indexmap::IndexMap;
use serde_json::{Value, json};

use super::json::problem_document;
use super::table::{TableStyle, right_aligned};
use crate::tune::CheckResult;

/// Failures shown for a family and problem; the document has all.
const SHOWN: usize = 3;

/// Results of a family for one shape in all layouts.
#[derive(Default)]
struct CheckedRow<'a> {
    layouts: Vec<&'a str>,
    executed: usize,
    failed: usize,
}

/// A line for each family and shape, then the failures, for a terminal of `width` columns.
pub fn table(results: &[CheckResult], style: TableStyle) -> String {
    let mut rows: IndexMap<(&str, String), CheckedRow<'_>> = IndexMap::new();
    for result in results.iter().filter(|result| result.legal > 0) {
        let mut problem = format!("{} {}", result.problem.shape, result.problem.types);
        if !result.problem.epilogue.is_empty() {
            problem.push_str(&format!(" {}", result.problem.epilogue));
        }
        let row = rows.entry((&result.family, problem)).or_default();
        row.layouts.push(result.problem.layout.name());
        row.executed += result.passed + result.failures.len();
        row.failed += result.failures.len();
    }
    let mut table = style.table();
    table.set_header(right_aligned(["executed", "failed"], ["family", "problem", "layouts"]));
    for ((family, problem), row) in rows {
        table.add_row(right_aligned(
            [row.executed, row.failed].map(|count| count.to_string()),
            [family.to_owned(), problem, row.layouts.join(" ")],
        ));
    }
    let mut text = style.draw(table);
    for result in results.iter().filter(|result| !result.failures.is_empty()) {
        text.push_str(&format!("\n{} for {}:\n", result.family, result.problem));
        for (configuration, outcome) in result.failures.iter().take(SHOWN) {
            let failure = outcome.failure().unwrap_or_default();
            text.push_str(&format!(
                "  {configuration}\n    {}: {failure}\n",
                outcome.kind().name()
            ));
        }
        let more = result.failures.len().saturating_sub(SHOWN);
        if more > 0 {
            text.push_str(&format!("  and {more} more\n"));
        }
    }
    let passed: usize = results.iter().map(|result| result.passed).sum();
    let failed: usize = results.iter().map(|result| result.failures.len()).sum();
    text.push_str(&format!("\n{passed} passed, {failed} failed\n"));
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
                .map(|(configuration, outcome)| {
                    json!({
                        "parameters": configuration,
                        "outcome": outcome,
                        "message": outcome.failure(),
                    })
                })
                .collect();
            json!({
                "family": result.family,
                "problem": problem_document(&result.problem),
                "legal": result.legal,
                "passed": result.passed,
                "failures": failures,
            })
        })
        .collect();
    json!({ "gemm_tune": env!("CARGO_PKG_VERSION"), "device": "cpu", "checked": entries })
}
