//! Database files: reads take no lock, writes take one and replace the whole file atomically.

use std::cmp::Ordering;
use std::io;
use std::path::{Path, PathBuf};

use super::chunks::{Chunks, LARGE, ParsedRecords};
use super::document::{Document, RecordChange};
use super::error::{DatabaseError, RecordFault};
use super::migrate::migrated;
use super::record::Record;
use crate::files::{self, InputKind, LockFile, OutputFile};
use crate::model::device::CPU;
use crate::model::{Device, Micros, Problem, Regime};

/// Records of a large file for each device that a question about one problem takes into account. An
/// answer compares 64 of them at most.
pub const NEAREST: usize = 1024;

/// The records of a file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Database {
    records: Vec<Record>,
    faults: Vec<RecordFault>,
}

impl Database {
    /// Reads the file at `path`; a missing file holds no records. Reading needs no lock: a file is
    /// replaced in one step, so a reader sees it before or after the change.
    ///
    /// A record with an unknown word, such as a cache policy of a later version, is loaded with the
    /// others; no question matches it.
    ///
    /// # Errors
    /// [`DatabaseError`] for a file that cannot be read, or whose records do not follow this
    /// schema.
    pub fn load(path: &Path) -> Result<Self, DatabaseError> {
        Self::of(&text_or_empty(path)?, path)
    }

    /// Reads a file that must exist, such as one that the user named.
    ///
    /// # Errors
    /// As [`Database::load`], and for a missing file.
    pub fn load_existing(path: &Path) -> Result<Self, DatabaseError> {
        Self::of(&text(path)?, path)
    }

    /// Reads a text; `path` is for messages.
    ///
    /// # Errors
    /// As [`Database::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, DatabaseError> {
        Self::of(text, path)
    }

    /// As [`Database::load_existing`], for questions about one problem: of a large file, the records
    /// whose problems are nearest, [`NEAREST`] for each device.
    ///
    /// # Errors
    /// As [`Database::load_existing`]. Other records of a large file are not checked.
    pub fn load_near(path: &Path, problem: &Problem) -> Result<Self, DatabaseError> {
        Self::near(&text(path)?, path, problem)
    }

    /// As [`Database::load_near`]; a missing file holds no records.
    ///
    /// # Errors
    /// As [`Database::load`].
    pub fn load_near_or_empty(path: &Path, problem: &Problem) -> Result<Self, DatabaseError> {
        Self::near(&text_or_empty(path)?, path, problem)
    }

    fn near(text: &str, path: &Path, problem: &Problem) -> Result<Self, DatabaseError> {
        let Some(chunks) = chunks(text, path) else { return Self::of(text, path) };
        let ParsedRecords { records, faults, .. } = chunks.read_near(problem, NEAREST)?;
        Ok(Self { records, faults })
    }

    fn of(text: &str, path: &Path) -> Result<Self, DatabaseError> {
        if let Some(chunks) = chunks(text, path) {
            let ParsedRecords { records, faults, .. } = chunks.read()?;
            return Ok(Self { records, faults });
        }
        let (records, faults) = Document::parse(text, path)?.into_records();
        Ok(Self { records, faults })
    }

    /// The records with impossible values, which are not used.
    pub fn faults(&self) -> &[RecordFault] {
        &self.faults
    }

    /// Every record with possible values, in the order of the file.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Keeps the records that a condition takes.
    pub(super) fn retain(&mut self, takes: impl Fn(&Record) -> bool) {
        self.records.retain(takes);
    }

    /// Finds the fastest record for a problem on a device (same name and compute capability) under
    /// a regime.
    pub fn find(&self, problem: &Problem, device: &Device, regime: Regime) -> Option<&Record> {
        let answers = |record: &&Record| record.answers(problem, device, regime);
        self.records.iter().filter(answers).min_by(|a, b| by_median(a, b))
    }
}

