//! Tables of `docs/benchmarks.md` and of the README, of the files in `results/`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{assert_generated, rivals, searches, surfaces, text_of, with_part};

const PAGE: &str = "docs/benchmarks.md";
const README: &str = "README.md";

/// A line of a CSV file, by the names of its columns.
pub(super) type Row = BTreeMap<String, String>;

pub(super) fn rows(path: &str) -> Vec<Row> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    reader.deserialize().map(Result::unwrap).collect()
}

pub(super) fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} is `{}`", row[column]))
}

/// The shape of a row with the layout and batch, where they differ from the usual ones.
fn shape(row: &Row) -> String {
    let mut text = format!("{}x{}x{}", row["m"], row["n"], row["k"]);
    if row["layout"] != "nn" {
        write!(text, " {}", row["layout"]).unwrap();
    }
    if row["batch"] != "1" {
        write!(text, " x{}", row["batch"]).unwrap();
    }
    text
}

/// Problems, with the speed-up of each over the fastest library call.
pub(super) struct Set {
    pub(super) name: &'static str,
    file: &'static str,
    pub(super) speedups: Vec<f64>,
}

impl Set {
    pub(super) fn mean(&self) -> f64 {
        geometric_mean(&self.speedups)
    }

    fn least(&self) -> f64 {
        self.speedups.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn most(&self) -> f64 {
        self.speedups.iter().copied().fold(0.0, f64::max)
    }

    pub(super) fn slower(&self) -> usize {
        self.speedups.iter().filter(|speedup| **speedup < 1.0).count()
    }
}

pub(super) fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// The sets that the README and the picture show.
pub(super) fn sets() -> [Set; 5] {
    let compared = rows("results/compare-h200.csv");
    let over_library = |path| -> Vec<f64> {
        rows(path).iter().map(|row| 1.0 / number(row, "over_library")).collect()
    };
    [
        Set {
            name: "shapes of `compare.txt`, tuned",
            file: "compare-h200.csv",
            speedups: compared.iter().map(|row| number(row, "speedup")).collect(),
        },
        Set {
            name: "shapes of `spread.txt`, mostly odd rows, tuned",
            file: "nvidia-h200.toml",
            speedups: recorded("search-spaces/shapes/spread.txt"),
        },
        Set {
            name: "drawn shapes, answered by `lookup` without tuning",
            file: "lookup-drawn-h200.csv",
            speedups: over_library("results/lookup-drawn-h200.csv"),
        },
        Set {
            name: "drawn shapes on an NVIDIA H100, answered by `lookup` without tuning",
            file: "lookup-drawn-h100.csv",
            speedups: over_library("results/lookup-drawn-h100.csv"),
        },
        Set {
            name: "shapes of `untuned.txt`, answered by `lookup` without tuning",
            file: "lookup-h200.csv",
            speedups: over_library("results/lookup-h200.csv"),
        },
    ]
}

/// The speed-ups in the database of the problems that a file lists.
fn recorded(shapes: &str) -> Vec<f64> {
    let database: toml::Value = toml::from_str(&text_of("results/nvidia-h200.toml")).unwrap();
    let mut known = BTreeMap::new();
    for record in database["record"].as_array().unwrap() {
        let problem = &record["problem"];
        let row: Row = ["m", "n", "k", "batch", "layout"]
            .map(|key| (key.to_owned(), problem[key].to_string().trim_matches('"').to_owned()))
            .into();
        let speedup = record.get("baseline").and_then(|own| own["speedup"].as_float());
        known.insert(shape(&row), speedup);
    }
    let list = text_of(shapes);
    let lines = list.lines().filter_map(|line| line.split('#').next());
    let lines = lines.map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| known[line].expect("libraries were measured")).collect()
}

fn summary() -> String {
    let mut text = String::from(
        "| problems | speed-up, geometric mean | worst | best | slower | file |\n|---|---|---|---|---|---|\n",
    );
    for set in sets() {
        let Set { name, file, speedups } = &set;
        writeln!(
            text,
            "| {} {name} | {:.2} | {:.2} | {:.2} | {} | `{file}` |",
            speedups.len(),
            set.mean(),
            set.least(),
            set.most(),
            set.slower()
        )
        .unwrap();
    }
    text
}

fn winners() -> String {
    let mut text = String::from(
        "| problem | family | time, µs | TFLOP/s | library, µs | speed-up | interval |\n|---|---|---|---|---|---|---|\n",
    );
    for row in rows("results/compare-h200.csv") {
        writeln!(
            text,
            "| {} | `{}` | {} | {} | {} | {:.3} | {:.3} to {:.3} |",
            shape(&row),
            row["family"],
            short(number(&row, "median_us")),
            short(number(&row, "tflops")),
            short(number(&row, "library_us")),
            number(&row, "speedup"),
            number(&row, "speedup_low"),
            number(&row, "speedup_high")
        )
        .unwrap();
    }
    text
}

