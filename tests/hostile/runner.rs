//! Runs cases beside each other, each in a folder of its own, and reports all that fail.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::case::Case;
use super::harness;

/// Runs all cases, or those that `GEMM_TUNE_HOSTILE` names.
///
/// # Panics
/// A case does not hold.
pub(super) fn run(cases: Vec<Case>) {
    let wanted = std::env::var("GEMM_TUNE_HOSTILE").unwrap_or_default();
    let mut names = BTreeSet::new();
    for case in &cases {
        assert!(names.insert(&case.name), "two cases are called `{}`", case.name);
    }
    let cases: Vec<&Case> = cases.iter().filter(|case| case.name.contains(&wanted)).collect();
    assert!(!cases.is_empty(), "no case's name contains `{wanted}`");
    let failures = failures(&cases, !wanted.is_empty());
    let count = failures.len();
    let text = failures.iter().fold(String::new(), |mut text, failure| {
        let _ = writeln!(text, "\n{failure}");
        text
    });
    assert!(count == 0, "{count} of {} cases do not hold:\n{text}", cases.len());
}

/// What does not hold, in the order of the cases.
#[expect(clippy::print_stdout, reason = "the test harness shows it with a failure or on request")]
pub(super) fn failures(cases: &[&Case], verbose: bool) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let times = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(index) else { return };
            let start = Instant::now();
            if let Err(failure) = harness::check(case, verbose) {
                failures.lock().unwrap().push((index, format!("{}\n{failure}", case.name)));
            }
            times.lock().unwrap().push((start.elapsed(), &case.name));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut times = times.into_inner().unwrap();
    times.sort_unstable();
    let sum: Duration = times.iter().map(|(time, _)| *time).sum();
    println!("{} cases, {:.1} s one after the other; the slowest:", times.len(), sum.as_secs_f64());
    for (time, name) in times.iter().rev().take(8) {
        println!("{:>7.2} s  {name}", time.as_secs_f64());
    }
    let mut failures = failures.into_inner().unwrap();
    failures.sort_unstable();
    failures.into_iter().map(|(_, failure)| failure).collect()
}
