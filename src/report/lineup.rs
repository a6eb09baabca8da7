//! Line-up: kernels and libraries side by side, as a table, as comma-separated values, as JSON and
//! as series of a plot.

use serde_json::{Value, json};

use super::json::problem_document;
use super::plot::rates::{RateAxes, Series};
use super::problem_csv::lines;
use super::table::{TableStyle, named};
use crate::measure::Margin;
use crate::model::{Configuration, Device, Measurement, Micros, Problem, Tflops, Timing};
use crate::tune::LineUp;

/// A problem with the kernels and libraries that were compared.
#[derive(Debug, Clone)]
pub struct LineUpReport {
    problem: Problem,
    entries: Vec<LineUpEntry>,
}

/// A kernel or a library in a line-up.
#[derive(Debug, Clone)]
struct LineUpEntry {
    name: String,
    is_library: bool,
    kernel: Option<(String, Configuration)>,
    result: Result<EntrantTimes, String>,
}

#[derive(Debug, Clone)]
struct EntrantTimes {
    median: Micros,
    /// The 5 % and 95 % quantiles.
    spread: [Micros; 2],
    timing: Timing,
    /// Margin of the fastest library.
    against: Option<Margin>,
}

impl EntrantTimes {
    fn of(measurement: &Measurement, against: Option<Margin>) -> Self {
        Self {
            median: measurement.median(),
            spread: [0.05, 0.95].map(|share| measurement.quantile(share)),
            timing: measurement.timing,
            against,
        }
    }

    /// The fastest library's time divided by its own, with the ends of the interval.
    fn ratio(&self) -> Option<[f64; 3]> {
        let margin = self.against?;
        let [low, high] = margin.ratio_interval()?;
        Some([margin.ratio(), low, high])
    }
}

impl LineUpEntry {
    /// Its name; a library without its routine, which differs between sizes.
    fn label(&self) -> &str {
        if self.is_library { self.name.split(',').next().unwrap_or(&self.name) } else { &self.name }
    }
}

impl LineUpReport {
    /// Combines the results of a line-up. `names` lists kernels in order, each with the reason if
    /// it was not measured.
    pub fn of(problem: Problem, names: &[(String, Option<String>)], line_up: &LineUp) -> Self {
        let mut standings = line_up.standings.iter();
        let kernels = names.iter().map(|(name, refused)| {
            let standing = match refused {
                Some(why) => Err(why.clone()),
                None => standings.next().cloned().unwrap_or_else(|| Err("not measured".to_owned())),
            };
            let kernel = standing.as_ref().ok();
            let kernel = kernel.map(|one| (one.family.clone(), one.configuration.clone()));
            let result = standing.map(|standing| {
                EntrantTimes::of(&standing.measurement, line_up.against_library(&standing))
            });
            LineUpEntry { name: name.clone(), is_library: false, kernel, result }
        });
        let libraries = line_up.libraries.iter().map(|library| LineUpEntry {
            name: library.name.clone(),
            is_library: true,
            kernel: None,
            result: Ok(EntrantTimes::of(&library.measurement, None)),
        });
        Self { problem, entries: kernels.chain(libraries).collect() }
    }

    /// Whether every entry has a time.
    pub fn is_whole(&self) -> bool {
        self.entries.iter().all(|entry| entry.result.is_ok())
    }

    fn rate(&self, times: &EntrantTimes) -> Tflops {
        Tflops::of(self.problem.operations(), times.median)
    }
}

/// The line-up as a table.
pub fn table(line_ups: &[LineUpReport], device: &Device, style: TableStyle) -> String {
    let mut text = String::new();
    for one in line_ups {
        let peak = device.peak(&one.problem);
        let mut table = style.table();
        table.set_header(named(
            &one.problem.to_string(),
            ["time", "5 %", "95 %", "TFLOP/s", "% peak", "vs library", "interval"],
        ));
        let mut failures = String::new();
        for entry in &one.entries {
            let times = match &entry.result {
                Ok(times) => times,
                Err(why) => {
                    failures.push_str(&format!("{}: {why}\n", entry.name));
                    continue;
                }
            };
            let rate = one.rate(times);
            let modelled = if times.timing == Timing::Modelled { "modelled " } else { "" };
            let share = peak.map(|peak| format!("{:.1}", 100.0 * rate.0 / peak.0));
            let ratio = times.ratio();
            let cells = [
                format!("{modelled}{}", times.median),
                times.spread[0].to_string(),
                times.spread[1].to_string(),
                rate.to_string(),
                share.unwrap_or_default(),
                ratio.map_or_else(String::new, |[ratio, ..]| format!("{ratio:.3}")),
                ratio.map_or_else(String::new, |[_, low, high]| format!("{low:.3} to {high:.3}")),
            ];
            table.add_row(named(entry.label(), cells.each_ref().map(String::as_str)));
        }
        text.push_str(&format!("{}\n{failures}\n", style.draw(table)));
    }
    text + &gains(line_ups)
}

