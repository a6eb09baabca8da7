//! Tables of `docs/benchmarks.md` and of the README, and the picture of speed-ups, of the files in `results/`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::{assert_generated, text_of, with_part};

const PAGE: &str = "docs/benchmarks.md";
const README: &str = "README.md";
const PICTURE: &str = "docs/pictures/speedups.svg";

/// A line of a CSV file, by the names of its columns.
type Row = BTreeMap<String, String>;

fn rows(path: &str) -> Vec<Row> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    reader.deserialize().map(Result::unwrap).collect()
}

fn number(row: &Row, column: &str) -> f64 {
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
struct Set {
    name: &'static str,
    file: &'static str,
    speedups: Vec<f64>,
}

impl Set {
    fn mean(&self) -> f64 {
        geometric_mean(&self.speedups)
    }

    fn least(&self) -> f64 {
        self.speedups.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn most(&self) -> f64 {
        self.speedups.iter().copied().fold(0.0, f64::max)
    }

    fn slower(&self) -> usize {
        self.speedups.iter().filter(|speedup| **speedup < 1.0).count()
    }
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// The sets that the README and the picture show.
fn sets() -> [Set; 4] {
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
            name: "shapes of `spread.txt`, mostly odd rows, tuned for 8 s each",
            file: "nvidia-h200.toml",
            speedups: recorded("search-spaces/shapes/spread.txt"),
        },
        Set {
            name: "drawn shapes, answered by `lookup` without tuning",
            file: "lookup-drawn-h200.csv",
            speedups: over_library("results/lookup-drawn-h200.csv"),
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
const TENSOR_CORES: [(&str, &str); 3] = [
    ("bf16, `tensor-cores.txt`", "results/tensor-cores-h200.csv"),
    ("tf32, `tf32.txt`", "results/tf32-h200.csv"),
    ("i8, `i8.txt`", "results/i8-h200.csv"),
];

/// Speed-ups of products on tensor cores, list by list and then problem by problem.
fn tensor_cores() -> String {
    let mut text = String::from(
        "| problems | speed-up, geometric mean | worst | best | below 0.97 | file |\n|---|---|---|---|---|---|\n",
    );
    for (name, file) in TENSOR_CORES {
        let speedups: Vec<f64> = rows(file).iter().map(|row| number(row, "speedup")).collect();
        let name = format!("{} of {name}", speedups.len());
        let worst = speedups.iter().copied().fold(f64::INFINITY, f64::min);
        let best = speedups.iter().copied().fold(0.0, f64::max);
        let below = speedups.iter().filter(|speedup| **speedup < 0.97).count();
        let mean = geometric_mean(&speedups);
        writeln!(text, "| {name} | {mean:.3} | {worst:.2} | {best:.2} | {below} | `{file}` |")
            .unwrap();
    }
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

fn lookup() -> String {
    let mut text = String::from(
        "| problems | source | count | over the tuned time | worst | over the library's | worst |\n|---|---|---|---|---|---|---|\n",
    );
    for (name, path) in
        [("`untuned.txt`", "results/lookup-h200.csv"), ("drawn", "results/lookup-drawn-h200.csv")]
    {
        let rows = rows(path);
        for source in ["all", "learned", "neighbour", "default"] {
            let of = |column| -> Vec<f64> {
                let is_one = |row: &&Row| source == "all" || row["source"] == source;
                rows.iter().filter(is_one).map(|row| number(row, column)).collect()
            };
            let (tuned, library) = (of("over_tuned"), of("over_library"));
            let worst = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
            writeln!(
                text,
                "| {name} | {source} | {} | {:.3} | {:.2} | {:.3} | {:.2} |",
                tuned.len(),
                geometric_mean(&tuned),
                worst(&tuned),
                geometric_mean(&library),
                worst(&library)
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

fn rivals() -> String {
    let columns = [
        ("gemm-tune", "f32", "gemm-tune"),
        ("gemm-tune, blocktile", "f32", "its `blocktile` alone"),
        ("Kernel Tuner hybrid_vndx, blocktile", "f32", "Kernel Tuner `hybrid_vndx`"),
        ("Kernel Tuner random_sample, blocktile", "f32", "`random_sample`"),
        ("best library", "f32", "best library"),
        ("Triton autotune", "ieee", "Triton `ieee`"),
        ("Triton autotune", "tf32x3", "`tf32x3`"),
    ];
    let rows = rows("results/side-by-side-h200.csv");
    let mut shapes: Vec<&str> = Vec::new();
    for row in &rows {
        if !shapes.contains(&row["shape"].as_str()) {
            shapes.push(&row["shape"]);
        }
    }
    let mut text = format!("| problem | {} |\n", columns.map(|(.., name)| name).join(" | "));
    writeln!(text, "|---{}|", "|---".repeat(columns.len())).unwrap();
    for shape in shapes {
        let cells = columns.map(|(tuner, precision, _)| {
            let is_one = |row: &&Row| {
                row["shape"] == shape && row["tuner"] == tuner && row["precision"] == precision
            };
            rows.iter().find(is_one).map_or(String::new(), |row| short(number(row, "side_us")))
        });
        writeln!(text, "| {shape} | {} |", cells.join(" | ")).unwrap();
    }
    text
}

/// A number with three digits at least, and commas between thousands.
fn short(value: f64) -> String {
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
        ("rivals", rivals()),
    ] {
        page = with_part(&page, name, &text);
    }
    assert_generated(PAGE, &page);
    let readme = with_part(&text_of(README), "summary", &summary());
    assert_generated(README, &with_part(&readme, "rivals", &rivals()));
}

/// Left end, right end, and height of the picture, in its units.
const PLOT: [f64; 3] = [30.0, 730.0, 330.0];
/// Speed-ups at the ends.
const ENDS: [f64; 2] = [0.7, 13.0];
/// Radius of a dot.
const DOT: f64 = 2.8;
/// Height of a set.
const BAND: f64 = 92.0;

/// One dot for each problem, by its speed-up, in three bands.
fn picture() -> String {
    let [left, right, height] = PLOT;
    let at = |speedup: f64| {
        let share = (speedup / ENDS[0]).ln() / (ENDS[1] / ENDS[0]).ln();
        left + (right - left) * share.clamp(0.0, 1.0)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 {height}\" width=\"760\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <title>Speed-up over the fastest library call, one dot for each problem</title>\n\
         <rect width=\"760\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for tick in [0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0] {
        let (x, is_one) = (at(tick), tick == 1.0);
        let colour = if is_one { "#333333" } else { "#dddddd" };
        writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"12\" x2=\"{x:.1}\" y2=\"292\" stroke=\"{colour}\"/>"
        )
        .unwrap();
        writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"308\" text-anchor=\"middle\" fill=\"#333333\">{tick}</text>"
        )
        .unwrap();
    }
    let legend = "speed-up over the fastest call of cuBLAS and cuBLASLt: right of 1 gemm-tune is faster (NVIDIA H200, strict f32)";
    writeln!(
        svg,
        "<text x=\"380\" y=\"325\" text-anchor=\"middle\" fill=\"#333333\">{legend}</text>"
    )
    .unwrap();
    for (band, (set, colour)) in sets().iter().zip(["#1b6ca8", "#2a8a5d", "#b4530a"]).enumerate() {
        let top = 14.0 + band as f64 * BAND;
        let middle = top + 54.0;
        let name = set.name.replace('`', "");
        let name = name.replace(", mostly odd rows", "").replace(", answered by lookup", ",");
        let title = [
            format!("{} {name}", set.speedups.len()),
            format!("{:.2} in the geometric mean, {} slower", set.mean(), set.slower()),
        ];
        for (x, y) in dots(set.speedups.iter().map(|speedup| at(*speedup)).collect(), middle) {
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{DOT}\" fill=\"{colour}\" fill-opacity=\"0.75\"/>").unwrap();
        }
        for (line, text) in title.iter().enumerate() {
            let (x, y) = (right - 2.0, top + 14.0 + 18.0 * line as f64);
            writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\" fill=\"{colour}\" font-weight=\"600\">{text}</text>"
            )
            .unwrap();
        }
    }
    svg + "</svg>\n"
}

/// Places of dots around a line: each as near to it as the dots before it let it be.
fn dots(mut at: Vec<f64>, middle: f64) -> Vec<(f64, f64)> {
    at.sort_by(f64::total_cmp);
    let mut placed: Vec<(f64, f64)> = Vec::new();
    for x in at {
        let free = |y: f64| placed.iter().all(|(x2, y2)| (x - x2).hypot(y - y2) >= 1.8 * DOT);
        let offsets = (0..40).flat_map(|step| [f64::from(step), -f64::from(step)]);
        let y = offsets.map(|offset| middle + offset).find(|y| free(*y)).unwrap_or(middle);
        placed.push((x, y));
    }
    placed
}

#[test]
fn the_picture_of_speedups_is_that_of_the_results() {
    assert_generated(PICTURE, &picture());
    assert!(Path::new(PICTURE).exists());
}

#[test]
fn numbers_are_short() {
    let numbers = [0.204, 4.573, 18.25, 674.84, 124_362.0, 1_487.2];
    assert_eq!(numbers.map(short), ["0.20", "4.57", "18.2", "675", "124,362", "1,487"]);
}
