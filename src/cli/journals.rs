//! The journals that tuning keeps below the cache folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use crate::files::{self, InputKind};
use crate::tune::{Recorded, no_journal};

/// Every journal of this version below a folder, with its heading. Outcomes are not read.
pub(super) fn below(folder: &Path) -> Result<Vec<(PathBuf, Recorded)>, Failure> {
    let mut found = Vec::new();
    for device in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
        for path in entries(&device)? {
            let text = files::read_text(&path, InputKind::Journal).unwrap_or_default();
            if let Some(heading) = Recorded::parse(text.lines().next().unwrap_or_default()) {
                found.push((path, heading));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// Reads a whole journal.
pub(super) fn read(path: &Path) -> Result<Recorded, Failure> {
    let text =
        files::read_text(path, InputKind::Journal).map_err(|error| unreadable(path, &error))?;
    Recorded::parse(&text)
        .ok_or_else(|| Failure::Work(format!("`{}` is {}", path.display(), no_journal(&text))))
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
