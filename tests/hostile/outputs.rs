//! Places that are written to: what cannot be written is said, and what stood there stays.

use std::path::Path;

use super::case::{Case, case};

/// Commands that write one file, with the name `out`, of a database and a journal that lie there.
const WRITERS: [&str; 5] = [
    "export --format json --db d.toml -o out",
    "export --format csv --db d.toml -o out",
    "export --format kernel-tuner --journal j --family naive -o out",
    "report --db d.toml -o out",
    "db merge d.toml -o out",
];

/// Commands that write a folder.
const FOLDERS: [&str; 1] = ["export --format wisdom --db d.toml -o out"];

const JOURNAL: &str = include_str!("naive.jsonl");

fn writer(name: &str, call: &str) -> Case {
    case(format!("{name}: {call}"))
        .copy("d.toml", "tests/databases/one.toml")
        .file("j", JOURNAL)
        .run(call)
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for call in WRITERS {
        cases.push(
            writer("a folder stands there", call)
                .folder("out", 0o755)
                .fails(1)
                .says(["`out`", "directory"]),
        );
        let below = call.replace("-o out", "-o f/out");
        cases
            .push(writer("below a file", &below).file("f", "x").fails(1).says(["cannot write `f"]));
        let below = call.replace("-o out", "-o locked/out");
        cases.push(
            writer("in a folder that may not be written", &below)
                .unprivileged()
                .folder("locked", 0o555)
                .fails(1)
                .says(["locked", "Permission denied"]),
        );
    }
    for call in FOLDERS {
        cases.push(writer("a file stands there", call).file("out", "x").fails(1).says(["out/"]));
        let below = call.replace("-o out", "-o locked/out");
        cases.push(
            writer("in a folder that may not be written", &below)
                .unprivileged()
                .folder("locked", 0o555)
                .fails(1)
                .says(["locked", "Permission denied"]),
        );
    }
    cases.extend(failures());
    cases
}

/// Commands that fail before they have a result: they leave no folder and no file.
fn failures() -> Vec<Case> {
    let without_compiler = |call: &str| {
        case(format!("no compiler: {call}"))
            .env("GEMM_TUNE_NVRTC", "/nowhere")
            .copy("d.toml", "tests/databases/one.toml")
            .run(call)
            .run("--offline --cache cache")
            .fails(1)
    };
    let tune = "tune --device cpu --shape 8x8x8";
    let cover = "cover --device cpu";
    let mut cases: Vec<Case> = Vec::new();
    for call in [tune, cover] {
        cases.push(without_compiler(call).absent("results").absent("cache/journal"));
        let named = format!("{call} --db new/below/db.toml");
        cases.push(without_compiler(&named).absent("new"));
        let empty = without_compiler(call).folder("results", 0o755);
        cases.push(empty.named(&format!("no compiler, an empty folder: {call}")).after(is_empty));
    }
    for format in ["bundle", "c", "python", "rust"] {
        let call = format!("export --format {format} -o new/out --db d.toml");
        cases.push(without_compiler(&call).absent("new"));
    }
    for call in [
        "db merge d.toml none.toml -o new/out.toml",
        "export --format csv --db none.toml -o new/out",
    ] {
        cases.push(writer("a missing input", call).fails(1).says(["none.toml"]).absent("new"));
    }
    cases.push(
        writer("a disk that takes nothing", "export --format json --db d.toml -o new/below/out")
            .ulimit("-f 1")
            .fails(1)
            .says(["cannot write `new/below/out`"])
            .absent("new"),
    );
    cases
}

fn is_empty(folder: &Path) -> Result<(), String> {
    let left = std::fs::read_dir(folder.join("results")).into_iter().flatten().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("  results/ has {left:?}")) }
}