/// Lists of products on tensor cores, and their files.
const TENSOR_CORES: [(&str, &str); 6] = [
    ("bf16, `tensor-cores.txt`", "results/tensor-cores-h200.csv"),
    ("bf16, `aligned.txt`", "results/aligned-bf16-h200.csv"),
    ("bf16, `unaligned.txt`", "results/unaligned-bf16-h200.csv"),
    ("f16, `tensor-cores.txt`", "results/f16-h200.csv"),
    ("tf32, `tf32.txt`", "results/tf32-h200.csv"),
    ("i8, `i8.txt`", "results/i8-h200.csv"),
];

/// The same on an H100.
const TENSOR_CORES_H100: [(&str, &str); 3] = [
    ("bf16, `tensor-cores.txt`", "results/tensor-cores-h100.csv"),
    ("bf16, `aligned.txt`", "results/aligned-bf16-h100.csv"),
    ("f16, `tensor-cores.txt`", "results/f16-h100.csv"),
];

/// The lists with their speed-ups.
pub(super) fn tensor_core_sets() -> Vec<Set> {
    TENSOR_CORES.into_iter().map(compared).collect()
}

fn compared((name, file): (&'static str, &'static str)) -> Set {
    let speedups = rows(file).iter().map(|row| number(row, "speedup")).collect();
    Set { name, file, speedups }
}

/// A line for each list of problems.
fn speedups_of(sets: Vec<Set>) -> String {
    let mut text = String::from(
        "| problems | speed-up, geometric mean | worst | best | below 0.97 | file |\n|---|---|---|---|---|---|\n",
    );
    for set in sets {
        let name = format!("{} of {}", set.speedups.len(), set.name);
        let (mean, worst, best, file) = (set.mean(), set.least(), set.most(), set.file);
        let below = set.speedups.iter().filter(|speedup| **speedup < 0.97).count();
        writeln!(text, "| {name} | {mean:.3} | {worst:.2} | {best:.2} | {below} | `{file}` |")
            .unwrap();
    }
    text
}

fn tensor_cores_of_h100() -> String {
    speedups_of(TENSOR_CORES_H100.into_iter().map(compared).collect())
}

/// Speed-ups of products on tensor cores, list by list and then problem by problem.
fn tensor_cores() -> String {
    let mut text = speedups_of(tensor_core_sets());
    text += "\n| problem | time, µs | TFLOP/s | library, µs | speed-up | interval |\n|---|---|---|---|---|---|\n";
    for (_, file) in TENSOR_CORES {
        for row in rows(file) {
            writeln!(
                text,
                "| {} {} | {} | {} | {} | {:.3} | {:.3} to {:.3} |",
                row["dtype"],
                shape(&row),
                short(number(&row, "median_us")),
                short(number(&row, "tflops")),
                short(number(&row, "library_us")),
                number(&row, "speedup"),
                number(&row, "speedup_low"),
                number(&row, "speedup_high")
            )
            .unwrap();
        }
    }
    text
}

/// A table with a line a shape and a column a contestant.
fn ladder(path: &str) -> String {
    let rows = rows(path);
    let mut names: Vec<&str> = Vec::new();
    let mut shapes: Vec<String> = Vec::new();
    let mut cells: BTreeMap<(String, &str), String> = BTreeMap::new();
    let mut speedups: BTreeMap<String, f64> = BTreeMap::new();
    for row in &rows {
        let is_library = row["family"].is_empty();
        let name = if is_library { "best library" } else { row["contestant"].as_str() };
        if !names.contains(&name) {
            names.push(name);
        }
        let shape = shape(row);
        if !shapes.contains(&shape) {
            shapes.push(shape.clone());
        }
        if name == "winner" {
            speedups.insert(shape.clone(), number(row, "speedup"));
        }
        let tflops = number(row, "tflops");
        let cell = cells.entry((shape, name)).or_default();
        if cell.is_empty() || cell.parse::<f64>().is_ok_and(|known| known < tflops) {
            *cell = short(tflops);
        }
    }
    let mut text = format!("| MxNxK | {} | speed-up |\n", names.join(" | "));
    writeln!(text, "|---{}|---|", "|---".repeat(names.len())).unwrap();
    for shape in shapes {
        let line: Vec<&str> =
            names.iter().map(|name| cells[&(shape.clone(), *name)].as_str()).collect();
        writeln!(text, "| {shape} | {} | {:.3} |", line.join(" | "), speedups[&shape]).unwrap();
    }
    text
}

