//! How calls end: closed and full outputs, signals, limits of the system, work without an end.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use super::case::{Case, Output, case, rows};

/// Macros that expand to 10^11 terms.
fn macros() -> String {
    let mut text = String::from("#define X0 +x[0]\n");
    for level in 1..12 {
        text += &format!("#define X{level}{}\n", format!(" X{}", level - 1).repeat(10));
    }
    text + "extern \"C\" __global__ void boom(float* x) { x[1] = 0 X11; }\n"
}

const LOOPS: &str = "{% for i in range(end=60000) %}{% for j in range(end=60000) %}{% endfor %}\
    {% endfor %}\n";

const DOUBLED: &str = "{% set_global s = \"xxxxxxxx\" %}{% for i in range(end=60) %}\
    {% set_global s = s ~ s %}{% endfor %}// {{ s }}\n";

/// A call that tunes a family of the case's own, whose template begins with a text.
fn tunes(name: &str, template: &str) -> Case {
    let rest = std::fs::read_to_string("templates/naive.cu.tera").unwrap();
    case(name)
        .copy("s/naive.toml", "search-spaces/naive.toml")
        .file("t/naive.cu.tera", template.to_owned() + &rest)
        .run("tune --device cpu --spaces s --templates t --shape 32x32x32")
        .run("--offline --cache cache --db out.toml")
        .with_nvrtc()
        .changes("out.toml")
        .once()
}

fn has_record(folder: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(folder.join("out.toml")).unwrap_or_default();
    if text.contains("[[record]]") { Ok(()) } else { Err("  out.toml has no record".to_owned()) }
}

/// The family `naive` with as many values of its first parameter.
fn naive_with(count: u32) -> String {
    let values: Vec<String> = (1..=count).map(|value| value.to_string()).collect();
    let space = std::fs::read_to_string("search-spaces/naive.toml").unwrap();
    space.replace("[8, 16, 32, 64, 128]", &format!("[{}]", values.join(", ")))
}

/// How many outcomes the journals below a folder have.
fn outcomes(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let counts = entries.map(|entry| match entry.path() {
        path if path.is_dir() => outcomes(&path),
        path if path.extension().is_some_and(|extension| extension == "jsonl") => {
            std::fs::read_to_string(path).unwrap_or_default().lines().count().saturating_sub(1)
        }
        _ => 0,
    });
    counts.sum()
}

/// Numbers that would take all memory or time, and their limits.
const LIMITS: &[(&str, &[&str])] = &[
    ("tune --shape 8x8x8 --device cpu --jobs 100000000", &["`--jobs 100000000`", "1024"]),
    ("tune --shapes s --device cpu --shard 1/100000000000", &["100000000000 shards", "1000000"]),
    (
        "tune --shapes s --device cpu --shard 18446744073709551615/18446744073709551615",
        &["the most are 1000000"],
    ),
    ("tune --shape 8x8x8 --device cpu --compile-timeout 5", &["`5` is no time", "`60s`"]),
    ("tune --shape 8x8x8 --device cpu --compile-timeout 0s", &["`0s` is no time"]),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> =
        rows(2, LIMITS).into_iter().map(|row| row.file("s", "8x8x8\n")).collect();
    cases.push(
        case("a parameter with 100,000 values")
            .file("s/naive.toml", naive_with(100_000))
            .run("tune --device cpu --spaces s --shape 8x8x8")
            .fails(1)
            .says(["`BLOCK_X` has 100000 values", "4096"]),
    );
    cases.extend(outputs());
    cases.extend(little_address_space());
    cases.extend(endless());
    cases
}

/// Limits of address space, from one that barely loads the program to one that suffices.
fn little_address_space() -> Vec<Case> {
    let calls = [
        "db list --db d.toml",
        "lookup --shape 128x128x128 --db d.toml",
        "explain --shape 4096x4096x4096 --db d.toml --offline --cache cache",
        "tune --shape 8x8x8 --device cpu --max-configs 1 --offline --cache cache --db out.toml",
    ];
    let mut cases = Vec::new();
    for call in calls {
        for limit in [120_000, 250_000, 450_000, 1_500_000] {
            let row = case(format!("{call} in {limit} KiB"))
                .copy("d.toml", "results/nvidia-h200.toml")
                .run(call)
                .ulimit(&format!("-v {limit}"))
                .within(60.0);
            cases.push(if limit < 500_000 {
                row.fails(1).says(["the limit of address space is", "`ulimit -v unlimited`"])
            } else {
                // A compiler may be missing, and a machine with many processors needs more.
                row.changes("out.toml").ends_with(&[0, 1]).once()
            });
        }
    }
    cases
}

/// Outputs that take nothing.
fn outputs() -> Vec<Case> {
    let list = |name: &str| {
        case(name).copy("d.toml", "tests/databases/one.toml").run("db list --json --db d.toml")
    };
    let lost = "cannot write to standard output";
    vec![
        list("a list into a closed pipe").stdout(Output::BrokenPipe).never_says("error"),
        list("a list into a full device").stdout(Output::Full).fails(1).says([lost, "space"]),
        list("a list without an output").stdout(Output::Closed),
        list("a list whose messages are lost").stderr(Output::Full),
        case("help into a full device").run("--help").stdout(Output::Full).fails(1).says([lost]),
        case("help into a closed pipe").run("--help").stdout(Output::BrokenPipe),
        tunes("a winner is recorded though its messages are lost", "")
            .run("--max-configs 2")
            .within(20.0)
            .stderr(Output::Full)
            .after(has_record),
        tunes("a winner is recorded though its result is lost", "")
            .run("--max-configs 2")
            .within(20.0)
            .stdout(Output::Full)
            .fails(1)
            .says([lost])
            .after(has_record),
        tunes("a winner is recorded though nobody reads its result", "")
            .run("--max-configs 2")
            .within(20.0)
            .stdout(Output::BrokenPipe)
            .after(has_record),
        case("a database beyond the limit of file sizes")
            .copy("d.toml", "results/nvidia-h200.toml")
            .run("db merge d.toml -o out.toml")
            .ulimit("-f 100")
            .fails(1)
            .says(["cannot write `out.toml`", "File too large"])
            .absent("out.toml"),
    ]
}

/// Work that does not end by itself.
fn endless() -> Vec<Case> {
    let soon = Duration::from_millis(2500);
    vec![
        tunes("macros without an end", &macros())
            .run("--compile-timeout 2s --jobs 2")
            .fails(1)
            .within(30.0)
            .says(["did not finish within 2.0 s"]),
        tunes("SIGTERM while macros expand", &macros()).signal(soon, Signal::TERM).fails(143),
        tunes("SIGTERM in a search that has found something", "")
            .file("s/naive.toml", naive_with(1024))
            .run("--search exhaustive")
            .within(60.0)
            .signal_when(|folder, _| outcomes(&folder.join("cache")) >= 8, Signal::TERM)
            .fails(143)
            .after(has_record),
        tunes("SIGINT while macros expand", &macros()).signal(soon, Signal::INT).fails(130),
        tunes("SIGTERM while a template renders", LOOPS).signal(soon, Signal::TERM).fails(143),
        tunes("a template that fills the memory", DOUBLED)
            .run("--max-configs 1 --quiet")
            .within(60.0)
            .fails(1)
            // Its memory or, on a busy machine, its time ends first.
            .says(["no correct kernel for 32x32x32"]),
    ]
}
