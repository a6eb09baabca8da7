//! The table of the surfaces of an export in `docs/benchmarks.md`.

use std::fmt::Write;

use super::benchmarks::{geometric_mean, number, rows};

/// What a surface takes of the time that the tuner measures for the same kernel.
pub(super) fn surfaces() -> String {
    let rows = rows("results/surfaces-h200.csv");
    let mut names: Vec<&str> = Vec::new();
    for row in &rows {
        if !names.contains(&row["surface"].as_str()) {
            names.push(&row["surface"]);
        }
    }
    let mut text = "| surface | problems | over the tuner's time | worst | of |\n".to_owned();
    text.push_str("|---|---|---|---|---|\n");
    for name in names {
        let ratios: Vec<(f64, &str)> = rows
            .iter()
            .filter(|row| row["surface"] == name)
            .map(|row| (number(row, "ratio"), row["problem"].as_str()))
            .collect();
        let worst = ratios.iter().max_by(|one, other| one.0.total_cmp(&other.0)).unwrap();
        let mean = geometric_mean(&ratios.iter().map(|(ratio, _)| *ratio).collect::<Vec<_>>());
        let problem = worst.1.trim_end_matches(" -");
        let count = ratios.len();
        writeln!(text, "| {name} | {count} | {mean:.3} | {:.3} | {problem} |", worst.0).unwrap();
    }
    text
}
