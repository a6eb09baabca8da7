//! Merges database files. The output depends on the contents of the files, not on their order, and
//! every record that is left out is reported.
//!
//! Records with different keys (problem, device, cache policy, power state) are all kept. Of
//! records with the same key, the output has the preferred one: deterministic before
//! non-deterministic, complete before interrupted, then the faster, then the earlier
//! ([`preference`]). The inputs are not changed.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};

use super::document::order;
use super::error::{DatabaseError, RecordFault};
use super::file::{lock, make_folder, target, text, text_or_empty, write};
use super::rank::preference;
use super::record::Record;
use super::texts::RecordTexts;

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
    /// Records with impossible values. Those of the output stay in it; others are left out.
    pub faults: Vec<RecordFault>,
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
    let target = target(output)?;
    // Sorted by name, so that the order of arguments has no effect; an existing output comes first.
    let mut named: BTreeMap<PathBuf, &Path> = BTreeMap::new();
    for input in inputs {
        named.entry(fs::canonicalize(input).unwrap_or_else(|_| input.clone())).or_insert(input);
    }
    if let Ok(own) = fs::canonicalize(target.path()) {
        named.remove(&own);
    }
    let inputs = named.into_values().map(|input| Ok((input, text(input)?)));
    let inputs = inputs.collect::<Result<Vec<_>, DatabaseError>>()?;
    let parsed = inputs.iter().map(|(input, text)| RecordTexts::of(text, input));
    let parsed = parsed.collect::<Result<Vec<_>, DatabaseError>>()?;

    // Inputs that cannot be read leave no folder or lock behind.
    make_folder(&target)?;
    let _lock = lock(&target)?;
    let before = text_or_empty(target.path())?;
    let mut merged = MergeReport {
        files: Vec::new(),
        records: 0,
        repeated: 0,
        conflicts: Vec::new(),
        differing_keys: Vec::new(),
        faults: Vec::new(),
    };
    let mut entries = Vec::new();
    let mut base = RecordTexts::of(&before, target.path())?;
    if target.path().exists() {
        take(output, &mut base, &mut entries, &mut merged);
    }
    let mut differing_keys = BTreeSet::new();
    for ((input, _), mut own) in inputs.iter().zip(parsed) {
        for (key, item) in own.rest.other_keys() {
            if !base.rest.adopt_key(key, item) {
                differing_keys.insert(key.to_owned());
            }
        }
        take(input, &mut own, &mut entries, &mut merged);
    }
    merged.differing_keys = differing_keys.into_iter().collect();
    check_kinds(&entries)?;
    entries.sort_unstable_by(MergeEntry::order);
    let mut chosen = choose(&entries, &mut merged);
    merged.records = chosen.len();
    chosen.sort_by(|a, b| order(&a.record.problem).cmp(&order(&b.record.problem)));
    let text = base.with(chosen.into_iter().map(|entry| &*entry.text));
    if text != before || !target.path().exists() {
        write(&target, &text)?;
    }
    Ok(merged)
}

/// Moves the records of a file to `entries`.
fn take<'a>(
    file: &'a Path,
    texts: &mut RecordTexts<'a>,
    entries: &mut Vec<MergeEntry<'a>>,
    merged: &mut MergeReport,
) {
    merged.files.push((file.to_owned(), texts.records.len()));
    merged.faults.extend_from_slice(&texts.faults);
    let records = mem::take(&mut texts.records).into_iter();
    entries.extend(records.map(|(record, text)| MergeEntry { file, record, text }));
}

/// A record with its text and its file.
struct MergeEntry<'a> {
    file: &'a Path,
    record: Record,
    text: Cow<'a, str>,
}

impl MergeEntry<'_> {
    /// Orders by key, then by preference. Of equal records, the one with more comments and unknown
    /// keys comes first.
    fn order(&self, other: &Self) -> Ordering {
        let (text, other_text) = (self.text.trim(), other.text.trim());
        (self.record.record_key().cmp(&other.record.record_key()))
            .then_with(|| preference(&self.record, &other.record))
            .then_with(|| other_text.len().cmp(&text.len()))
            .then_with(|| text.cmp(other_text))
            .then_with(|| self.file.cmp(other.file))
    }

    fn contender(&self) -> MergeCandidate {
        MergeCandidate { file: self.file.to_owned(), record: self.record.clone() }
    }
}

/// Chooses one record for each key; the others are listed in `merged`.
fn choose<'e, 'a>(
    entries: &'e [MergeEntry<'a>],
    merged: &mut MergeReport,
) -> Vec<&'e MergeEntry<'a>> {
    let mut chosen = Vec::new();
    for rivals in entries.chunk_by(|a, b| a.record.record_key() == b.record.record_key()) {
        let mut different: Vec<&MergeEntry<'_>> = Vec::new();
        for rival in rivals {
            let same = |seen: &&MergeEntry<'_>| {
                seen.record == rival.record || seen.text.trim() == rival.text.trim()
            };
            if different.iter().any(same) {
                merged.repeated += 1;
            } else {
                different.push(rival);
            }
        }
        if let Some((best, others)) = different.split_first()
            && !others.is_empty()
        {
            let left_out = others.iter().map(|entry| entry.contender()).collect();
            merged.conflicts.push(Conflict { kept: best.contender(), left_out });
        }
        chosen.extend(rivals.first());
    }
    chosen
}

/// Refuses to mix measured and modelled times in one file.
fn check_kinds(entries: &[MergeEntry<'_>]) -> Result<(), DatabaseError> {
    let of = |modelled: bool| {
        let found = entries.iter().find(|entry| entry.record.is_modelled() == modelled);
        found.map(|entry| entry.file.to_owned())
    };
    match (of(false), of(true)) {
        (Some(measured), Some(modelled)) => Err(DatabaseError::MixedInputs { measured, modelled }),
        _ => Ok(()),
    }
}
