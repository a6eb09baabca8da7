//! The table of default runs on tensor cores in `docs/benchmarks.md`.

use std::fmt::Write;

use super::benchmarks::{number, rows, short};

/// What default runs find, beside searches of 30 s that begin with nothing known.
pub(super) fn searches() -> String {
    let mut text = "| problem | run | candidates | a second | found | speed-up | long search | a second | found | speed-up |\n".to_owned();
    writeln!(text, "|{}", "---|".repeat(10)).unwrap();
    for row in &rows("results/searches-tensor-cores-h200.csv") {
        writeln!(
            text,
            "| {} {} | {} s | {} | {} | {} µs | {:.3} | {} | {} | {} µs | {:.3} |",
            row["problem"],
            row["types"],
            row["run_s"],
            row["candidates"],
            row["rate"],
            short(number(row, "us")),
            number(row, "speedup"),
            row["long_candidates"],
            row["long_rate"],
            short(number(row, "long_us")),
            number(row, "long_speedup"),
        )
        .unwrap();
    }
    text
}
