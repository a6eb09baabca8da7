//! Rungs, winners and libraries side by side: as a table, as comma-separated values, as a document and
//! as series for a plot.

use serde_json::{Value, json};

use super::json::problem_document;
use super::plot::rates::{RateAxes, Series};
use super::problem_csv::lines;
use super::table::{named, plain_table, trim_lines};
use crate::measure::Margin;
use crate::model::{Configuration, Device, Measurement, Micros, Problem, Tflops, Timing};
use crate::tune::LineUp;

/// A problem and who took part.
#[derive(Debug, Clone)]
pub struct LineUpReport {
    problem: Problem,
    contestants: Vec<LineUpEntry>,
}

/// Someone who took part.
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
    /// The samples that 5 % are faster and slower than.
    spread: [Micros; 2],
    timing: Timing,
    /// How much slower the fastest library is.
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

    /// The fastest library's time over its own, with the ends of the interval.
    fn ratio(&self) -> Option<[f64; 3]> {
        let Margin { percent, low, high } = self.against?;
        Some([percent, low, high].map(|percent| 1.0 + percent / 100.0))
    }
}

impl LineUpEntry {
    /// Its name; a library's without the routine, which differs from size to size.
    fn label(&self) -> &str {
        if self.is_library { self.name.split(',').next().unwrap_or(&self.name) } else { &self.name }
    }
}

impl LineUpReport {
    /// What came of a line-up. Names are told with why one did not take part; the others are its
    /// kernels, in their order.
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
        Self { problem, contestants: kernels.chain(libraries).collect() }
    }

    /// Whether everyone has a time.
    pub fn is_whole(&self) -> bool {
        self.contestants.iter().all(|contestant| contestant.result.is_ok())
    }

    fn rate(&self, times: &EntrantTimes) -> Tflops {
        Tflops::of(self.problem.operations(), times.median)
    }
}

