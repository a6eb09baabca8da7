//! Changes to database files: records that a merge left out, and records that a prune removed.

use std::path::{Path, PathBuf};

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Value, json};

use super::records::{device, document, problem, standing};
use super::sequence::Sequence;
use crate::database::{Conflict, MergeCandidate, MergeReport, PrunedRecord};

/// Report of a merge as text.
pub fn merged(merged: &MergeReport, output: &Path) -> String {
    let mut text = String::new();
    for conflict in &merged.conflicts {
        let kept = &conflict.kept;
        text.push_str(&format!(
            "conflict: {} on {} (key {})\n  kept      {} of {}\n",
            problem(&kept.record),
            device(&kept.record),
            kept.record.key(),
            standing(&kept.record),
            kept.file.display()
        ));
        for left in &conflict.left_out {
            let (record, file) = (standing(&left.record), left.file.display());
            text.push_str(&format!("  left out  {record} of {file}\n"));
        }
    }
    for key in &merged.differing_keys {
        text.push_str(&format!(
            "`{key}` differs between the files: the value of the first file is kept\n"
        ));
    }
    let MergeReport { files, records, repeated, conflicts, .. } = merged;
    let count: usize = files.iter().map(|(_, records)| records).sum();
    text.push_str(&format!(
        "{count} records of {} files: {records} in {}, {repeated} repeated, {} left out of {} conflicts\n",
        files.len(),
        output.display(),
        conflicts.iter().map(|conflict| conflict.left_out.len()).sum::<usize>(),
        conflicts.len()
    ));
    text
}

/// Report of a merge as JSON.
#[derive(Debug)]
pub struct MergedDocument {
    /// The merge.
    pub merged: MergeReport,
    /// The file that was written.
    pub output: PathBuf,
}

impl Serialize for MergedDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let MergeReport { files, records, repeated, conflicts, differing_keys, .. } = &self.merged;
        let candidate = |entry: &MergeCandidate| document(&entry.file, &entry.record);
        let conflict = |conflict: &Conflict| {
            let left_out: Vec<Value> = conflict.left_out.iter().map(candidate).collect();
            json!({ "kept": candidate(&conflict.kept), "left_out": left_out })
        };
        let file = |(file, records): &(PathBuf, usize)| json!({ "file": file.display().to_string(), "records": records });
        // The order of keys is that of other documents: alphabetic.
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("conflicts", &Sequence(conflicts.iter().map(conflict)))?;
        map.serialize_entry("differing_keys", differing_keys)?;
        map.serialize_entry("files", &Sequence(files.iter().map(file)))?;
        map.serialize_entry("output", &self.output.display().to_string())?;
        map.serialize_entry("records", records)?;
        map.serialize_entry("repeated", repeated)?;
        map.end()
    }
}

/// Report of removed records as text; of a dry run, of records to remove.
pub fn pruned(pruned: &[PrunedRecord], file: &Path, dry_run: bool) -> String {
    let mut text = String::new();
    for PrunedRecord { record, because } in pruned {
        text.push_str(&format!(
            "{} {} on {}: {} ({})\n",
            record.key(),
            problem(record),
            device(record),
            standing(record),
            because.join(", ")
        ));
    }
    let (count, file) = (pruned.len(), file.display());
    text.push_str(&if dry_run {
        format!("{count} records would be removed from {file}; `--yes` removes them\n")
    } else {
        format!("{count} records removed from {file}\n")
    });
    text
}

/// Report of removed records as JSON.
#[derive(Debug)]
pub struct PrunedDocument {
    /// The removed records.
    pub pruned: Vec<PrunedRecord>,
    /// The file that they were in.
    pub file: PathBuf,
    /// Whether they are still there.
    pub dry_run: bool,
}

impl Serialize for PrunedDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = |pruned: &PrunedRecord| {
            let mut document = document(&self.file, &pruned.record);
            document["because"] = json!(pruned.because);
            document
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("dry_run", &self.dry_run)?;
        map.serialize_entry("file", &self.file.display().to_string())?;
        map.serialize_entry("pruned", &Sequence(self.pruned.iter().map(entry)))?;
        map.end()
    }
}
