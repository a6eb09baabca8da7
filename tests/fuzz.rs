//! Replays the committed corpus of each parser and mutates it for a limited time, on stable Rust. No
//! case panics, takes a second of processor time or allocates a gigabyte.
//!
//! `GEMM_TUNE_FUZZ_SECONDS` sets the time for all parsers together, `GEMM_TUNE_FUZZ_SEED` another
//! beginning, and `GEMM_TUNE_FUZZ_TARGET` one parser. Half an hour, by hand:
//!
//! ```text
//! GEMM_TUNE_FUZZ_SECONDS=1800 GEMM_TUNE_FUZZ_SEED=$RANDOM cargo test --release --test fuzz
//! ```
//!
//! A case that fails lies in `target/tmp/fuzz`; it becomes a file of `fuzz/corpus`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use rustix::time::{ClockId, clock_gettime};

use targets::mutation::mutated;
use targets::{TARGETS, Target};

#[path = "support/cases.rs"]
mod cases;
#[path = "../fuzz/targets/mod.rs"]
mod targets;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// The most that a case may take.
const MAX_TIME: Duration = Duration::from_secs(1);
const MAX_BYTES: usize = 1 << 30;

/// A case that runs for so long ends the test: nothing else can.
const HANG: Duration = Duration::from_secs(60);

#[test]
fn no_input_panics_hangs_or_takes_all_memory() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seconds = number("GEMM_TUNE_FUZZ_SECONDS").unwrap_or(cases::cases(5, 60) as u64);
    let seed = number("GEMM_TUNE_FUZZ_SEED").unwrap_or(0);
    let wanted = std::env::var("GEMM_TUNE_FUZZ_TARGET").ok();
    let targets: Vec<&Target> = TARGETS
        .iter()
        .filter(|target| wanted.as_ref().is_none_or(|name| name == target.name))
        .collect();
    assert!(!targets.is_empty(), "no parser is called {wanted:?}");
    let share = Duration::from_secs(seconds) / targets.len() as u32;
    let watched = Watched::start();
    let mut faults = Vec::new();
    for target in targets {
        let corpus = corpus(target);
        let mut random = fastrand::Rng::with_seed(seed);
        let running = kept(&format!("{}-running", target.name), &[]);
        let mut runner =
            Runner { target, watched: &watched, running, slowest: Duration::ZERO, most: 0 };
        let began = Instant::now();
        let mut count = 0_u64;
        let mut fault =
            corpus.iter().find_map(|(path, case)| runner.fault(case).map(|fault| (path, fault)));
        if fault.is_none() {
            while began.elapsed() < share {
                let (path, case) = &corpus[random.usize(..corpus.len())];
                let (_, other) = &corpus[random.usize(..corpus.len())];
                // A few cases are changed again, and so move away from the corpus.
                let mut case = mutated(case, other, &mut random);
                while random.u8(..4) == 0 {
                    case = mutated(&case, other, &mut random);
                }
                count += 1;
                if let Some(found) = runner.fault(&case) {
                    fault = Some((path, found));
                    break;
                }
            }
        }
        println!(
            "{:<16} {:>3} files, {count:>9} mutations in {:>6.1} s; at most {:.3} s and {:.1} MB",
            target.name,
            corpus.len(),
            began.elapsed().as_secs_f64(),
            runner.slowest.as_secs_f64(),
            runner.most as f64 / 1e6,
        );
        fs::remove_file(&runner.running).unwrap();
        if let Some((path, fault)) = fault {
            faults.push(format!("{}: {fault}, from {}", target.name, path.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The committed files of a parser.
fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new("fuzz/corpus").join(target.name);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

struct Runner<'a> {
    target: &'a Target,
    watched: &'a Watched,
    running: PathBuf,
    slowest: Duration,
    most: usize,
}

impl Runner<'_> {
    /// What is wrong with a case, and where it lies.
    fn fault(&mut self, case: &[u8]) -> Option<String> {
        self.watched.begins(self.target.name, case);
        // A stack that overflows ends the process: this is the case then.
        fs::write(&self.running, case).unwrap();
        let before = ALLOCATED.current_usage();
        ALLOCATED.reset_peak_usage();
        let began = thread_time();
        let end = catch_unwind(AssertUnwindSafe(|| (self.target.run)(case)));
        let took = thread_time().saturating_sub(began);
        let peak = ALLOCATED.peak_usage().saturating_sub(before);
        self.watched.ends();
        self.slowest = self.slowest.max(took);
        self.most = self.most.max(peak);
        let fault = match end {
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
                format!("it panics: {}", text.unwrap_or_default())
            }
            Ok(()) if took > MAX_TIME => format!("it takes {:.1} s", took.as_secs_f64()),
            Ok(()) if peak > MAX_BYTES => format!("it allocates {} MB", peak >> 20),
            Ok(()) => return None,
        };
        let path = kept(self.target.name, case);
        Some(format!("{fault}; {}", path.display()))
    }
}

/// Processor time of this thread: others on the machine do not count.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Keeps a case that fails.
fn kept(name: &str, case: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}-{}", &blake3::hash(case).to_hex()[..12]));
    fs::write(&path, case).unwrap();
    path
}

/// The case that runs, for a thread that ends the process where it does not end.
struct Watched(&'static Mutex<Option<(Instant, &'static str, Vec<u8>)>>);

impl Watched {
    fn start() -> Self {
        static RUNNING: Mutex<Option<(Instant, &str, Vec<u8>)>> = Mutex::new(None);
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let running = RUNNING.lock().unwrap();
                if let Some((_, name, case)) =
                    running.as_ref().filter(|(began, ..)| began.elapsed() > HANG)
                {
                    let path = kept(name, case);
                    let _ = writeln!(std::io::stderr(), "{name}: it hangs; {}", path.display());
                    std::process::abort();
                }
            }
        });
        Self(&RUNNING)
    }

    fn begins(&self, name: &'static str, case: &[u8]) {
        *self.0.lock().unwrap() = Some((Instant::now(), name, case.to_vec()));
    }

    fn ends(&self) {
        *self.0.lock().unwrap() = None;
    }
}