/// For people.
pub fn table(lined: &[LineUpReport], device: &Device, width: u16) -> String {
    let mut text = String::new();
    for one in lined {
        let peak = device.peak(&one.problem);
        let mut table = plain_table(width);
        table.set_header(named(
            &one.problem.to_string(),
            ["time", "5 %", "95 %", "TFLOP/s", "% peak", "vs library", "interval"],
        ));
        let mut failures = String::new();
        for contestant in &one.contestants {
            let times = match &contestant.result {
                Ok(times) => times,
                Err(why) => {
                    failures.push_str(&format!("{}: {why}\n", contestant.name));
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
            table.add_row(named(contestant.label(), cells.each_ref().map(String::as_str)));
        }
        text.push_str(&format!("{}\n{failures}\n", trim_lines(&table.to_string())));
    }
    text + &gains(lined)
}

/// How much each contestant gains over the one named before it, over all problems that have both.
fn gains(lined: &[LineUpReport]) -> String {
    let Some(first) = lined.first() else { return String::new() };
    let modelled = if is_modelled(lined) { ", by modelled times" } else { "" };
    let mut text = String::new();
    for pair in first.contestants.windows(2) {
        let [before, after] = [&pair[0], &pair[1]].map(LineUpEntry::label);
        let ratios: Vec<f64> = lined
            .iter()
            .filter_map(|one| {
                let median = |name: &str| {
                    let known = one.contestants.iter().find(|known| known.label() == name)?;
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

/// The axes of a plot.
pub fn axes(lined: &[LineUpReport]) -> RateAxes {
    let problems: Vec<Problem> = lined.iter().map(|one| one.problem).collect();
    let axes = RateAxes::of(&problems);
    if is_modelled(lined) { axes.modelled() } else { axes }
}

fn is_modelled(lined: &[LineUpReport]) -> bool {
    let contestants = lined.iter().flat_map(|one| &one.contestants);
    let mut times = contestants.filter_map(|contestant| contestant.result.as_ref().ok());
    times.any(|times| times.timing == Timing::Modelled)
}

/// The lines of a plot.
pub fn series(lined: &[LineUpReport], axes: &RateAxes) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for one in lined {
        for contestant in &one.contestants {
            let Ok(times) = &contestant.result else { continue };
            let point = (axes.size(&one.problem), one.rate(times));
            let name = contestant.label();
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

/// The columns of [`csv`] behind those of the problem.
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

/// For spreadsheets: a line for each contestant that has a time.
pub fn csv(lined: &[LineUpReport]) -> String {
    let rows = lined.iter().flat_map(|one| {
        let rows = one.contestants.iter().filter_map(|contestant| row(one, contestant));
        rows.map(|row| (one.problem, row))
    });
    lines(COLUMNS, rows)
}

/// What is behind the problem; nothing for who has no time.
fn row(lined: &LineUpReport, contestant: &LineUpEntry) -> Option<[String; COLUMNS.len()]> {
    let times = contestant.result.as_ref().ok()?;
    let kernel = contestant.kernel.as_ref();
    let ratio = times.ratio().map(|ratio| ratio.map(|ratio| format!("{ratio:.4}")));
    let [ratio, low, high] = ratio.unwrap_or_default();
    Some([
        contestant.name.clone(),
        kernel.map(|(family, _)| family.clone()).unwrap_or_default(),
        kernel.map(|(_, configuration)| configuration.to_string()).unwrap_or_default(),
        times.timing.name().to_owned(),
        format!("{:.3}", times.median.0),
        format!("{:.3}", times.spread[0].0),
        format!("{:.3}", times.spread[1].0),
        format!("{:.3}", lined.rate(times).0),
        ratio,
        low,
        high,
    ])
}

/// For programs.
pub fn document(lined: &[LineUpReport], device: &Device) -> Value {
    let problems = lined.iter().map(|one| {
        let contestants = one.contestants.iter().map(|contestant| {
            let kernel = contestant.kernel.as_ref();
            let mut document = json!({
                "name": contestant.name,
                "family": kernel.map(|(family, _)| family),
                "parameters": kernel.map(|(_, configuration)| configuration),
            });
            match &contestant.result {
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
            "contestants": contestants.collect::<Vec<_>>(),
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

    fn contestant(name: &str, time: Result<f64, &str>, against: Option<f64>) -> LineUpEntry {
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

    fn lined() -> Vec<LineUpReport> {
        let of = |shape: &str, times: [f64; 3]| LineUpReport {
            problem: Problem::new(shape.parse().unwrap(), Dtype::F32),
            contestants: vec![
                contestant("low", Ok(times[0]), Some(-75.0)),
                contestant("high", Ok(times[1]), Some(-20.0)),
                contestant("cuBLASLt, best of 18 (x)", Ok(times[2]), None),
            ],
        };
        let mut lined = vec![
            of("1024x1024x1024", [200.0, 50.0, 40.0]),
            of("2048x2048x1024", [800.0, 200.0, 150.0]),
        ];
        lined[1].contestants.insert(1, contestant("broken", Err("it is wrong"), None));
        lined
    }

    #[test]
    fn a_table_tells_everyone_and_what_each_gains() {
        insta::assert_snapshot!(table(&lined(), &Device::h200(), 120));
    }

    #[test]
    fn libraries_are_one_line_of_a_plot_whatever_the_routine() {
        let problems: Vec<Problem> = lined().iter().map(|one| one.problem).collect();
        let axes = RateAxes::of(&problems);
        let series = series(&lined(), &axes);
        let told: Vec<(&str, usize)> =
            series.iter().map(|one| (one.name.as_str(), one.points.len())).collect();
        assert_eq!(told, [("low", 2), ("high", 2), ("cuBLASLt", 2)]);
        assert_eq!(series[0].points[0].0, 1024.0);
    }

    #[test]
    fn values_and_documents_tell_the_same() {
        let text = csv(&lined());
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 6, "who has no time has no line");
        assert_eq!([&rows[0][6], &rows[0][14], &rows[0][15]], ["low", "0.2500", "0.2400"]);
        let document = document(&lined(), &Device::h200());
        assert_eq!(document["compared"][1]["contestants"][1]["error"], "it is wrong");
        assert_eq!(document["compared"][0]["contestants"][0]["speedup"], 0.25);
    }
}
