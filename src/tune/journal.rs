//! Journal: every outcome of a problem on a device, on disk as soon as it is known. An interrupted run continues where it
//! ended, and a kernel is measured once, whichever family, configuration or run proposes it.
//!
//! A journal is a file of JSON lines. The first line is the heading: problem, device, driver and regime. Where it differs
//! from the present one, the journal begins anew. It is made with the first outcome. Each other line is one outcome. Lines are written whole and at once, so
//! that several processes may share a file. A line that is cut short, as by a power failure, is skipped.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::kernel_id::KernelId;
use super::settings::Settings;
use crate::files::{self, GrowingFile};
use crate::model::{Configuration, Device, Micros, Outcome, Problem, Regime};

/// The first words of every journal.
pub(super) const BEGINNING: &str = "{\"gemm_tune_journal\":";

/// Raised whenever a line changes its form.
const VERSION: u32 = 2;

/// Why a journal cannot be kept. Tuning continues without one only on request.
#[derive(Debug, Error)]
#[error("cannot keep the journal `{}`: {error}; make it writable, or choose another folder with `--cache DIR`", .path.display())]
pub struct JournalError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub error: io::Error,
}

/// The heading of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Heading {
    gemm_tune_journal: u32,
    problem: Problem,
    device: String,
    compute_capability: String,
    driver: String,
    regime: Regime,
}

/// One outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The kernel.
    pub kernel: KernelId,
    /// The first family that rendered it.
    pub family: String,
    /// The configuration of that family.
    pub parameters: Configuration,
    /// Seconds since its run began; `None` in journals of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_s: Option<f64>,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Entry {
    /// Whether its times are times: at least one, all above 0 and finite.
    fn is_possible(&self) -> bool {
        let is_time = |time: &Micros| time.0.is_finite() && time.0 > 0.0;
        self.outcome.measurement().is_none_or(|measurement| {
            !measurement.samples.is_empty() && measurement.samples.iter().all(is_time)
        })
    }
}

/// The file of a journal.
#[derive(Debug)]
struct JournalFile {
    file: GrowingFile,
    heading: Heading,
    /// Whether the file has its heading. It is written with the first outcome.
    begun: bool,
}

impl JournalFile {
    fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let mut lines = if self.begun { Vec::new() } else { line(&self.heading)? };
        lines.extend(line(entry)?);
        self.file.append(&lines)?;
        self.begun = true;
        Ok(())
    }

    fn begin_anew(&mut self) {
        self.begun = false;
        self.file.begin_anew();
    }

    fn failed(&self, error: io::Error) -> JournalError {
        JournalError { path: self.file.path().to_owned(), error }
    }
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    /// None where the journal is in memory only.
    file: Option<JournalFile>,
    known: HashMap<KernelId, Entry>,
}

impl Journal {
    /// The journal by the settings.
    ///
    /// # Errors
    /// [`JournalError`].
    pub(super) fn of(
        settings: &Settings,
        problem: &Problem,
        device: &Device,
    ) -> Result<Self, JournalError> {
        let Some(folder) = &settings.journals else {
            return Ok(Self { file: None, known: HashMap::new() });
        };
        let mut journal = Self::open(folder, problem, device, settings.regime)?;
        if settings.fresh {
            journal.forget();
        }
        Ok(journal)
    }

