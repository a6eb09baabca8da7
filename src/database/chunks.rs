//! Large database files, read and changed record by record.
//!
//! A file of 100,000 records has more than 100 MB, and the document of all its keys and comments takes
//! forty times as much memory. From [`LARGE`] bytes on, a file is therefore split at its `[[record]]`
//! lines. The parts are parsed in parallel, or only those that a question needs, and a new record is
//! put between two of them. The TOML stays as it is, and no index has to be kept.
//!
//! A text that is laid out otherwise, such as one with multi-line strings, is left to [`Document`].
//! Measurements: `docs/decisions/2026-11-23-large-databases.md`.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use rayon::prelude::*;
use serde::Deserialize;

use super::document::{Document, RecordChange, order};
use super::error::{DatabaseError, RecordFault};
use super::file::{check_kind, choose_outcome, incumbent};
use super::glance::{Glance, HEADER, distance};
use super::plausible;
use super::record::Record;
use super::sections::StoredProblem;
use super::{ReplacePolicy, StoreOutcome};
use crate::model::Problem;

/// Bytes from which a file is read in parts: about 60 records.
pub(super) const LARGE: usize = 256 << 10;

/// Records that are parsed before they are moved to the result.
const BATCH: usize = 4096;

/// What makes a part a document of its own.
const SCHEMA_LINE: &str = "schema = 2\n";

/// The parts of a file.
pub(super) struct Chunks<'t> {
    text: &'t str,
    path: &'t Path,
    /// The keys before the first record.
    head: Range<usize>,
    /// A record each, with the comments above its header.
    records: Vec<Range<usize>>,
}

#[derive(Deserialize)]
struct OneRecord {
    record: [Record; 1],
}

/// Parsed records.
#[derive(Debug, Default)]
pub(super) struct ParsedRecords {
    pub(super) records: Vec<Record>,
    /// The place of each of them in the file.
    pub(super) places: Vec<usize>,
    /// The others, which are not used.
    pub(super) faults: Vec<RecordFault>,
}

impl<'t> Chunks<'t> {
    /// Splits a text; `None` where its parts cannot be told apart by their lines.
    pub(super) fn split(text: &'t str, path: &'t Path) -> Option<Self> {
        if text.contains("\"\"\"") || text.contains("'''") {
            return None;
        }
        let (mut starts, mut at) = (Vec::new(), 0);
        for line in text.split_inclusive('\n') {
            if line.trim_end() == HEADER && line.starts_with('[') {
                starts.push(at);
            } else if line.starts_with(['[', ' ', '\t']) && !starts.is_empty() {
                let header = line.trim_start();
                let own = header.starts_with("[record.") || header.starts_with("[[record.");
                // A table of its own, or a list whose lines begin with brackets.
                if header.starts_with('[') && !own {
                    return None;
                }
            }
            at += line.len();
        }
        let head = 0..content_end(text, &(0..*starts.first()?));
        let above = Document::parse(&text[head.clone()], path).ok()?;
        if above.to_string() != text[head.clone()] || above.has_records() {
            return None;
        }
        let mut records: Vec<Range<usize>> = Vec::with_capacity(starts.len());
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        for (header, next) in starts.iter().zip(ends) {
            let start = records.last().map_or(head.end, |before| before.end);
            records.push(start..content_end(text, &(*header..next)));
        }
        Some(Self { text, path, head, records })
    }

