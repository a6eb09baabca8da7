//! Records after a change of templates that leaves their machine code as it was: the same winners and times
//! under new names and the new template's hash.

use std::path::Path;

use super::error::DatabaseError;
use super::file::{DatabasePath, follow, lock, read_existing, write};
use super::record::Record;

/// Replaces the records of the file at `path` for which `change` gives a new one, and says how many.
///
/// # Errors
/// [`DatabaseError`]; the file is then as it was before.
pub fn restamp(
    path: &Path,
    change: impl Fn(usize, &Record) -> Option<Record>,
) -> Result<usize, DatabaseError> {
    let linked = follow(path);
    let target = DatabasePath::of(linked.as_deref().unwrap_or(path))?;
    read_existing(target.path)?;
    let _lock = lock(&target)?;
    let mut document = read_existing(target.path)?;
    let changed = document.records().iter().enumerate();
    let changed: Vec<(usize, Record)> =
        changed.filter_map(|(place, record)| Some((place, change(place, record)?))).collect();
    for (place, record) in &changed {
        document.replace(*place, record)?;
    }
    if !changed.is_empty() {
        write(&target, &document.to_string())?;
    }
    Ok(changed.len())
}
