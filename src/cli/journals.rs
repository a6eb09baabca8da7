//! The journals that tuning keeps below the cache folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::console::Console;
use super::failure::Failure;
use crate::files::{self, InputKind};
use crate::tune::{Recorded, read_journal};

/// Every journal of this version below a folder, with its heading. Outcomes are not read.
pub(super) fn below(folder: &Path) -> Result<Vec<(PathBuf, Recorded)>, Failure> {
    let mut found = Vec::new();
    for device in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
        for path in entries(&device)? {
            let line = files::first_line(&path, InputKind::Journal).unwrap_or_default();
            if let Some(heading) = Recorded::parse(&String::from_utf8_lossy(&line)) {
                found.push((path, heading));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// Reads a whole journal, compressed by gzip or not, and notes lines that are no outcome.
pub(super) fn read(path: &Path, console: Console) -> Result<Recorded, Failure> {
    let recorded = read_journal(path).map_err(Failure::work)?;
    if let [first, others @ ..] = recorded.skipped.as_slice() {
        let more = match others.len() {
            0 => String::new(),
            more => format!(", and {more} more such lines"),
        };
        let path = path.display();
        console.note(&format!("{path}:{first}: this line is no outcome and is skipped{more}"));
    }
    Ok(recorded)
}

/// The paths in a folder, in no order; none where the folder does not exist.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    match fs::read_dir(folder) {
        Ok(entries) => {
            Ok(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(unreadable(folder, &error)),
    }
}

/// The failure for a file that cannot be read.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Work(format!("cannot read `{}`: {error}", path.display()))
}