/// The same with a line a contestant and a column a shape.
fn climb(path: &str) -> String {
    let rows = rows(path);
    let mut names: Vec<&str> = Vec::new();
    let mut shapes: Vec<String> = Vec::new();
    let mut best: BTreeMap<(&str, String), f64> = BTreeMap::new();
    for row in &rows {
        let is_library = row["family"].is_empty();
        let name = if is_library { "best library" } else { row["contestant"].as_str() };
        let shape = shape(row);
        if !names.contains(&name) {
            names.push(name);
        }
        if !shapes.contains(&shape) {
            shapes.push(shape.clone());
        }
        let cell = best.entry((name, shape)).or_default();
        *cell = cell.max(number(row, "tflops"));
    }
    let mut text = format!("| | {} |\n|---{}|\n", shapes.join(" | "), "|---".repeat(shapes.len()));
    for name in names {
        let cells = shapes.iter().map(|shape| {
            best.get(&(name, shape.clone())).map_or(String::new(), |tflops| short(*tflops))
        });
        writeln!(text, "| {name} | {} |", cells.collect::<Vec<_>>().join(" | ")).unwrap();
    }
    text
}

fn lookup() -> String {
    let mut text = String::from(
        "| problems | source | count | over the tuned time | worst | over the library's | worst | with the library | worst |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for (name, path) in [
        ("`untuned.txt`", "results/lookup-h200.csv"),
        ("drawn", "results/lookup-drawn-h200.csv"),
        ("drawn, bf16", "results/lookup-drawn-bf16-h200.csv"),
        ("drawn, f16", "results/lookup-drawn-f16-h200.csv"),
        ("drawn, on an H100", "results/lookup-drawn-h100.csv"),
    ] {
        let rows = rows(path);
        for source in ["all", "learned", "neighbour", "default"] {
            let of = |column| -> Vec<f64> {
                let is_one = |row: &&Row| source == "all" || row["source"] == source;
                rows.iter().filter(is_one).map(|row| number(row, column)).collect()
            };
            let (tuned, library) = (of("over_tuned"), of("over_library"));
            let with_library = of("with_library_over");
            if tuned.is_empty() {
                continue;
            }
            let worst = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
            writeln!(
                text,
                "| {name} | {source} | {} | {:.3} | {:.2} | {:.3} | {:.2} | {:.3} | {:.2} |",
                tuned.len(),
                geometric_mean(&tuned),
                worst(&tuned),
                geometric_mean(&library),
                worst(&library),
                geometric_mean(&with_library),
                worst(&with_library)
            )
            .unwrap();
        }
    }
    text
}

fn calls() -> String {
    let mut text = String::from(
        "| module | speed of `torch.matmul` | worst | slower | host time | host time of `torch.matmul` | first call |\n|---|---|---|---|---|---|---|\n",
    );
    for (name, path) in [
        ("predicts", "results/eager-h200.csv"),
        ("predicts, `--with-library`", "results/eager-library-h200.csv"),
        ("`GEMM_TUNED_MEASURE=1`", "results/eager-measured-h200.csv"),
    ] {
        let rows = rows(path);
        let speeds: Vec<f64> =
            rows.iter().map(|row| number(row, "torch_wall_us") / number(row, "wall_us")).collect();
        let median = |column| {
            let mut values: Vec<f64> = rows.iter().map(|row| number(row, column)).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        writeln!(
            text,
            "| {name} | {:.3} | {:.2} | {} of {} | {} µs | {} µs | {} µs |",
            geometric_mean(&speeds),
            speeds.iter().copied().fold(f64::INFINITY, f64::min),
            speeds.iter().filter(|speed| **speed < 1.0).count(),
            speeds.len(),
            short(median("host_us")),
            short(median("torch_host_us")),
            short(median("first_us"))
        )
        .unwrap();
    }
    text
}

/// A number with three digits at least, and commas between thousands.
pub(super) fn short(value: f64) -> String {
    let digits = match value {
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    if digits > 0 || text.len() < 4 {
        return text;
    }
    let mut grouped = String::new();
    for (at, digit) in text.chars().enumerate() {
        if at > 0 && (text.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[test]
fn tables_are_those_of_the_results() {
    let mut page = text_of(PAGE);
    for (name, text) in [
        ("summary", summary()),
        ("winners", winners()),
        ("tensor-cores", tensor_cores()),
        ("ladder", ladder("results/ladder-h200.csv")),
        ("cubes", ladder("results/cubes-h200.csv")),
        ("lookup", lookup()),
        ("calls", calls()),
        ("surfaces", surfaces::surfaces()),
        ("tensor-core-searches", searches::searches()),
        ("rivals", rivals::of_f32()),
        ("tensor-cores-h100", tensor_cores_of_h100()),
        ("tensor-core-ladder", climb("results/ladder-tensor-cores-h200.csv")),
        ("tensor-core-rivals", rivals::of_tensor_cores()),
    ] {
        page = with_part(&page, name, &text);
    }
    assert_generated(PAGE, &page);
    let readme = with_part(&text_of(README), "summary", &summary());
    assert_generated(README, &with_part(&readme, "rivals", &rivals::of_f32()));
}

#[test]
fn numbers_are_short() {
    let numbers = [0.204, 4.573, 18.25, 674.84, 124_362.0, 1_487.2];
    assert_eq!(numbers.map(short), ["0.20", "4.57", "18.2", "675", "124,362", "1,487"]);
}
