//! Records after a change of templates that leaves their machine code as it was: the same winners and times
//! under new names and the new template's hash.

use std::path::Path;

use super::document::RecordChange;
use super::error::DatabaseError;
use super::file::rewrite;
use super::record::Record;

/// Replaces the records of the file at `path` for which `change` gives a new one, and says how many.
///
/// # Errors
/// [`DatabaseError`]; the file is then as it was before.
pub fn restamp(
    path: &Path,
    change: impl Fn(usize, &Record) -> Option<Record>,
) -> Result<usize, DatabaseError> {
    let mut count = 0;
    rewrite(path, |records| {
        let changed =
            |(place, record): (usize, &Record)| Some((place, Some(change(place, record)?)));
        let changed: Vec<RecordChange> = records.iter().enumerate().filter_map(changed).collect();
        count = changed.len();
        changed
    })?;
    Ok(count)
}
