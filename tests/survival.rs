//! What is left when the program is killed, and when several of it run at once. On the `cpu` device,
//! so that no GPU is needed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gemm_tune::database::Database;

use crate::support::cases::cases;
use crate::support::without::skip;
use crate::support::{nvrtc_or_skip, program};

/// A folder for caches, journals and databases, and the NVRTC to use.
struct Place {
    folder: tempfile::TempDir,
    nvrtc: PathBuf,
}

impl Place {
    fn new() -> Option<Self> {
        let nvrtc = nvrtc_or_skip()?.path().to_owned();
        Some(Self { folder: tempfile::tempdir().unwrap(), nvrtc })
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("db.toml")
    }

    /// Tunes shapes over some small spaces.
    fn tune(&self, shape: &str, more: &[&str]) -> Child {
        self.command(shape, more).spawn().unwrap()
    }

    fn command(&self, shape: &str, more: &[&str]) -> Command {
        let mut command = Command::new(program::path());
        command
            .args(["--device", "cpu", "--family", "naive", "--family", "coarsened"])
            // All of them, in an order that the times have no part in.
            .args(["--shape", shape, "--search", "exhaustive", "--json", "--quiet"])
            .args(more)
            .arg("--nvrtc")
            .arg(&self.nvrtc)
            .arg("--cache")
            .arg(self.folder.path().join("cache"))
            .arg("--db")
            .arg(self.database())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The kernels of the journal's whole lines, in order.
    fn journal(&self) -> Vec<String> {
        let folder = self.folder.path().join("cache/journal/cpu");
        let Ok(mut files) = fs::read_dir(folder) else { return Vec::new() };
        let Some(file) = files.next() else { return Vec::new() };
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let lines = text.lines().skip(1).filter_map(|line| serde_json::from_str(line).ok());
        lines.map(|line: serde_json::Value| line["kernel"].as_str().unwrap().to_owned()).collect()
    }

    /// Whether any process still names the folder.
    fn has_processes(&self) -> bool {
        let name = self.folder.path().to_string_lossy().into_owned();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes.into_iter().any(|process| {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&name)
        })
    }
}

fn succeeds(child: Child) -> serde_json::Value {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn shapes(database: &Path) -> Vec<[u64; 3]> {
    let database = Database::load(database).unwrap();
    let problems = database.records().iter().map(|record| &record.problem);
    problems.map(|problem| [problem.m, problem.n, problem.k]).collect()
}

#[test]
fn a_killed_run_loses_nothing_and_the_next_one_goes_on() {
    let Some(place) = Place::new() else { return };
    let mut random = fastrand::Rng::with_seed(5);
    let mut known: Vec<String> = Vec::new();
    for _ in 0..cases(6, 20) {
        let mut child = place.tune("96x80x64", &[]);
        std::thread::sleep(Duration::from_millis(random.u64(100..1200)));
        child.kill().unwrap();
        child.wait().unwrap();
        // The kernel signals the children before the parent can be waited for; they end a moment later.
        let ended = holds_within(Duration::from_secs(5), || !place.has_processes());
        assert!(ended, "children live on");
        Database::load(&place.database()).unwrap();
        let now = place.journal();
        assert_eq!(now[..known.len()], known, "what was written stays");
        known = now;
    }
    println!("{} kernels were evaluated by the runs that were killed", known.len());
    let document = succeeds(place.tune("96x80x64", &[]));
    let result = &document["results"][0];
    let all = place.journal();
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "no kernel is evaluated twice");
    assert_eq!(all[..known.len()], known);
    let sum = |field: &str| -> u64 {
        let families = result["coverage"].as_array().unwrap();
        families.iter().map(|family| family[field].as_u64().unwrap()).sum()
    };
    assert_eq!(sum("evaluated"), sum("legal"));
    assert!(sum("recalled") >= known.len() as u64);
    assert_eq!(shapes(&place.database()), [[96, 80, 64]]);

    // A run that finds everything known evaluates nothing, unless it is asked to.
    let document = succeeds(place.tune("96x80x64", &[]));
    assert_eq!(place.journal(), all);
    assert_eq!(document["results"][0]["recorded"], "kept");
    succeeds(place.tune("96x80x64", &["--fresh"]));
    assert_eq!(place.journal().len(), all.len());
}

