//! Measuring on first use by an artifact: in one process, and by several that share a file.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use gemm_tune::model::{Layout, Problem, Shape};

use super::artifact::{Exported, Kind};
use super::{build, with_stub};
use crate::support::without::skip;

/// Processes that measure at once, and the problems of each.
const PROCESSES: usize = 4;
const PROBLEMS: usize = 12;

/// tests/artifacts/measure.py in one of its modes.
fn command(exported: &Exported, file: &Path, mode: &str) -> Command {
    let mut command = with_stub(Path::new("python3"), &exported.folder);
    command
        .args(["-B", "tests/artifacts/measure.py"])
        .arg(&exported.folder)
        .arg(file)
        .arg(mode)
        .env("GEMM_TUNED_MEASURE_FILE", file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What a process prints, once it ended well.
fn end(mut child: Child, input: &str) -> String {
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn a_first_use_is_measured_where_the_user_asks_and_processes_share_what_was_found() {
    let exported = Exported::new(Kind::Measured);
    if build(&exported).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep/measured.txt");
    let is_plain = |problem: &&Problem| problem.layout == Layout::Nn && problem.batch == 1;
    let Shape { m, n, k } = exported.tuned.iter().find(is_plain).unwrap().shape;
    match command(&exported, &file, "check").spawn() {
        Ok(child) => assert_eq!(end(child, &format!("{m}x{n}x{k}\n")), "right"),
        Err(error) => return skip("python", &format!("no python3: {error}")),
    }
    let shared = folder.path().join("shared.txt");
    let start = |_| command(&exported, &shared, &PROBLEMS.to_string()).spawn().unwrap();
    let processes: Vec<Child> = (0..PROCESSES).map(start).collect();
    processes.into_iter().for_each(|child| assert_eq!(end(child, ""), ""));
    let text = fs::read_to_string(&shared).unwrap();
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split(' ').collect::<Vec<_>>()).collect();
    assert!(lines.iter().all(|words| words.len() == 11), "{text}");
    let mut problems: Vec<_> = lines.iter().map(|words| &words[..9]).collect();
    assert!(problems.len() <= PROCESSES * PROBLEMS);
    problems.sort_unstable();
    problems.dedup();
    assert_eq!(problems.len(), PROBLEMS, "{text}");
}
