//! Database files: read without a lock, changed under one, replaced whole or not at all.

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
    /// Reads the file at `path`; one that does not exist holds no records. No lock is needed: a
    /// file is replaced in one step, so that a reader sees all of it as it was or as it is.
    ///
    /// A record with a word that this version does not have, such as a cache policy of a later one,
    /// is loaded with the others; no question matches it.
    ///
    /// # Errors
    /// [`DatabaseError`] for a file that cannot be read, or not as records of this schema.
    pub fn load(path: &Path) -> Result<Self, DatabaseError> {
        Ok(Self { records: read(path)?.into_records() })
    }

    /// Reads a file that has to be there, as one that a person named.
    ///
    /// # Errors
    /// As [`Database::load`], and where it does not exist.
    pub fn load_existing(path: &Path) -> Result<Self, DatabaseError> {
        Ok(Self { records: read_existing(path)?.into_records() })
    }

    /// Every record, in the order of the file.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The fastest record for a problem on a device (the same name and compute capability) under
    /// a regime.
    pub fn find(&self, problem: &Problem, device: &Device, regime: Regime) -> Option<&Record> {
        let answers = |record: &&Record| record.answers(problem, device, regime);
        self.records.iter().filter(answers).min_by(|a, b| by_median(a, b))
    }
}

/// When a record gives way to a new one for the same problem, device and regime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplacePolicy {
    /// When the new one has the lower median; also when the stored one is of an interrupted run and
    /// the new one is not, or gives other bits in each run and the new one does not.
    IfFaster,
    /// In any case.
    Always,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StoreOutcome {
    /// It is the first for its problem, device and regime.
    Added,
    /// It replaced one.
    Replaced {
        /// The median of the one before.
        before: Micros,
    },
    /// The stored one is at least as fast; the file is untouched.
    Kept {
        /// Its median.
        stored: Micros,
    },
}

/// Stores `record` in the file at `path`, which is made, with its folder, where it is missing.
/// Other programs may do the same at the same time: writers wait for each other.
///
/// # Errors
/// [`DatabaseError`]; the file is then as it was before.
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
    // What an interrupted run found gives way to what a whole one finds.
    let finishes = incumbent
        .is_some_and(|(_, stored)| stored.provenance.interim && !record.provenance.interim);
    // A kernel with other bits in each run is no rival of one without: who finds the latter did not allow
    // the former, or had both in one final.
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

/// Checks that a record of `device` can be stored at `path`, so that nobody measures for minutes in vain: the
/// file is missing or in order, and its folder takes new files.
///
/// # Errors
/// [`DatabaseError`], the one that storing would give.
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

/// Refuses to put records of a GPU and of the host's device into one file.
fn check_kind(path: &Path, records: &[Record], device: &str) -> Result<(), DatabaseError> {
    let other = records.iter().find(|record| (record.device.name == CPU) != (device == CPU));
    let Some(other) = other else { return Ok(()) };
    Err(DatabaseError::MixedTiming {
        path: path.to_owned(),
        stored: other.device.name.clone(),
        new: device.to_owned(),
    })
}

/// The fastest stored record in the place of `record`, with its index.
fn incumbent<'a>(records: &'a [Record], record: &Record) -> Option<(usize, &'a Record)> {
    let rivals =
        records.iter().enumerate().filter(|(_, other)| other.record_key() == record.record_key());
    rivals.min_by(|(_, a), (_, b)| by_median(a, b))
}

/// The faster first; a time that is no number is slower than every number.
fn by_median(a: &Record, b: &Record) -> Ordering {
    a.median().0.total_cmp(&b.median().0)
}

/// Where a link leads: through it to the file itself, so that the link stays one and both names
/// share a lock.
pub(super) fn follow(path: &Path) -> Option<PathBuf> {
    if path.is_symlink() { fs::canonicalize(path).ok() } else { None }
}

/// A database file, by its parts.
pub(super) struct DatabasePath<'a> {
    pub(super) path: &'a Path,
    folder: &'a Path,
    name: &'a str,
}

impl<'a> DatabasePath<'a> {
    pub(super) fn of(path: &'a Path) -> Result<Self, DatabaseError> {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
            unwritable(path)(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"))
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

/// Reads a file; one that does not exist holds nothing.
pub(super) fn read(path: &Path) -> Result<Document, DatabaseError> {
    match read_existing(path) {
        Err(DatabaseError::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Document::default())
        }
        read => read,
    }
}

/// Reads a file that has to be there.
pub(super) fn read_existing(path: &Path) -> Result<Document, DatabaseError> {
    let text = fs::read_to_string(path)
        .map_err(|error| DatabaseError::Unreadable { path: path.to_owned(), error })?;
    Document::parse(&text, path)
}

/// Waits until no other writer holds the file. The lock is on a file of its own that is never
/// renamed or removed: a lock on the database would be left behind on the file it replaces.
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
            // A signal, such as a resized terminal, ends the wait early.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(DatabaseError::Lock { path, error }),
        }
    }
}

/// Writes a new file beside the old one and renames it into place once it is on the disk, so that
/// neither a reader nor a crash meets half a file.
pub(super) fn write(target: &DatabasePath<'_>, text: &str) -> Result<(), DatabaseError> {
    let replace = || -> io::Result<()> {
        // Renaming asks only the folder; a file that its owner made read-only stays as it is.
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

/// Gives a new file the permissions of any other: temporary files are their owner's alone.
#[cfg(unix)]
fn share(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt as _;
    builder.permissions(fs::Permissions::from_mode(0o666));
}

#[cfg(not(unix))]
fn share(_: &mut tempfile::Builder<'_, '_>) {}
