//! Comparison of winners with libraries, as a table, as comma-separated values and as JSON.

use serde_json::{Value, json};

use super::json::problem_document;
use super::problem_csv::lines;
use super::table::{TableStyle, named};
use crate::measure::Margin;
use crate::model::{Configuration, Device, Micros, Problem, Tflops};
use crate::tune::Retimed;

/// A winner timed with the libraries, for one problem.
#[derive(Debug, Clone)]
pub struct LibraryComparison {
    problem: Problem,
    result: Result<ComparedTimes, String>,
}

#[derive(Debug, Clone)]
struct ComparedTimes {
    family: String,
    configuration: Configuration,
    time: Micros,
    /// The fastest.
    library: Option<LibraryResult>,
    rounds: usize,
}

#[derive(Debug, Clone)]
struct LibraryResult {
    name: String,
    time: Micros,
    /// Its margin over the winner.
    margin: Option<Margin>,
}

impl ComparedTimes {
    /// The library's time divided by the winner's: the [`Margin`] of the rounds that both were sampled in. Only without
    /// enough of them, the ratio of the medians.
    fn speedup(&self) -> Option<f64> {
        let LibraryResult { time, margin, .. } = self.library.as_ref()?;
        let paired = margin.filter(|margin| margin.ratio_interval().is_some());
        Some(paired.map_or(time.0 / self.time.0, |margin| margin.ratio()))
    }

    /// Ends of the interval of that ratio.
    fn interval(&self) -> Option<[f64; 2]> {
        self.library.as_ref()?.margin?.ratio_interval()
    }
}

fn rate(problem: &Problem, time: Micros) -> Tflops {
    Tflops::of(problem.operations(), time)
}

impl LibraryComparison {
    /// Takes new timings of a winner.
    pub fn of(problem: Problem, retimed: Retimed) -> Self {
        let Retimed { winner, libraries, rounds, .. } = retimed;
        let library = libraries.into_iter().next().map(|(library, margin)| {
            let time = library.measurement.median();
            LibraryResult { name: library.name, time, margin }
        });
        let result = winner.map(|winner| {
            let time = winner.measurement.median();
            let (family, configuration) = (winner.family, winner.configuration);
            ComparedTimes { family, configuration, time, library, rounds }
        });
        Self { problem, result }
    }

    /// A problem without a comparison.
    pub fn without(problem: Problem, why: String) -> Self {
        Self { problem, result: Err(why) }
    }

    /// Reason why the comparison failed.
    pub fn failure(&self) -> Option<&str> {
        self.result.as_ref().err().map(String::as_str)
    }
}

/// Summary of all speed-ups.
struct OverallSpeedup {
    count: usize,
    /// None without a comparison.
    geometric_mean: Option<f64>,
    /// Number of problems with the whole interval below 1.
    slower: usize,
}

impl OverallSpeedup {
    fn of(compared: &[LibraryComparison]) -> Self {
        let times = || compared.iter().filter_map(|compared| compared.result.as_ref().ok());
        let logarithms: Vec<f64> =
            times().filter_map(ComparedTimes::speedup).map(f64::ln).collect();
        let count = logarithms.len();
        let mean = logarithms.iter().sum::<f64>() / count as f64;
        let slower =
            times().filter_map(ComparedTimes::interval).filter(|[_, high]| *high < 1.0).count();
        Self { count, geometric_mean: (count > 0).then(|| mean.exp()), slower }
    }
}

/// The comparison as a table.
pub fn table(compared: &[LibraryComparison], device: &Device, style: TableStyle) -> String {
    let mut table = style.table();
    table.set_header(named(
        "problem",
        ["family", "time", "TFLOP/s", "library", "time", "TFLOP/s", "speed-up", "interval"],
    ));
    let mut failures = String::new();
    for LibraryComparison { problem, result } in compared {
        let times = match result {
            Ok(times) => times,
            Err(why) => {
                failures.push_str(&format!("{problem}: {why}\n"));
                continue;
            }
        };
        let own = [times.family.clone(), times.time.to_string()];
        let rates = rate(problem, times.time).to_string();
        let library = match &times.library {
            None => ["none", "", "", "", ""].map(str::to_owned),
            Some(library) => [
                short(&library.name).to_owned(),
                library.time.to_string(),
                rate(problem, library.time).to_string(),
                times.speedup().map(|ratio| format!("{ratio:.3}")).unwrap_or_default(),
                times
                    .interval()
                    .map(|[low, high]| format!("{low:.3} to {high:.3}"))
                    .unwrap_or_default(),
            ],
        };
        let cells: Vec<String> = own.into_iter().chain([rates]).chain(library).collect();
        let figures: [&str; 8] = std::array::from_fn(|at| cells.get(at).map_or("", String::as_str));
        table.add_row(named(&problem.to_string(), figures));
    }
    let overall = OverallSpeedup::of(compared);
    let summary = match overall.geometric_mean {
        Some(mean) => format!(
            "{mean:.3} times as fast as the fastest library in the geometric mean of {} problems on \
             {}; significantly slower on {}\n",
            overall.count, device.name, overall.slower
        ),
        None => format!("no library was measured on {}\n", device.name),
    };
    format!("{}\n\n{summary}{failures}", style.draw(table))
}