    /// The journal of a problem below `folder`, with the outcomes that it has.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(
        folder: &Path,
        problem: &Problem,
        device: &Device,
        regime: Regime,
    ) -> Result<Self, JournalError> {
        let heading = Heading {
            gemm_tune_journal: VERSION,
            problem: *problem,
            device: device.name.clone(),
            compute_capability: device.compute_capability.to_string(),
            driver: device.driver.clone(),
            regime,
        };
        let folder = folder.join(device.slug());
        let words = problem.to_string().replace(' ', "-");
        let path =
            folder.join(format!("{words}-{}-{}.jsonl", regime.cache.name(), regime.power.name()));
        Self::open_file(&folder, &path, &heading).map_err(|error| JournalError { path, error })
    }

    fn open_file(folder: &Path, path: &Path, heading: &Heading) -> io::Result<Self> {
        files::make_private(folder)?;
        let (mut file, bytes) = GrowingFile::open(path)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut known = HashMap::new();
        let begun = heading_of(&text).as_ref() == Some(heading);
        if begun {
            let entries = entries(&text).into_iter().flatten();
            known.extend(entries.map(|entry| (entry.kernel.clone(), entry)));
            if !text.ends_with('\n') {
                file.append(b"\n")?;
            }
        } else {
            check_replaceable(&text)?;
            file.begin_anew();
        }
        let heading = heading.clone();
        Ok(Self { file: Some(JournalFile { file, heading, begun }), known })
    }

    /// The path, unless the journal is in memory.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.file.path())
    }

    /// The outcome of a kernel, where it is known.
    pub fn known(&self, kernel: &KernelId) -> Option<&Entry> {
        self.known.get(kernel)
    }

    /// How many kernels are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Writes an outcome.
    ///
    /// # Errors
    /// [`JournalError`]; what was written before stays.
    pub fn append(&mut self, entry: Entry) -> Result<(), JournalError> {
        if let Some(file) = &mut self.file {
            file.append(&entry).map_err(|error| file.failed(error))?;
        }
        self.known.insert(entry.kernel.clone(), entry);
        Ok(())
    }

    /// Forgets all outcomes, so that everything is measured anew. Those on disk stay until the first new one.
    pub fn forget(&mut self) {
        if let Some(file) = &mut self.file {
            file.begin_anew();
        }
        self.known.clear();
    }
}

/// Checks that a file may begin anew: it is empty or a journal, and of no later version. What was
/// cut short in its first line, and zeros that a power failure left, are no loss.
fn check_replaceable(text: &str) -> io::Result<()> {
    let refuse = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()));
    let text = text.trim_matches(['\0', '\n']);
    let Some(rest) = text.strip_prefix(BEGINNING) else {
        let is_cut = BEGINNING.starts_with(text);
        return if is_cut { Ok(()) } else { refuse("the file is not a journal of gemm-tune") };
    };
    match leading_number(rest) {
        Some(version) if version > u64::from(VERSION) => {
            refuse("it was written by a newer gemm-tune")
        }
        _ => Ok(()),
    }
}

fn leading_number(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok())
}

/// Why a text is no journal that this version reads.
pub(super) fn no_journal(text: &str) -> String {
    match text.strip_prefix(BEGINNING).map(leading_number) {
        Some(Some(version)) if version > u64::from(VERSION) => format!(
            "a journal of schema {version}, written by a newer gemm-tune: this version reads schema {VERSION}"
        ),
        Some(Some(version)) if version != u64::from(VERSION) => format!(
            "a journal of schema {version}: this version reads schema {VERSION}; tune the problem again"
        ),
        Some(_) => "a journal whose first line is damaged: tune the problem again".to_owned(),
        None => "no journal of gemm-tune".to_owned(),
    }
}

fn heading_of(text: &str) -> Option<Heading> {
    text.lines().next().and_then(|line| serde_json::from_str(line).ok())
}

/// The outcomes in a journal's text; none where the text is no journal of this version. Lines that are no outcome are
/// skipped.
pub(super) fn entries(text: &str) -> Option<impl Iterator<Item = Entry>> {
    Some(lines(text)?.filter_map(|(_, line)| entry(line)))
}

/// The lines behind the heading, with their numbers from 1; none where the text is no journal of this version. A run
/// that goes on behind a cut line leaves an empty one.
fn lines(text: &str) -> Option<impl Iterator<Item = (usize, &str)>> {
    heading_of(text).filter(|heading| heading.gemm_tune_journal == VERSION)?;
    Some((1..).zip(text.lines()).skip(1).filter(|(_, line)| !line.is_empty()))
}