#[test]
fn runs_at_once_lose_no_record() {
    let Some(place) = Place::new() else { return };
    let sizes = [16, 24, 32, 40, 48, 56, 64, 72];
    let runs: Vec<Child> = sizes
        .iter()
        .map(|size| place.tune(&format!("{size}x40x20"), &["--max-configs", "6"]))
        .collect();
    runs.into_iter().for_each(|run| drop(succeeds(run)));
    let mut found = shapes(&place.database());
    found.sort_unstable();
    assert_eq!(found, sizes.map(|size| [size, 40, 20]));

    let runs = [1, 2].map(|_| place.tune("80x80x80", &["--max-configs", "12"]));
    runs.into_iter().for_each(|run| drop(succeeds(run)));
    let found = shapes(&place.database());
    assert_eq!(found.len(), sizes.len() + 1);
    assert_eq!(found.iter().filter(|shape| **shape == [80, 80, 80]).count(), 1);
}

/// Whether a condition comes true in time.
fn holds_within(limit: Duration, holds: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// State and parent of a process, by its number; `None` once it is gone.
fn state(process: &str) -> Option<(char, u32)> {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut words = line.rsplit_once(") ")?.1.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

#[test]
fn children_end_with_a_killed_run() {
    let Some(place) = Place::new() else { return };
    let mut run = place.tune("97x81x65", &["--jobs", "16"]);
    let children = || -> Vec<String> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| state(name).is_some_and(|(_, parent)| parent == run.id())).collect()
    };
    let started = holds_within(Duration::from_secs(20), || children().len() >= 8);
    let known = children();
    assert!(started, "{} children", known.len());
    run.kill().unwrap();
    run.wait().unwrap();
    // A zombie has ended; whoever adopts it waits for it or not.
    let lives = |child: &String| state(child).is_some_and(|(state, _)| !"ZX".contains(state));
    let killed = Instant::now();
    holds_within(Duration::from_secs(5), || !known.iter().any(lives));
    let left: Vec<_> = known.iter().filter(|child| lives(child)).collect();
    assert!(left.is_empty(), "{left:?} live on");
    println!("{} children ended {:?} after their parent", known.len(), killed.elapsed());
}

/// A wall clock that jumps back by an hour each second, and a run that is suspended for a while: the winner is
/// recorded, and a later run with a right clock goes on from the journal.
#[test]
fn a_clock_that_jumps_back_and_a_suspended_run_lose_nothing() {
    let Some(place) = Place::new() else { return };
    let clock = place.folder.path().join("clock.so");
    let built = Command::new("gcc")
        .args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"])
        .arg(&clock)
        .args(["tests/support/jumping_clock.c", "-ldl"])
        .status();
    let Ok(built) = built else { return skip("compilers", "no gcc") };
    assert!(built.success());
    let command =
        place.command("57x33x21", &["--max-configs", "24"]).env("LD_PRELOAD", &clock).spawn();
    let run = command.unwrap();
    let pid = rustix::process::Pid::from_child(&run);
    holds_within(Duration::from_secs(30), || place.journal().len() >= 4);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    let document = succeeds(run);
    assert_eq!(document["results"][0]["recorded"], "added", "{document}");
    let tried = place.journal().len();
    let record = Database::load(&place.database()).unwrap().records()[0].clone();
    let behind = jiff::Timestamp::now().duration_since(record.provenance.time);
    assert!(behind.as_secs() > 3000, "the clock did not jump: {behind:?}");
    succeeds(place.tune("57x33x21", &["--max-configs", "24"]));
    assert_eq!(place.journal().len(), tried, "measured again");
    assert_eq!(shapes(&place.database()), [[57, 33, 21]]);
}