/// The library without its routine, which the other forms have.
fn short(name: &str) -> &str {
    name.split(',').next().unwrap_or(name)
}

/// Columns of [`csv`] after those of the problem.
const COLUMNS: [&str; 10] = [
    "family",
    "parameters",
    "median_us",
    "tflops",
    "library",
    "library_us",
    "library_tflops",
    "speedup",
    "speedup_low",
    "speedup_high",
];

/// Comma-separated values: a line for each problem with a comparison.
pub fn csv(compared: &[LibraryComparison]) -> String {
    let rows = compared.iter().filter_map(|LibraryComparison { problem, result }| {
        let times = result.as_ref().ok()?;
        Some((*problem, row(problem, times)))
    });
    lines(COLUMNS, rows)
}

fn row(problem: &Problem, times: &ComparedTimes) -> [String; COLUMNS.len()] {
    let library = times.library.as_ref();
    let text = |value: Option<String>| value.unwrap_or_default();
    let [low, high] = match times.interval() {
        Some(ends) => ends.map(|end| format!("{end:.4}")),
        None => Default::default(),
    };
    [
        times.family.clone(),
        times.configuration.to_string(),
        format!("{:.3}", times.time.0),
        format!("{:.3}", rate(problem, times.time).0),
        text(library.map(|library| library.name.clone())),
        text(library.map(|library| format!("{:.3}", library.time.0))),
        text(library.map(|library| format!("{:.3}", rate(problem, library.time).0))),
        text(times.speedup().map(|ratio| format!("{ratio:.4}"))),
        low,
        high,
    ]
}

/// The comparison as JSON.
pub fn document(compared: &[LibraryComparison], device: &Device) -> Value {
    let rows = compared.iter().map(|LibraryComparison { problem, result }| {
        let mut row = json!({ "problem": problem_document(problem) });
        match result {
            Err(why) => row["error"] = json!(why),
            Ok(times) => {
                row["winner"] = json!({
                    "family": times.family,
                    "parameters": times.configuration,
                    "median_us": times.time,
                    "tflops": rate(problem, times.time),
                });
                row["rounds"] = json!(times.rounds);
                if let Some(library) = &times.library {
                    row["library"] = json!({
                        "name": library.name,
                        "median_us": library.time,
                        "tflops": rate(problem, library.time),
                    });
                    row["speedup"] = json!(times.speedup());
                    row["speedup_interval"] = json!(times.interval());
                }
            }
        }
        row
    });
    let overall = OverallSpeedup::of(compared);
    json!({
        "gemm_tune": env!("CARGO_PKG_VERSION"),
        "device": device,
        "compared": rows.collect::<Vec<_>>(),
        "geometric_mean_speedup": overall.geometric_mean,
        "slower": overall.slower,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Shape, Value};

    /// 512x512x512 a fifth faster than the library by their rounds though not by their medians, 4096x4096x1024 slower,
    /// one without a library and one without a record.
    fn compared() -> Vec<LibraryComparison> {
        let of = |shape: &str, time: f64, library: Option<(f64, [f64; 2])>| {
            let problem = Problem::new(shape.parse::<Shape>().unwrap(), Dtype::F32);
            let library = library.map(|(time, [low, high])| LibraryResult {
                name: "cuBLASLt, strict f32, heuristic 3, \"split\"".to_owned(),
                time: Micros(time),
                margin: Some(Margin { percent: (low + high) / 2.0, low, high }),
            });
            let configuration = [("BM".to_owned(), Value::Int(64))].into_iter().collect();
            let family = "blocktile".to_owned();
            let times =
                ComparedTimes { family, configuration, time: Micros(time), library, rounds: 40 };
            LibraryComparison { problem, result: Ok(times) }
        };
        let unknown = Problem::new("7x5x3".parse::<Shape>().unwrap(), Dtype::F32);
        vec![
            of("512x512x512", 10.0, Some((11.0, [18.0, 22.0]))),
            of("4096x4096x1024", 800.0, Some((760.0, [-6.0, -4.0]))),
            of("33x65x129", 3.0, None),
            LibraryComparison::without(unknown, "no record".to_owned()),
        ]
    }

    #[test]
    fn a_table_lists_all_and_sums_up() {
        let table = table(&compared(), &Device::h200(), TableStyle::Text { width: 120 });
        insta::assert_snapshot!(table);
    }

    #[test]
    fn a_line_of_values_has_every_column() {
        let text = csv(&compared());
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().unwrap().len(), 17);
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 3, "the one without a record has no line");
        assert_eq!(&rows[0][11], "cuBLASLt, strict f32, heuristic 3, \"split\"");
        assert_eq!([&rows[0][14], &rows[0][15], &rows[0][16]], ["1.2000", "1.1800", "1.2200"]);
        assert_eq!([&rows[2][11], &rows[2][14]], ["", ""]);
    }

    #[test]
    fn a_document_counts_what_is_slower() {
        let document = document(&compared(), &Device::h200());
        assert_eq!(document["slower"], 1);
        let mean = document["geometric_mean_speedup"].as_f64().unwrap();
        assert!((mean - (1.2_f64 * 0.95).sqrt()).abs() < 1e-12, "{mean}");
        assert_eq!(document["compared"][3]["error"], "no record");
        assert!(document["compared"][2]["speedup"].is_null());
    }
}