fn entry(line: &str) -> Option<Entry> {
    serde_json::from_str::<Entry>(line).ok().filter(Entry::is_possible)
}

/// The content of a journal.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// What was tuned.
    pub problem: Problem,
    /// The name of the device.
    pub device: String,
    /// The conditions that times were measured under.
    pub regime: Regime,
    /// The outcomes, one for each kernel, in the order of their first lines.
    pub entries: Vec<Entry>,
    /// Lines that are no outcome, from 1: cut short by a power failure, or damaged.
    pub skipped: Vec<usize>,
}

impl Recorded {
    /// Reads the text of a journal; `None` where it is none of this version.
    pub fn parse(text: &str) -> Option<Self> {
        let Heading { problem, device, regime, .. } = heading_of(text)?;
        // A finalist that failed a check has two outcomes: the later one counts.
        let mut latest: IndexMap<KernelId, Entry> = IndexMap::new();
        let mut skipped = Vec::new();
        for (number, line) in lines(text)? {
            // Two runs that begin a journal at the same time both write its heading.
            if line.starts_with(BEGINNING) {
                continue;
            }
            match entry(line) {
                Some(entry) => {
                    latest.insert(entry.kernel.clone(), entry);
                }
                None => skipped.push(number),
            }
        }
        let entries = latest.into_values().collect();
        Some(Self { problem, device, regime, entries, skipped })
    }
}