/// Speed-up of each entry over the previous one, over all problems with both.
fn gains(line_ups: &[LineUpReport]) -> String {
    let Some(first) = line_ups.first() else { return String::new() };
    let modelled = if is_modelled(line_ups) { ", by modelled times" } else { "" };
    let mut text = String::new();
    for pair in first.entries.windows(2) {
        let [before, after] = [&pair[0], &pair[1]].map(LineUpEntry::label);
        let ratios: Vec<f64> = line_ups
            .iter()
            .filter_map(|one| {
                let median = |name: &str| {
                    let known = one.entries.iter().find(|known| known.label() == name)?;
                    Some(known.result.as_ref().ok()?.median.0)
                };
                Some((median(before)? / median(after)?).ln())
            })
            .collect();
        if !ratios.is_empty() {
            let mean = (ratios.iter().sum::<f64>() / ratios.len() as f64).exp();
            text.push_str(&format!(
                "{after}: {mean:.2} times as fast as {before} in the geometric mean of {} problems{modelled}\n",
                ratios.len()
            ));
        }
    }
    text
}

/// Axes of the plot.
pub fn axes(line_ups: &[LineUpReport]) -> RateAxes {
    let problems: Vec<Problem> = line_ups.iter().map(|one| one.problem).collect();
    let axes = RateAxes::of(&problems);
    if is_modelled(line_ups) { axes.modelled() } else { axes }
}

fn is_modelled(line_ups: &[LineUpReport]) -> bool {
    let entries = line_ups.iter().flat_map(|one| &one.entries);
    let mut times = entries.filter_map(|entry| entry.result.as_ref().ok());
    times.any(|times| times.timing == Timing::Modelled)
}

/// Series of the plot.
pub fn series(line_ups: &[LineUpReport], axes: &RateAxes) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for one in line_ups {
        for entry in &one.entries {
            let Ok(times) = &entry.result else { continue };
            let point = (axes.size(&one.problem), one.rate(times));
            let name = entry.label();
            match series.iter_mut().find(|known| known.name == name) {
                Some(known) => known.points.push(point),
                None => series.push(Series { name: name.to_owned(), points: vec![point] }),
            }
        }
    }
    for one in &mut series {
        one.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    series
}

/// Columns of [`csv`] after those of the problem.
const COLUMNS: [&str; 11] = [
    "contestant",
    "family",
    "parameters",
    "timing",
    "median_us",
    "p05_us",
    "p95_us",
    "tflops",
    "speedup",
    "speedup_low",
    "speedup_high",
];

/// Comma-separated values: a line for each entry with a time.
pub fn csv(line_ups: &[LineUpReport]) -> String {
    let rows = line_ups.iter().flat_map(|one| {
        let rows = one.entries.iter().filter_map(|entry| row(one, entry));
        rows.map(|row| (one.problem, row))
    });
    lines(COLUMNS, rows)
}

/// Columns of an entry; nothing without a time.
fn row(line_up: &LineUpReport, entry: &LineUpEntry) -> Option<[String; COLUMNS.len()]> {
    let times = entry.result.as_ref().ok()?;
    let kernel = entry.kernel.as_ref();
    let ratio = times.ratio().map(|ratio| ratio.map(|ratio| format!("{ratio:.4}")));
    let [ratio, low, high] = ratio.unwrap_or_default();
    Some([
        entry.name.clone(),
        kernel.map(|(family, _)| family.clone()).unwrap_or_default(),
        kernel.map(|(_, configuration)| configuration.to_string()).unwrap_or_default(),
        times.timing.name().to_owned(),
        format!("{:.3}", times.median.0),
        format!("{:.3}", times.spread[0].0),
        format!("{:.3}", times.spread[1].0),
        format!("{:.3}", line_up.rate(times).0),
        ratio,
        low,
        high,
    ])
}

