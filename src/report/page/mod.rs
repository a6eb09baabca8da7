//! HTML page about winners and searches: one self-contained file, with light and dark colours.
//!
//! `program` writes the section of a traced program, `case` that of one problem. `charts` draws its search. `data` packs every
//! configuration for the script that filters them. The templates beside define the look.

mod case;
mod charts;
mod content;
mod data;
mod program;
mod roofline;
mod sources;

use serde_json::{Value, json};

use super::plot::rates::{self, RateAxes, Series};
use super::plot::{self, Plot};
use crate::database::Record;
use crate::model::{Micros, Problem, Tflops};
use case::section;
pub use content::ProblemReport;
use content::{id, is_modelled, modelled, ratio_bar};
pub use program::TracedProgram;
use roofline::RooflinePoint;
use sources::PackedSources;

const TEMPLATES: [(&str, &str); 3] = [
    ("page.html", include_str!("page.html.tera")),
    ("case.html", include_str!("case.html.tera")),
    ("page.css", include_str!("page.css")),
];

/// Size of the plots of all problems: two stand beside each other, and one fits a narrow window.
const PLOT_SIZE: [f64; 2] = [560.0, 360.0];

/// The scripts of the page, in order.
const SCRIPTS: [&str; 4] = [
    include_str!("elements.js"),
    include_str!("tables.js"),
    include_str!("sources.js"),
    include_str!("coordinates.js"),
];

/// Renders the page, with a section about a traced program where there is one.
pub fn page(
    title: &str,
    cases: &[ProblemReport<'_>],
    program: Option<TracedProgram<'_>>,
) -> String {
    let rows: Vec<Value> = cases.iter().enumerate().filter_map(row).collect();
    // One section is open: the first with a journal.
    let open = cases.iter().position(|case| case.journal.is_some()).unwrap_or(0);
    let sources = PackedSources::of(cases);
    let numbered = cases.iter().enumerate();
    let all = numbered.map(|(number, case)| section(number, case, &sources, number == open));
    let all: Vec<Value> = all.collect();
    let footer = format!("Made by gemm-tune {}.", env!("CARGO_PKG_VERSION"));
    let document = json!({
        "title": title,
        "subtitle": subtitle(cases),
        "tiles": program.iter().map(TracedProgram::tile).chain(tiles(cases)).collect::<Vec<_>>(),
        "program": program.map(|program| program.section(cases)),
        "rows": rows,
        "sizes": sizes(cases),
        "roofline": roofline::roofline(cases),
        "cases": all,
        "footer": footer,
        "sources": sources.packed(),
        "script": SCRIPTS.concat(),
    });
    plot::render("page.html", &document, &TEMPLATES)
}

fn subtitle(cases: &[ProblemReport<'_>]) -> String {
    let mut devices: Vec<&str> = cases.iter().map(ProblemReport::device_name).collect();
    devices.sort_unstable();
    devices.dedup();
    let modelled = cases.iter().filter_map(|case| case.record).any(is_modelled);
    let times = if modelled { "times are modelled, not measured" } else { "times are medians" };
    format!("{}; {times}", devices.join(", "))
}

/// Key figures at the top.
fn tiles(cases: &[ProblemReport<'_>]) -> Vec<Value> {
    let mut tiles = Vec::new();
    let mut tile =
        |label: &str, value: String| tiles.push(json!({ "label": label, "value": value }));
    tile(if cases.len() == 1 { "problem" } else { "problems" }, cases.len().to_string());
    let speedups: Vec<f64> = (cases.iter())
        .filter_map(|case| Some(case.record?.baseline.as_ref()?.speedup))
        .filter(|speedup| *speedup > 0.0)
        .collect();
    if !speedups.is_empty() {
        let count = speedups.len() as f64;
        let mean = (speedups.iter().map(|speedup| speedup.ln()).sum::<f64>() / count).exp();
        let faster = speedups.iter().filter(|speedup| **speedup >= 1.0).count();
        tile("speed-up over the library, geometric mean", format!("{mean:.3}"));
        tile("at least as fast as the library", format!("{faster} of {}", speedups.len()));
    }
    let rate = |case: &ProblemReport<'_>| Some(case.record?.measurement.tflops);
    if let Some(best) = cases.iter().filter_map(rate).max_by(f64::total_cmp) {
        let modelled = cases.iter().filter_map(|case| case.record).any(is_modelled);
        let label = if modelled { "highest modelled TFLOP/s" } else { "highest TFLOP/s" };
        tile(label, Tflops(best).to_string());
    }
    let entries = || cases.iter().filter_map(|case| case.journal).flat_map(|j| &j.entries);
    if entries().next().is_some() {
        let correct = entries().filter(|entry| entry.outcome.measurement().is_some()).count();
        tile("configurations evaluated", entries().count().to_string());
        tile("correct configurations", correct.to_string());
    }
    tiles
}

/// Name of a problem: its words, or the record's key for words of a later version.
fn case_name(case: &ProblemReport<'_>) -> String {
    let problem = case.problem().map(|problem| problem.to_string());
    problem.or_else(|| Some(case.record?.key())).unwrap_or_default()
}

/// A winner's row in the table of all.
fn row((number, case): (usize, &ProblemReport<'_>)) -> Option<Value> {
    let record = case.record?;
    let measurement = &record.measurement;
    let speedup = record.baseline.as_ref().map(|baseline| baseline.speedup);
    let of_roof = RooflinePoint::of(case).and_then(|point| point.percent_of_roof());
    Some(json!({
        "id": id(number),
        "problem": case_name(case),
        "family": record.family,
        "microseconds": measurement.median_us,
        "roof": of_roof.map_or(String::new(), |share| format!("{share:.1}")),
        "time": format!("{}{}", modelled(record), Micros(measurement.median_us)),
        "tflops": Tflops(measurement.tflops).to_string(),
        "percent": measurement.percent_of_peak.map_or(String::new(), |share| format!("{share:.1}")),
        "speedup": speedup.map_or_else(String::new, |speedup| format!("{speedup:.3}")),
        "bar": speedup.map(ratio_bar),
    }))
}

/// Plot of winners and libraries over problem size; none for fewer than two sizes.
fn sizes(cases: &[ProblemReport<'_>]) -> Option<Plot> {
    let recorded: Vec<(&Record, Problem)> =
        cases.iter().filter_map(|case| Some((case.record?, case.problem()?))).collect();
    let problems: Vec<Problem> = recorded.iter().map(|(_, problem)| *problem).collect();
    let axes = RateAxes::of(&problems);
    let modelled = recorded.iter().any(|(record, _)| is_modelled(record));
    let axes = if modelled { axes.modelled() } else { axes };
    let winner = if modelled { "modelled winner" } else { "winner" };
    let mut series = [(winner, Vec::new()), ("fastest library", Vec::new())];
    for (record, problem) in &recorded {
        let size = axes.size(problem);
        series[0].1.push((size, Tflops(record.measurement.tflops)));
        let library = record.baseline.as_ref().map(|baseline| Micros(baseline.median_us));
        series[1].1.extend(library.map(|time| (size, Tflops::of(problem.operations(), time))));
    }
    let series = series.map(|(name, points)| Series { name: name.to_owned(), points });
    // A peak that is not that of all problems would be wrong for some.
    let peaks = cases.iter().filter_map(|case| case.device()?.peak(&case.problem()?));
    let mut peaks: Vec<Tflops> = peaks.collect();
    peaks.dedup();
    let peak = peaks.first().copied().filter(|_| peaks.len() == 1);
    rates::scattered(&series, &axes, peak, PLOT_SIZE)
}

#[cfg(test)]
mod tests;
