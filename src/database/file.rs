//! Database files: reads take no lock, writes take one and replace the whole file atomically.

use std::cmp::Ordering;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::document::Document;
use super::error::DatabaseError;
use super::record::Record;
use crate::model::device::CPU;
use crate::model::{Device, Micros, Problem, Regime};

/// The records of a file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Database {
    records: Vec<Record>,
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
        Ok(Self { records: read(path)?.into_records() })
    }

    /// Reads a file that must exist, such as one that the user named.
    ///
    /// # Errors
    /// As [`Database::load`], and for a missing file.
    pub fn load_existing(path: &Path) -> Result<Self, DatabaseError> {
        Ok(Self { records: read_existing(path)?.into_records() })
    }

    /// Every record, in the order of the file.
    pub fn records(&self) -> &[Record] {
        &self.records
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
    let linked = follow(path);
    let target = DatabasePath::of(linked.as_deref().unwrap_or(path))?;
    target.make_folder()?;
    let _lock = lock(&target)?;
    let mut document = read(target.path)?;
    check_kind(target.path, document.records(), &record.device.name)?;
    let incumbent = incumbent(document.records(), record);
    // A complete run replaces the result of an interrupted one.
    let finishes = incumbent
        .is_some_and(|(_, stored)| stored.provenance.interim && !record.provenance.interim);
    // A non-deterministic kernel never keeps a deterministic one out: the run that found the latter
    // either did not allow the former, or compared both in one final round.
    let settles =
        incumbent.is_some_and(|(_, stored)| !stored.deterministic && record.deterministic);
    let stored =
        incumbent.map(|(index, stored)| (index, stored.median(), by_median(record, stored)));
    let recorded = match (stored, replace) {
        (None, _) => {
            document.insert(record)?;
            StoreOutcome::Added
        }
        (Some((_, stored, Ordering::Equal | Ordering::Greater)), ReplacePolicy::IfFaster)
            if !finishes && !settles =>
        {
            return Ok(StoreOutcome::Kept { stored });
        }
        (Some((index, before, _)), _) => {
            document.replace(index, record)?;
            StoreOutcome::Replaced { before }
        }
    };
    write(&target, &document.to_string())?;
    Ok(recorded)
}

/// Checks before a long run that a record of `device` can be stored at `path`: the file is missing
/// or valid, and its folder is writable.
///
/// # Errors
/// The [`DatabaseError`] that storing would return.
pub fn check_writable(path: &Path, device: &Device) -> Result<(), DatabaseError> {
    let target = DatabasePath::of(path)?;
    target.make_folder()?;
    let _lock = lock(&target)?;
    check_kind(target.path, read(target.path)?.records(), &device.name)?;
    if target.path.exists() {
        OpenOptions::new().append(true).open(target.path).map_err(unwritable(target.path))?;
    }
    tempfile::tempfile_in(target.folder).map_err(unwritable(target.folder))?;
    Ok(())
}

/// Refuses to mix records of a GPU and of the cpu device in one file.
fn check_kind(path: &Path, records: &[Record], device: &str) -> Result<(), DatabaseError> {
    let other = records.iter().find(|record| (record.device.name == CPU) != (device == CPU));
    let Some(other) = other else { return Ok(()) };
    Err(DatabaseError::MixedTiming {
        path: path.to_owned(),
        stored: other.device.name.clone(),
        new: device.to_owned(),
    })
}

/// Fastest stored record with the key of `record`, and its index.
fn incumbent<'a>(records: &'a [Record], record: &Record) -> Option<(usize, &'a Record)> {
    let rivals =
        records.iter().enumerate().filter(|(_, other)| other.record_key() == record.record_key());
    rivals.min_by(|(_, a), (_, b)| by_median(a, b))
}

/// Orders by median, fastest first; NaN sorts last.
fn by_median(a: &Record, b: &Record) -> Ordering {
    a.median().0.total_cmp(&b.median().0)
}

/// Resolves a symbolic link, so that the link stays one and both names share a lock.
pub(super) fn follow(path: &Path) -> Option<PathBuf> {
    if path.is_symlink() { fs::canonicalize(path).ok() } else { None }
}

/// The path of a database file, split into folder and name.
pub(super) struct DatabasePath<'a> {
    pub(super) path: &'a Path,
    folder: &'a Path,
    name: &'a str,
}

impl<'a> DatabasePath<'a> {
    pub(super) fn of(path: &'a Path) -> Result<Self, DatabaseError> {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
            unwritable(path)(io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))
        })?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        Ok(Self { path, folder, name })
    }

    pub(super) fn make_folder(&self) -> Result<(), DatabaseError> {
        fs::create_dir_all(self.folder).map_err(unwritable(self.folder))
    }
}

fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> DatabaseError {
    move |error| DatabaseError::Unwritable { path: path.to_owned(), error }
}

/// Reads a file; a missing file is an empty document.
pub(super) fn read(path: &Path) -> Result<Document, DatabaseError> {
    match read_existing(path) {
        Err(DatabaseError::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Document::default())
        }
        read => read,
    }
}

/// Reads a file that must exist.
pub(super) fn read_existing(path: &Path) -> Result<Document, DatabaseError> {
    let text = fs::read_to_string(path)
        .map_err(|error| DatabaseError::Unreadable { path: path.to_owned(), error })?;
    Document::parse(&text, path)
}

/// Waits for the write lock of the file. The lock is held on a separate file that is never renamed
/// or removed: a lock on the database would stay with the file that is replaced.
pub(super) fn lock(target: &DatabasePath<'_>) -> Result<File, DatabaseError> {
    let path = target.folder.join(format!(".{}.lock", target.name));
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(unwritable(&path))?;
    loop {
        match file.lock() {
            Ok(()) => return Ok(file),
            // A signal, such as a terminal resize, interrupts the wait.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(DatabaseError::Lock { path, error }),
        }
    }
}

/// Writes a temporary file, syncs it to disk and renames it into place, so that neither a reader
/// nor a crash sees half a file.
pub(super) fn write(target: &DatabasePath<'_>, text: &str) -> Result<(), DatabaseError> {
    let replace = || -> io::Result<()> {
        // A rename checks permissions of the folder only; a read-only file must not be replaced.
        let permissions = match OpenOptions::new().append(true).open(target.path) {
            Ok(file) => Some(file.metadata()?.permissions()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let prefix = format!(".{}.", target.name);
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".tmp");
        share(&mut builder);
        let mut file = builder.tempfile_in(target.folder)?;
        file.write_all(text.as_bytes())?;
        if let Some(permissions) = permissions {
            file.as_file().set_permissions(permissions)?;
        }
        file.as_file().sync_all()?;
        file.persist(target.path)?;
        Ok(())
    };
    replace().map_err(unwritable(target.path))
}

/// Gives a new file the usual permissions; temporary files are private by default.
#[cfg(unix)]
fn share(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt as _;
    builder.permissions(fs::Permissions::from_mode(0o666));
}

#[cfg(not(unix))]
fn share(_: &mut tempfile::Builder<'_, '_>) {}