/// The line-up as JSON.
pub fn document(line_ups: &[LineUpReport], device: &Device) -> Value {
    let problems = line_ups.iter().map(|one| {
        let entries = one.entries.iter().map(|entry| {
            let kernel = entry.kernel.as_ref();
            let mut document = json!({
                "name": entry.name,
                "family": kernel.map(|(family, _)| family),
                "parameters": kernel.map(|(_, configuration)| configuration),
            });
            match &entry.result {
                Err(why) => document["error"] = json!(why),
                Ok(times) => {
                    document["median_us"] = json!(times.median);
                    document["p05_us"] = json!(times.spread[0]);
                    document["p95_us"] = json!(times.spread[1]);
                    document["tflops"] = json!(one.rate(times));
                    document["timing"] = json!(times.timing);
                    if let Some([ratio, low, high]) = times.ratio() {
                        document["speedup"] = json!(ratio);
                        document["speedup_interval"] = json!([low, high]);
                    }
                }
            }
            document
        });
        json!({
            "problem": problem_document(&one.problem),
            "contestants": entries.collect::<Vec<_>>(),
        })
    });
    json!({
        "gemm_tune": env!("CARGO_PKG_VERSION"),
        "device": device,
        "compared": problems.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    fn entry(name: &str, time: Result<f64, &str>, against: Option<f64>) -> LineUpEntry {
        let times = |time| EntrantTimes {
            median: Micros(time),
            spread: [Micros(time * 0.99), Micros(time * 1.02)],
            timing: Timing::Measured,
            against: against.map(|percent| Margin {
                percent,
                low: percent - 1.0,
                high: percent + 1.0,
            }),
        };
        LineUpEntry {
            name: name.to_owned(),
            is_library: name.starts_with("cuBLAS"),
            kernel: None,
            result: time.map(times).map_err(str::to_owned),
        }
    }

    fn line_ups() -> Vec<LineUpReport> {
        let of = |shape: &str, times: [f64; 3]| LineUpReport {
            problem: Problem::new(shape.parse().unwrap(), Dtype::F32),
            entries: vec![
                entry("low", Ok(times[0]), Some(-75.0)),
                entry("high", Ok(times[1]), Some(-20.0)),
                entry("cuBLASLt, best of 18 (x)", Ok(times[2]), None),
            ],
        };
        let mut line_ups = vec![
            of("1024x1024x1024", [200.0, 50.0, 40.0]),
            of("2048x2048x1024", [800.0, 200.0, 150.0]),
        ];
        line_ups[1].entries.insert(1, entry("broken", Err("it is wrong"), None));
        line_ups
    }

    #[test]
    fn a_table_lists_all_entries_and_their_gains() {
        insta::assert_snapshot!(table(
            &line_ups(),
            &Device::h200(),
            TableStyle::Text { width: 120 }
        ));
    }

    #[test]
    fn a_library_is_one_series_for_all_routines() {
        let problems: Vec<Problem> = line_ups().iter().map(|one| one.problem).collect();
        let axes = RateAxes::of(&problems);
        let series = series(&line_ups(), &axes);
        let found: Vec<(&str, usize)> =
            series.iter().map(|one| (one.name.as_str(), one.points.len())).collect();
        assert_eq!(found, [("low", 2), ("high", 2), ("cuBLASLt", 2)]);
        assert_eq!(series[0].points[0].0, 1024.0);
    }

    #[test]
    fn csv_and_json_agree() {
        let text = csv(&line_ups());
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 6, "an entry without a time has no line");
        assert_eq!([&rows[0][7], &rows[0][15], &rows[0][16]], ["low", "0.2500", "0.2400"]);
        let document = document(&line_ups(), &Device::h200());
        assert_eq!(document["compared"][1]["contestants"][1]["error"], "it is wrong");
        assert_eq!(document["compared"][0]["contestants"][0]["speedup"], 0.25);
    }
}