/// A value as one line.
fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::model::{Dtype, Fault, KernelLaunch, LaunchPlan, Measurement, STANDARD_ARGUMENTS};
    use crate::model::{Mismatch, Resources, Timing, Validation, Value};

    fn problem() -> Problem {
        Problem::new("64x65x66".parse().unwrap(), Dtype::F32)
    }

    fn open(folder: &Path) -> Journal {
        Journal::open(folder, &problem(), &Device::h200(), Regime::default()).unwrap()
    }

    fn plan(grid: u32) -> LaunchPlan {
        let kernel = KernelLaunch {
            entry: "gemm".to_owned(),
            grid: [grid, 1, 1],
            block: [256, 1, 1],
            dynamic_shared_bytes: 0,
            programmatic: false,
            arguments: STANDARD_ARGUMENTS.to_vec(),
        };
        LaunchPlan { kernels: vec![kernel], ..LaunchPlan::default() }
    }

    fn entry(number: u32, outcome: Outcome) -> Entry {
        let kernel = KernelId::of(b"code", &plan(number));
        let parameters =
            Configuration([("BM".to_owned(), Value::Int(number.into()))].into_iter().collect());
        Entry { kernel, family: "tiled".to_owned(), parameters, after_s: Some(0.25), outcome }
    }

    fn outcomes() -> [Outcome; 4] {
        let correct = Outcome::Correct {
            validation: Validation { reference: "f64".to_owned(), max_error: 1.5e-7, bound: 1e-6 },
            measurement: Measurement {
                samples: vec![Micros(12.25), Micros(12.5)],
                launches_per_sample: 80,
                regime: Regime::default(),
                timing: Timing::Measured,
                sm_clock_mhz: Some(1980),
            },
            resources: Resources { registers: 40, ..Resources::default() },
        };
        let fault =
            Fault { during: "timing".to_owned(), message: "an \"illegal\"\naddress".into() };
        let mismatch = Mismatch {
            check: "small integers".to_owned(),
            at: Some([0, 1, 2]),
            got: f64::NEG_INFINITY,
            expected: 3.0,
            error: f64::INFINITY,
            bound: 0.0,
            wrong: 7,
        };
        [
            correct,
            Outcome::Runtime(fault),
            Outcome::Timeout { seconds: 5.0 },
            Outcome::Correctness(mismatch),
        ]
    }

    #[test]
    fn what_was_written_is_known_by_the_next_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = open(folder.path());
        assert!(journal.is_empty());
        let entries: Vec<Entry> =
            (0..).zip(outcomes()).map(|(number, outcome)| entry(number, outcome)).collect();
        for entry in &entries {
            journal.append(entry.clone()).unwrap();
        }
        let again = open(folder.path());
        assert_eq!(again.len(), 4);
        for entry in &entries {
            assert_eq!(again.known(&entry.kernel), Some(entry));
        }
        let mut again = again;
        again.forget();
        assert!(again.is_empty());
        assert_eq!(open(folder.path()).len(), 4, "a run that fails at once loses nothing");
        again.append(entries[1].clone()).unwrap();
        let again = open(folder.path());
        assert_eq!((again.len(), again.known(&entries[1].kernel)), (1, Some(&entries[1])));
    }

    #[test]
    fn a_line_cut_short_costs_itself_only() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, third, _] = outcomes();
        let mut journal = open(folder.path());
        journal.append(entry(1, first)).unwrap();
        journal.append(entry(2, second)).unwrap();
        let path = journal.path().unwrap().to_owned();
        let whole = fs::read(&path).unwrap();
        let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        for end in [last + 1, last + 20, whole.len() - 1] {
            fs::write(&path, &whole[..end]).unwrap();
            let mut journal = open(folder.path());
            let known = journal.len();
            assert!(known == 1 || (known == 2 && end == whole.len() - 1), "{end}: {known}");
            journal.append(entry(3, third.clone())).unwrap();
            assert_eq!(open(folder.path()).len(), known + 1, "{end}");
        }
    }

    #[test]
    fn of_two_outcomes_of_a_kernel_the_later_counts() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, third, _] = outcomes();
        let mut journal = open(folder.path());
        for (number, outcome) in [(1, first), (2, second), (1, third.clone())] {
            journal.append(entry(number, outcome)).unwrap();
        }
        let text = fs::read_to_string(journal.path().unwrap()).unwrap();
        let recorded = Recorded::parse(&text).unwrap();
        assert_eq!(recorded.entries.len(), 2);
        assert_eq!(recorded.entries[0], entry(1, third));
    }

    #[test]
    fn another_driver_begins_anew_and_what_is_no_journal_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = open(folder.path());
        journal.append(entry(1, outcomes()[0].clone())).unwrap();
        let other = Device { driver: "999.1".to_owned(), ..Device::h200() };
        assert!(
            Journal::open(folder.path(), &problem(), &other, Regime::default()).unwrap().is_empty()
        );
        let path = journal.path().unwrap();
        let newer = fs::read_to_string(path).unwrap().replacen(":2,", ":99,", 1);
        for lost in
            [&b""[..], b"{\"gemm_tu", b"{\"gemm_tune_journal\":2,\"prob", b"\0\0\0\0", b"\n"]
        {
            fs::write(path, lost).unwrap();
            assert!(open(folder.path()).is_empty());
        }
        for (kept, message) in [
            (&b"\xff\xfe{{{{\n\0\0"[..], "the file is not a journal of gemm-tune; make it"),
            (b"root:x:0:0\n", "the file is not a journal of gemm-tune"),
            (newer.as_bytes(), "it was written by a newer gemm-tune"),
        ] {
            fs::write(path, kept).unwrap();
            let refused =
                Journal::open(folder.path(), &problem(), &Device::h200(), Regime::default());
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
            assert_eq!(fs::read(path).unwrap(), kept);
        }
    }

    #[test]
    fn a_link_at_the_path_of_a_journal_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = open(folder.path()).path().unwrap().to_owned();
        let target = folder.path().join("target");
        fs::write(&target, "kept").unwrap();
        assert!(!path.exists(), "a journal without an outcome is not made");
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let refused = Journal::open(folder.path(), &problem(), &Device::h200(), Regime::default());
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("it is a symbolic link, not a regular file"), "{error}");
        assert_eq!(fs::read(&target).unwrap(), b"kept");
    }
}
