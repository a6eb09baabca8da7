//! Several database files as one. What comes out depends on what is in the files, not on the order
//! in which they are named, and every record that is not in it is reported.
//!
//! Records of different problems, devices or cache policies stand side by side. Of those in one
//! place, one whose bits are the same in each run comes before one whose are not, then the one of a whole
//! run before one of an interrupted run, then the faster, then the earlier; the others stay in the files
//! that they came from, which are not touched.

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

/// What became of the records of several files.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeReport {
    /// Each file with its number of records; the output, where it existed, too.
    pub files: Vec<(PathBuf, usize)>,
    /// Records in the output.
    pub records: usize,
    /// Records that were in more than one file, word for word.
    pub repeated: usize,
    /// Places for which the files have different records.
    pub conflicts: Vec<Conflict>,
    /// Keys besides the records that the files have with different values; the first file's stay.
    pub differing_keys: Vec<String>,
}

/// Different records for the same problem, device and cache policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// The one that is in the output.
    pub kept: MergeCandidate,
    /// Those that are not, best first.
    pub left_out: Vec<MergeCandidate>,
}

/// A record and the file it is from.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeCandidate {
    /// The file.
    pub file: PathBuf,
    /// The record.
    pub record: Record,
}

/// Puts the records of all `inputs` into the file at `output`. Where that exists, its records take
/// part like the others, so that none is lost, and its comments stay.
///
/// # Errors
/// [`DatabaseError`]; the output is then as it was before. An input that does not exist is one.
pub fn merge(inputs: &[PathBuf], output: &Path) -> Result<MergeReport, DatabaseError> {
    let linked = follow(output);
    let target = DatabasePath::of(linked.as_deref().unwrap_or(output))?;
    target.make_folder()?;
    let _lock = lock(&target)?;
    let mut base = read(target.path)?;
    let before = base.to_string();

    // By name, so that the order of the arguments tells nothing; the output first, if it is there.
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

/// A record with its table, and the file it is from.
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

    /// By place, then the best first. Of equal records, the one that says more besides, in comments
    /// and keys of others.
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

/// One record for each place; what is not chosen is noted in `merged`.
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

/// Refuses to put measured and modelled times into one file.
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