    /// The text of each record, with the comments above it.
    pub(super) fn texts(&self) -> impl Iterator<Item = &'t str> {
        self.records.iter().map(|range| &self.text[range.clone()])
    }

    /// The keys before the records.
    pub(super) fn rest(&self) -> Result<Document, DatabaseError> {
        Document::parse(&self.text[self.head.clone()], self.path)
    }

    /// Comments behind the last record.
    pub(super) fn end(&self) -> &'t str {
        self.records.last().map_or("", |last| &self.text[last.end..])
    }

    /// Parses all records.
    pub(super) fn read(&self) -> Result<ParsedRecords, DatabaseError> {
        self.read_these(&(0..self.records.len()).collect::<Vec<_>>())
    }

    /// Parses, for each device, the `most` records whose problems are nearest to `problem`.
    pub(super) fn read_near(
        &self,
        problem: &Problem,
        most: usize,
    ) -> Result<ParsedRecords, DatabaseError> {
        let problem = &StoredProblem::from(problem);
        let mut by_device: HashMap<Option<&str>, Vec<(f64, usize)>> = HashMap::new();
        for (index, glance) in self.glances().into_iter().enumerate() {
            let distance = glance.problem.map_or(0.0, |other| distance(problem, &other));
            by_device.entry(glance.device).or_default().push((distance, index));
        }
        let mut chosen = Vec::new();
        for mut records in by_device.into_values() {
            records.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            chosen.extend(records.into_iter().take(most).map(|(_, index)| index));
        }
        chosen.sort_unstable();
        self.read_these(&chosen)
    }

    fn read_these(&self, indices: &[usize]) -> Result<ParsedRecords, DatabaseError> {
        let mut all = ParsedRecords::default();
        all.records.reserve_exact(indices.len());
        for batch in indices.chunks(BATCH) {
            let parsed: Vec<_> = batch.par_iter().map(|index| self.parse(*index)).collect();
            for (index, parsed) in batch.iter().zip(parsed) {
                match parsed? {
                    Ok(record) => {
                        all.records.push(*record);
                        all.places.push(*index);
                    }
                    Err(fault) => all.faults.push(*fault),
                }
            }
        }
        Ok(all)
    }

    /// Parses a record. What is wrong is found again in its document, which knows the places.
    fn parse(&self, index: usize) -> Result<Result<Box<Record>, Box<RecordFault>>, DatabaseError> {
        let text = &self.text[self.records[index].clone()];
        if let Ok(OneRecord { record: [record] }) = toml::from_str(text)
            && plausible::check(&record).is_ok()
        {
            return Ok(Ok(Box::new(record)));
        }
        let (mut records, mut faults) = self.document(index)?.into_records();
        match (records.pop(), faults.pop()) {
            (Some(record), _) => Ok(Ok(Box::new(record))),
            (None, Some(fault)) => Ok(Err(Box::new(fault.moved(self.lines_before(index), index)))),
            // The header makes a record.
            (None, None) => Err(DatabaseError::no_record(self.path, index)),
        }
    }

    /// The document of one record.
    fn document(&self, index: usize) -> Result<Document, DatabaseError> {
        let text = format!("{SCHEMA_LINE}{}", &self.text[self.records[index].clone()]);
        let document = Document::parse(&text, self.path);
        document.map_err(|error| error.moved(self.lines_before(index), index))
    }

    /// Lines before a record, without that of its document's schema.
    fn lines_before(&self, index: usize) -> usize {
        let lines = self.text[..self.records[index].start].matches('\n').count();
        lines.saturating_sub(1)
    }

    fn glances(&self) -> Vec<Glance<'t>> {
        let text = self.text;
        self.records.par_iter().map(|range| Glance::of(&text[range.clone()])).collect()
    }

    /// Checks that records of `device` can be added. Parses one record of each stored device, and gives
    /// those that are not used.
    pub(super) fn check(&self, device: &str) -> Result<Vec<RecordFault>, DatabaseError> {
        self.check_kinds(&self.glances(), device)
    }

    fn check_kinds(
        &self,
        glances: &[Glance<'_>],
        device: &str,
    ) -> Result<Vec<RecordFault>, DatabaseError> {
        let mut devices = HashSet::new();
        let mut is_new =
            |index: &usize| glances[*index].device.is_none_or(|own| devices.insert(own));
        let chosen: Vec<usize> = (0..glances.len()).filter(|index| is_new(index)).collect();
        let ParsedRecords { records, faults, .. } = self.read_these(&chosen)?;
        check_kind(self.path, &records, device)?;
        Ok(faults)
    }

    /// The text after changes of records, which are given by their place among the used ones.
    pub(super) fn changed(
        &self,
        choose: impl FnOnce(&[Record]) -> Vec<RecordChange>,
    ) -> Result<Option<String>, DatabaseError> {
        let ParsedRecords { records, places, .. } = self.read()?;
        let changes = choose(&records);
        drop(records);
        if changes.is_empty() {
            return Ok(None);
        }
        let (mut text, mut at) = (String::with_capacity(self.text.len()), 0);
        for (place, change) in changes {
            let range = &self.records[places[place]];
            text += &self.text[at..range.start];
            if let Some(record) = change {
                text += &self.replaced(places[place], &record)?;
            }
            at = range.end;
        }
        text += &self.text[at..];
        Ok(Some(text))
    }

    /// The text of a record after its replacement.
    fn replaced(&self, index: usize, record: &Record) -> Result<String, DatabaseError> {
        let mut document = self.document(index)?;
        document.replace(0, record)?;
        let text = document.to_string();
        Ok(text.strip_prefix(SCHEMA_LINE).map_or(text.clone(), str::to_owned))
    }

    /// Stores a record as [`record_winner`](super::record_winner) does, without parsing those of
    /// other problems. Gives the new text, if it changes.
    pub(super) fn store(
        &self,
        record: &Record,
        replace: ReplacePolicy,
    ) -> Result<(StoreOutcome, Option<String>), DatabaseError> {
        let glances = self.glances();
        self.check_kinds(&glances, &record.device.name)?;
        let is_rival = |glance: &Glance<'_>| {
            glance.problem.as_ref().is_none_or(|problem| *problem == record.problem)
        };
        let rivals: Vec<usize> =
            (0..glances.len()).filter(|index| is_rival(&glances[*index])).collect();
        let ParsedRecords { records, places, .. } = self.read_these(&rivals)?;
        let best = incumbent(&records, record);
        let outcome = choose_outcome(best.map(|(_, stored)| stored), record, replace);
        let text = match (outcome, best) {
            (StoreOutcome::Kept { .. }, _) => None,
            (StoreOutcome::Replaced { .. }, Some((best, _))) => {
                let index = places[best];
                Some(self.with(self.records[index].clone(), &self.replaced(index, record)?))
            }
            _ => {
                let own = order(&record.problem);
                let after = |glance: &Glance<'_>| {
                    glance.problem.as_ref().is_some_and(|problem| order(problem) > own)
                };
                let next = glances.iter().position(after).unwrap_or(glances.len());
                let at = next.checked_sub(1).map_or(self.head.end, |index| self.records[index].end);
                let mut document = Document::default();
                document.insert(record)?;
                let new = document.to_string();
                let new = new.find(HEADER).map_or("", |start| &new[start..]);
                Some(self.with(at..at, &format!("\n{new}")))
            }
        };
        Ok((outcome, text))
    }

    /// The text with a part replaced.
    fn with(&self, part: Range<usize>, new: &str) -> String {
        [&self.text[..part.start], new, &self.text[part.end..]].concat()
    }
}

/// Where the keys of a part end: comments behind them belong to what follows.
fn content_end(text: &str, part: &Range<usize>) -> usize {
    let mut end = part.end;
    for line in text[part.clone()].split_inclusive('\n').rev() {
        let line_text = line.trim();
        if !line_text.is_empty() && !line_text.starts_with('#') {
            break;
        }
        end -= line.len();
    }
    end
}
