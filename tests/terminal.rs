//! What people see in terminals of 80 and 120 columns: no line is longer, no word is broken, and snapshots.

use std::collections::HashSet;
use std::process::Command;

use crate::support::program::path;
use crate::support::without::skip;
use crate::support::{CACHE, nvrtc_or_skip};

/// What a program writes to a terminal, without colours; a line that is drawn again counts each time.
fn seen(columns: usize, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("python3");
    command.args(["-B", "tests/support/terminal.py", &columns.to_string()]);
    command.arg(path());
    command.args(arguments).env("GEMM_TUNE_CACHE", CACHE).env_remove("NO_COLOR");
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            skip("python", &format!("no python3: {error}"));
            return None;
        }
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{arguments:?}: {text}");
    let plain = text.replace("\r\n", "\n").replace('\r', "\n");
    Some(anstream::adapter::strip_str(&plain).to_string())
}

const DB: &str = "tests/databases/h200.toml";

#[test]
fn lines_end_between_words() {
    let shape = ["--db", DB, "--device-name", "h200"];
    for command in [
        &["lookup", "33x65x129"][..],
        &["lookup", "4096x4096x1000", "--layout", "tt"],
        &["db", "list", "--db", DB],
        &["db", "show", "33x65x129", "--db", DB],
    ] {
        let arguments =
            if command[0] == "lookup" { [command, &shape].concat() } else { command.to_vec() };
        let Some(wide) = seen(400, &arguments) else { return };
        let words: HashSet<&str> = wide.split_whitespace().collect();
        for columns in [80, 120] {
            let text = seen(columns, &arguments).unwrap();
            for line in text.lines() {
                assert!(line.chars().count() <= columns, "{arguments:?} at {columns}: {line}");
            }
            let broken = text.split_whitespace().find(|word| !words.contains(word));
            assert_eq!(broken, None, "{arguments:?} at {columns}:\n{text}");
        }
    }
}

#[test]
fn people_see_answers_and_lists() {
    let lookup = ["lookup", "4096x4096x1000", "--db", DB, "--device-name", "h200"];
    for (name, arguments) in [
        ("lookup", &lookup[..]),
        ("list", &["db", "list", "--db", DB]),
        ("record", &["db", "show", "33x65x129", "--db", DB]),
    ] {
        for columns in [80, 120] {
            let Some(text) = seen(columns, arguments) else { return };
            insta::assert_snapshot!(format!("{name}-{columns}"), text);
        }
    }
}

#[test]
fn people_see_a_search_and_its_winner() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("winners.toml");
    let [nvrtc, database] = [nvrtc.path(), &database].map(|path| path.to_str().unwrap());
    let search = ["--device", "cpu", "--fresh", "--uninformed", "--search", "exhaustive"];
    for columns in [80, 120] {
        let arguments = ["48x40x32", "--family", "tiled", "--nvrtc", nvrtc, "--db", database];
        let Some(text) = seen(columns, &[&arguments[..], &search].concat()) else { return };
        let too_long = text.lines().find(|line| line.chars().count() > columns);
        assert_eq!(too_long, None);
        // Drawn bars come and go.
        let lasting = text.lines().filter(|line| !line.contains(['█', '░']));
        let lasting = lasting.collect::<Vec<_>>().join("\n").replace(database, "DATABASE");
        insta::assert_snapshot!(format!("search-{columns}"), lasting);
    }
}