/// When a new record replaces a stored one for the same problem, device and regime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplacePolicy {
    /// When the new record has the lower median. Also when the stored one is of an interrupted run
    /// and the new one is not, or is non-deterministic and the new one is not.
    IfFaster,
    /// Always.
    Always,
}

/// Outcome of storing a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StoreOutcome {
    /// The record is the first for its problem, device and regime.
    Added,
    /// The record replaced a stored one.
    Replaced {
        /// Median of the replaced record.
        before: Micros,
    },
    /// The stored record is at least as fast; the file is unchanged.
    Kept {
        /// Median of the stored record.
        stored: Micros,
    },
}

/// Stores `record` in the file at `path`, and creates the file and its folder where they are
/// missing. Concurrent writers wait for each other.
///
/// # Errors
/// [`DatabaseError`]; the file is then unchanged.
pub fn record_winner(
    path: &Path,
    record: &Record,
    replace: ReplacePolicy,
) -> Result<StoreOutcome, DatabaseError> {
    let target = target(path)?;
    make_folder(&target)?;
    let _lock = lock(&target)?;
    let text = text_or_empty(target.path())?;
    let (outcome, changed) = match chunks(&text, target.path()) {
        Some(chunks) => chunks.store(record, replace)?,
        None => record_winner_in(&text, target.path(), record, replace)?,
    };
    if let Some(changed) = changed {
        write(&target, &changed)?;
    }
    Ok(outcome)
}

/// As [`record_winner`], for the text of a file. Gives the new text, if it changes.
pub(super) fn record_winner_in(
    text: &str,
    path: &Path,
    record: &Record,
    replace: ReplacePolicy,
) -> Result<(StoreOutcome, Option<String>), DatabaseError> {
    let mut document = Document::parse(text, path)?;
    check_kind(path, document.records(), &record.device.name)?;
    let best = incumbent(document.records(), record);
    let outcome = choose_outcome(best.map(|(_, stored)| stored), record, replace);
    match (outcome, best) {
        (StoreOutcome::Kept { .. }, _) => return Ok((outcome, None)),
        (StoreOutcome::Replaced { .. }, Some((index, _))) => document.replace(index, record)?,
        _ => document.insert(record)?,
    }
    Ok((outcome, Some(document.to_string())))
}

/// What storing `record` does where `stored` is the fastest record with its key.
pub(super) fn choose_outcome(
    stored: Option<&Record>,
    record: &Record,
    replace: ReplacePolicy,
) -> StoreOutcome {
    let Some(stored) = stored else { return StoreOutcome::Added };
    // A complete run replaces the result of an interrupted one.
    let finishes = stored.provenance.interim && !record.provenance.interim;
    // A non-deterministic kernel never keeps a deterministic one out: the run that found the latter
    // either did not allow the former, or compared both in one final round.
    let settles = !stored.deterministic && record.deterministic;
    let faster = by_median(record, stored).is_lt();
    if replace == ReplacePolicy::Always || faster || finishes || settles {
        StoreOutcome::Replaced { before: stored.median() }
    } else {
        StoreOutcome::Kept { stored: stored.median() }
    }
}

/// A database file that records of a device can be stored in, as far as can be known before a long run.
#[derive(Debug, Clone)]
pub struct WritableDatabase {
    path: PathBuf,
    unused: Vec<RecordFault>,
}

