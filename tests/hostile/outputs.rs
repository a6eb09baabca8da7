//! Places that are written to: what cannot be written is said, and what stood there stays.

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
    cases
}
