//! Changes to database files: records that a merge left out, and records that a prune removed.

use std::path::Path;

use serde_json::{Value, json};

use super::records::{device, document, problem, standing};
use crate::database::{MergeReport, PrunedRecord};

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
pub fn merged_document(merged: &MergeReport, output: &Path) -> Value {
    let conflicts: Vec<Value> = merged
        .conflicts
        .iter()
        .map(|conflict| {
            let left: Vec<Value> =
                conflict.left_out.iter().map(|left| document(&left.file, &left.record)).collect();
            json!({ "kept": document(&conflict.kept.file, &conflict.kept.record), "left_out": left })
        })
        .collect();
    let files: Vec<Value> = (merged.files.iter())
        .map(|(file, records)| json!({ "file": file, "records": records }))
        .collect();
    json!({
        "output": output,
        "records": merged.records,
        "repeated": merged.repeated,
        "files": files,
        "conflicts": conflicts,
        "differing_keys": merged.differing_keys,
    })
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
pub fn pruned_document(pruned: &[PrunedRecord], file: &Path, dry_run: bool) -> Value {
    let records: Vec<Value> = pruned
        .iter()
        .map(|pruned| {
            let mut document = document(file, &pruned.record);
            document["because"] = json!(pruned.because);
            document
        })
        .collect();
    json!({ "file": file, "dry_run": dry_run, "pruned": records })
}