impl WritableDatabase {
    /// Checks that the file is missing or valid, and that its folder is or can be made and is writable. Leaves no file or
    /// folder behind: a run that fails later has changed nothing.
    ///
    /// # Errors
    /// The [`DatabaseError`] that storing would return.
    pub fn check(path: &Path, device: &Device) -> Result<Self, DatabaseError> {
        let target = target(path)?;
        let text = text_or_empty(target.path())?;
        let unused = match chunks(&text, target.path()) {
            Some(chunks) => chunks.check(&device.name)?,
            None => {
                let Database { records, faults } = Database::of(&text, target.path())?;
                check_kind(target.path(), &records, &device.name)?;
                faults
            }
        };
        target.check_writable().map_err(unwritable(target.path()))?;
        Ok(Self { path: path.to_owned(), unused })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stored records that are not used. Of a large file, one record of each stored device is checked.
    pub fn unused(&self) -> &[RecordFault] {
        &self.unused
    }
}

/// Refuses to mix records of a GPU and of the cpu device in one file.
pub(super) fn check_kind(
    path: &Path,
    records: &[Record],
    device: &str,
) -> Result<(), DatabaseError> {
    let other = records.iter().find(|record| (record.device.name == CPU) != (device == CPU));
    let Some(other) = other else { return Ok(()) };
    Err(DatabaseError::MixedTiming {
        path: path.to_owned(),
        stored: other.device.name.clone(),
        new: device.to_owned(),
    })
}

/// Fastest stored record with the key of `record`, and its index.
pub(super) fn incumbent<'a>(records: &'a [Record], record: &Record) -> Option<(usize, &'a Record)> {
    let rivals =
        records.iter().enumerate().filter(|(_, other)| other.record_key() == record.record_key());
    rivals.min_by(|(_, a), (_, b)| by_median(a, b))
}

/// Orders by median, fastest first; NaN sorts last.
fn by_median(a: &Record, b: &Record) -> Ordering {
    a.median().0.total_cmp(&b.median().0)
}

/// The file at a path; a link gives its target, so that the link stays one and both names share a
/// lock.
pub(super) fn target(path: &Path) -> Result<OutputFile, DatabaseError> {
    OutputFile::of(path).map_err(unwritable(path))
}

pub(super) fn make_folder(target: &OutputFile) -> Result<(), DatabaseError> {
    target.make_folder().map_err(unwritable(target.folder()))
}

fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> DatabaseError {
    move |error| DatabaseError::Unwritable { path: path.to_owned(), error }
}

/// Changes records of the file at `path`, which must exist. `choose` gives the changes, in the order
/// of the records.
pub(super) fn rewrite(
    path: &Path,
    choose: impl FnOnce(&[Record]) -> Vec<RecordChange>,
) -> Result<(), DatabaseError> {
    let target = target(path)?;
    // A missing file gets no lock.
    text(target.path())?;
    let _lock = lock(&target)?;
    let text = text(target.path())?;
    let changed = match chunks(&text, target.path()) {
        Some(chunks) => chunks.changed(choose)?,
        None => Document::parse(&text, target.path())?.changed(choose)?,
    };
    changed.map_or(Ok(()), |changed| write(&target, &changed))
}

/// The text of a file; a missing file has none.
pub(super) fn text_or_empty(path: &Path) -> Result<String, DatabaseError> {
    match text(path) {
        Err(DatabaseError::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            Ok(String::new())
        }
        read => read,
    }
}

/// The text of a file that must exist, compressed by gzip or not.
pub(super) fn text(path: &Path) -> Result<String, DatabaseError> {
    let text = files::read_decompressed_text(path, InputKind::Database)
        .map_err(|error| DatabaseError::Unreadable { path: path.to_owned(), error })?;
    Ok(if text.len() >= LARGE { migrated(text) } else { text })
}

/// The parts of a large file.
pub(super) fn chunks<'t>(text: &'t str, path: &'t Path) -> Option<Chunks<'t>> {
    if text.len() >= LARGE { Chunks::split(text, path) } else { None }
}

/// Waits for the write lock of the file. The lock is held on a separate file that is never renamed
/// or removed: a lock on the database would stay with the file that is replaced.
pub(super) fn lock(target: &OutputFile) -> Result<LockFile, DatabaseError> {
    let path = target.beside("lock");
    let file = LockFile::open(&path).map_err(unwritable(&path))?;
    file.take(|| {}).map_err(|error| DatabaseError::Lock { path, error })?;
    Ok(file)
}

/// Replaces the file in one step.
pub(super) fn write(target: &OutputFile, text: &str) -> Result<(), DatabaseError> {
    target.write(text.as_bytes()).map_err(unwritable(target.path()))
}
