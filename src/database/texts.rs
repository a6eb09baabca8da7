//! A database file as the texts of its records, for merges: each record's text is moved as it is.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

use super::chunks::{Chunks, ParsedRecords};
use super::document::Document;
use super::error::{DatabaseError, RecordFault};
use super::file::chunks;
use super::record::Record;

/// The records of a file with their texts, and the rest of the file.
#[derive(Debug, Default)]
pub(super) struct RecordTexts<'t> {
    /// The file without records.
    pub(super) rest: Document,
    /// Each record, and its text with the comments above it.
    pub(super) records: Vec<(Record, Cow<'t, str>)>,
    /// Texts of records with impossible values.
    pub(super) faulty: Vec<Cow<'t, str>>,
    /// What is wrong with those.
    pub(super) faults: Vec<RecordFault>,
    /// Comments behind everything else.
    end: String,
}

impl<'t> RecordTexts<'t> {
    /// Reads a text; `path` is for messages.
    pub(super) fn of(text: &'t str, path: &'t Path) -> Result<Self, DatabaseError> {
        match chunks(text, path) {
            // A document writes its own line ends.
            Some(chunks) if !text.contains('\r') => Self::of_chunks(&chunks),
            _ => Ok(Self::of_document(Document::parse(text, path)?)),
        }
    }

    pub(super) fn of_chunks(chunks: &Chunks<'t>) -> Result<Self, DatabaseError> {
        let ParsedRecords { records, faults, .. } = chunks.read()?;
        let texts = chunks.texts().map(Cow::Borrowed);
        Ok(Self::new(chunks.rest()?, texts, (records, faults), chunks.end().to_owned()))
    }

    pub(super) fn of_document(mut rest: Document) -> Self {
        let (records, faults, texts) = rest.take_records();
        let end = rest.take_end();
        Self::new(rest, texts.into_iter().map(Cow::Owned), (records, faults), end)
    }

    fn new(
        rest: Document,
        texts: impl Iterator<Item = Cow<'t, str>>,
        (records, faults): (Vec<Record>, Vec<RecordFault>),
        end: String,
    ) -> Self {
        let numbers: HashSet<usize> = faults.iter().map(|fault| fault.record).collect();
        let (mut used, mut faulty) = (Vec::with_capacity(records.len()), Vec::new());
        for (number, text) in (1..).zip(texts) {
            if numbers.contains(&number) { faulty.push(text) } else { used.push(text) }
        }
        Self { rest, records: records.into_iter().zip(used).collect(), faulty, faults, end }
    }

    /// The text of the file with other records.
    pub(super) fn with<'r>(mut self, records: impl Iterator<Item = &'r str>) -> String {
        self.rest.write_schema();
        let mut text = self.rest.to_string();
        let mut add = |record: &str| {
            text += record;
            if !record.ends_with('\n') {
                text.push('\n');
            }
        };
        records.for_each(&mut add);
        self.faulty.iter().for_each(|record| add(record));
        text + &self.end
    }
}
