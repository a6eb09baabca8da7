//! A page about winners and searches: one file that needs nothing else, in light and dark.
//!
//! `case` tells of one problem, `charts` draws what its search saw, `data` packs every
//! configuration for the script that filters them. How it looks is in the templates beside.

mod case;
mod charts;
mod data;

use serde_json::{Value, json};

use super::plot::rates::{self, Axes, Series};
use super::plot::{self, Plot};
use crate::database::Record;
use crate::model::{Device, Micros, Problem, Tflops};
use crate::space::PrunedCount;
use crate::tune::Recorded;
use case::told;

/// What is known of a problem on a device; a record or a journal at least.
#[derive(Debug, Clone, Default)]
pub struct Case<'a> {
    /// The winner.
    pub record: Option<&'a Record>,
    /// All that was evaluated.
    pub journal: Option<&'a Recorded>,
    /// The winner's source, or why there is none.
    pub source: Option<String>,
    /// What constraints removed of the families that the journal has.
    pub pruned: Vec<PrunedCount>,
}

impl Case<'_> {
    /// The problem; none where a record has words of a later version.
    pub fn problem(&self) -> Option<Problem> {
        let recorded = self.journal.map(|journal| journal.problem);
        recorded.or_else(|| Problem::try_from(&self.record?.problem).ok())
    }

    /// The device, as far as a record tells.
    pub fn device(&self) -> Option<Device> {
        Device::try_from(&self.record?.device).ok()
    }

    fn device_name(&self) -> &str {
        let recorded = self.record.map(|record| record.device.name.as_str());
        recorded.or_else(|| Some(self.journal?.device.as_str())).unwrap_or_default()
    }
}

const TEMPLATES: [(&str, &str); 3] = [
    ("page.html", include_str!("page.html.tera")),
    ("case.html", include_str!("case.html.tera")),
    ("page.css", include_str!("page.css")),
];

/// The whole page.
pub fn page(title: &str, cases: &[Case<'_>]) -> String {
    let rows: Vec<Value> = cases.iter().enumerate().filter_map(row).collect();
    // One section is open: the first with most to see.
    let open = cases.iter().position(|case| case.journal.is_some()).unwrap_or(0);
    let all = cases.iter().enumerate().map(|(number, case)| told(number, case, number == open));
    let all: Vec<Value> = all.collect();
    let footer = format!("Made by gemm-tune {}.", env!("CARGO_PKG_VERSION"));
    let document = json!({
        "title": title,
        "subtitle": subtitle(cases),
        "tiles": tiles(cases),
        "rows": rows,
        "sizes": sizes(cases),
        "cases": all,
        "footer": footer,
        "script": include_str!("page.js"),
    });
    plot::render("page.html", &document, &TEMPLATES)
}

fn subtitle(cases: &[Case<'_>]) -> String {
    let mut devices: Vec<&str> = cases.iter().map(Case::device_name).collect();
    devices.sort_unstable();
    devices.dedup();
    let modelled = cases.iter().filter_map(|case| case.record).any(is_modelled);
    let times = if modelled { "times are modelled, not measured" } else { "times are medians" };
    format!("{}; {times}", devices.join(", "))
}

fn is_modelled(record: &Record) -> bool {
    record.measurement.timing.is_some()
}

/// The word before figures that no clock gave.
fn modelled(record: &Record) -> &'static str {
    if is_modelled(record) { "modelled " } else { "" }
}

/// The figures that come first.
fn tiles(cases: &[Case<'_>]) -> Vec<Value> {
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
        tile("the library's time over ours, geometric mean", format!("{mean:.3}"));
        tile("as fast as the library or faster", format!("{faster} of {}", speedups.len()));
    }
    let rate = |case: &Case<'_>| Some(case.record?.measurement.tflops);
    if let Some(best) = cases.iter().filter_map(rate).max_by(f64::total_cmp) {
        let modelled = cases.iter().filter_map(|case| case.record).any(is_modelled);
        let label = if modelled { "modelled TFLOP/s at best" } else { "TFLOP/s at best" };
        tile(label, Tflops(best).to_string());
    }
    let entries = || cases.iter().filter_map(|case| case.journal).flat_map(|j| &j.entries);
    if entries().next().is_some() {
        let correct = entries().filter(|entry| entry.outcome.measurement().is_some()).count();
        tile("configurations evaluated", entries().count().to_string());
        tile("of them correct", correct.to_string());
    }
    tiles
}

/// A winner's line in the table of all.
fn row((number, case): (usize, &Case<'_>)) -> Option<Value> {
    let record = case.record?;
    let measurement = &record.measurement;
    let speedup = record.baseline.as_ref().map(|baseline| baseline.speedup);
    Some(json!({
        "id": id(number),
        "problem": case.problem().map_or_else(|| record.key(), |problem| problem.to_string()),
        "family": record.family,
        "time": format!("{}{}", modelled(record), Micros(measurement.median_us)),
        "tflops": Tflops(measurement.tflops).to_string(),
        "percent": measurement.percent_of_peak.map_or(String::new(), |share| format!("{share:.1}")),
        "speedup": speedup.map_or_else(String::new, |speedup| format!("{speedup:.3}")),
        "bar": speedup.map(ratio_bar),
    }))
}

/// A bar from the middle of 120 pixels, a quarter to four times from end to end.
fn ratio_bar(ratio: f64) -> Value {
    let length = (ratio.ln() / 4_f64.ln() * 60.0).clamp(-60.0, 60.0);
    let (x, class) = if length < 0.0 { (60.0 + length, "s1") } else { (60.0, "s2") };
    json!({ "x": plot::axis::tenths(x), "width": plot::axis::tenths(length.abs()), "class": class })
}

/// What a case's section is linked by.
fn id(number: usize) -> String {
    format!("problem-{}", number + 1)
}

/// Winners and libraries over the size of the problem; none for fewer than two sizes.
fn sizes(cases: &[Case<'_>]) -> Option<Plot> {
    let recorded: Vec<(&Record, Problem)> =
        cases.iter().filter_map(|case| Some((case.record?, case.problem()?))).collect();
    let problems: Vec<Problem> = recorded.iter().map(|(_, problem)| *problem).collect();
    let axes = Axes::of(&problems);
    let modelled = recorded.iter().any(|(record, _)| is_modelled(record));
    let axes = if modelled { axes.modelled() } else { axes };
    let mut series = [("winner", Vec::new()), ("fastest library", Vec::new())];
    for (record, problem) in &recorded {
        let size = axes.size(problem);
        series[0].1.push((size, Tflops(record.measurement.tflops)));
        let library = record.baseline.as_ref().map(|baseline| Micros(baseline.median_us));
        series[1].1.extend(library.map(|time| (size, Tflops::of(problem.operations(), time))));
    }
    let series = series.map(|(name, points)| Series { name: name.to_owned(), points });
    let peak = cases.iter().find_map(|case| case.device()?.peak(&case.problem()?));
    rates::scattered(&series, &axes, peak)
}

#[cfg(test)]
mod tests;
