//! Merges database files. The output depends on the contents of the files, not on their order, and
//! every record that is left out is reported.
//!
//! Records with different keys (problem, device, cache policy, power state) are all kept. Of
//! records with the same key, the output has the preferred one: deterministic before
//! non-deterministic, complete before interrupted, then the faster, then the earlier
//! ([`preference`]). The inputs are not changed.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, Table};

use super::document::Document;
use super::error::DatabaseError;
use super::file::{DatabasePath, follow, lock, read, read_existing, write};
use super::rank::preference;
use super::record::Record;

/// Report of a merge.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeReport {
    /// Each file with its number of records, including an output that existed.
    pub files: Vec<(PathBuf, usize)>,
    /// Records in the output.
    pub records: usize,
    /// Records that were in more than one file, unchanged.
    pub repeated: usize,
    /// Keys for which the files have different records.
    pub conflicts: Vec<Conflict>,
    /// Other top-level keys with different values; the first file's value stays.
    pub differing_keys: Vec<String>,
}

/// Different records with the same key.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// The record in the output.
    pub kept: MergeCandidate,
    /// The records that were left out, best first.
    pub left_out: Vec<MergeCandidate>,
}

/// A record with its file.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeCandidate {
    /// The file.
    pub file: PathBuf,
    /// The record.
    pub record: Record,
}

/// Merges the records of all `inputs` into the file at `output`. An existing output takes part as
/// an input, and its comments stay.
///
/// # Errors
/// [`DatabaseError`], also for a missing input; the output is then unchanged.
pub fn merge(inputs: &[PathBuf], output: &Path) -> Result<MergeReport, DatabaseError> {
    let linked = follow(output);
    let target = DatabasePath::of(linked.as_deref().unwrap_or(output))?;
    target.make_folder()?;
    let _lock = lock(&target)?;
    let mut base = read(target.path)?;
    let before = base.to_string();

    // Sorted by name, so that the order of arguments has no effect; an existing output comes first.
    let mut named: BTreeMap<PathBuf, &Path> = BTreeMap::new();
    for input in inputs {
        named.entry(fs::canonicalize(input).unwrap_or_else(|_| input.clone())).or_insert(input);
    }
    if let Ok(own) = fs::canonicalize(target.path) {
        named.remove(&own);
    }
    let mut merged = MergeReport {
        files: Vec::new(),
        records: 0,
        repeated: 0,
        conflicts: Vec::new(),
        differing_keys: Vec::new(),
    };
    let mut entries = Vec::new();
    let mut take = |file: &Path, document: &mut Document| {
        merged.files.push((file.to_owned(), document.records().len()));
        let tables = document.take_tables().into_iter();
        entries.extend(tables.map(|(record, table)| MergeEntry::new(file, record, table)));
    };
    if target.path.exists() {
        take(output, &mut base);
    }
    let mut differing_keys = BTreeSet::new();
    for input in named.into_values() {
        let mut document = read_existing(input)?;
        for (key, item) in document.other_keys() {
            if !base.adopt_key(key, item) {
                differing_keys.insert(key.to_owned());
            }
        }
        take(input, &mut document);
    }
    merged.differing_keys = differing_keys.into_iter().collect();
    check_kinds(&entries)?;
    let chosen = choose(entries, &mut merged);
    merged.records = chosen.len();
    base.put_tables(chosen);
    let text = base.to_string();
    if text != before || !target.path.exists() {
        write(&target, &text)?;
    }
    Ok(merged)
}

/// A record with its table and its file.
struct MergeEntry {
    file: PathBuf,
    record: Record,
    table: Table,
    text: String,
}

impl MergeEntry {
    fn new(file: &Path, record: Record, table: Table) -> Self {
        let text = DocumentMut::from(table.clone()).to_string().trim().to_owned();
        Self { file: file.to_owned(), record, table, text }
    }

    /// Orders by key, then by preference. Of equal records, the one with more comments and unknown
    /// keys comes first.
    fn order(&self, other: &Self) -> Ordering {
        (self.record.record_key().cmp(&other.record.record_key()))
            .then_with(|| preference(&self.record, &other.record))
            .then_with(|| other.text.len().cmp(&self.text.len()))
            .then_with(|| self.text.cmp(&other.text))
            .then_with(|| self.file.cmp(&other.file))
    }

    fn contender(&self) -> MergeCandidate {
        MergeCandidate { file: self.file.clone(), record: self.record.clone() }
    }
}

/// Chooses one record for each key; the others are listed in `merged`.
fn choose(mut entries: Vec<MergeEntry>, merged: &mut MergeReport) -> Vec<(Record, Table)> {
    entries.sort_by(MergeEntry::order);
    let mut chosen = Vec::new();
    for rivals in entries.chunk_by(|a, b| a.record.record_key() == b.record.record_key()) {
        let mut different: Vec<&MergeEntry> = Vec::new();
        for rival in rivals {
            let same = |seen: &&MergeEntry| seen.record == rival.record || seen.text == rival.text;
            if different.iter().any(same) {
                merged.repeated += 1;
            } else {
                different.push(rival);
            }
        }
        let Some((best, others)) = different.split_first() else { continue };
        if !others.is_empty() {
            let left_out = others.iter().map(|entry| entry.contender()).collect();
            merged.conflicts.push(Conflict { kept: best.contender(), left_out });
        }
        chosen.push((best.record.clone(), best.table.clone()));
    }
    chosen
}

/// Refuses to mix measured and modelled times in one file.
fn check_kinds(entries: &[MergeEntry]) -> Result<(), DatabaseError> {
    let of = |modelled: bool| {
        let found = entries.iter().find(|entry| entry.record.is_modelled() == modelled);
        found.map(|entry| entry.file.clone())
    };
    match (of(false), of(true)) {
        (Some(measured), Some(modelled)) => Err(DatabaseError::MixedInputs { measured, modelled }),
        _ => Ok(()),
    }
}
