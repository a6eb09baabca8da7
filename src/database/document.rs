//! A database file as TOML text and as records. Changes keep comments, unknown keys and the
//! formatting of everything else. This module touches no file.

use std::fmt;
use std::mem;
use std::ops::Range;
use std::path::Path;

use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, RawString, Table, TableLike};

use super::error::{DatabaseError, RecordFault, TextPosition};
use super::layout;
use super::migrate::{STEPS, migrate};
use super::plausible::{self, Implausible};
use super::record::Record;
use super::sections::{StoredPattern, StoredProblem};

/// Schema that this version reads and writes. Within a schema, fields and words are only added.
pub const SCHEMA: i64 = 2;

/// Header of a new file.
const NEW_FILE: &str = "\
# Kernels found by gemm-tune: the fastest correct one for each problem, cache policy and power state.
# gemm-tune keeps comments and unknown keys when it writes to this file.
";

/// A change of the record with an index: its replacement, or none for its removal.
pub(super) type RecordChange = (usize, Option<Record>);

/// A database file in memory: its TOML, and the records that it holds.
#[derive(Debug, Default)]
pub(super) struct Document {
    toml: DocumentMut,
    /// Those with possible values.
    records: Vec<Record>,
    /// The index of each record's table.
    places: Vec<usize>,
    /// The other records, whose tables stay.
    faults: Vec<RecordFault>,
}

impl Document {
    /// Reads `text`; `path` is for messages. A text of white space alone is a new file.
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self, DatabaseError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let toml = toml_edit::Document::parse(text).map_err(|error| DatabaseError::Syntax {
            path: path.to_owned(),
            position: TextPosition::of(text, error.span().map_or(0, |span| span.start)),
            message: error.message().to_owned(),
        })?;
        let schema = check_schema(toml.as_table(), text, path)?;
        if schema < SCHEMA {
            let mut newer = toml.into_mut();
            migrate(&mut newer, schema, STEPS);
            return Self::parse(&newer.to_string(), path);
        }
        let all = read_records(toml.as_table(), text, path)?;
        let (mut records, mut places, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (record, fault)) in all.into_iter().enumerate() {
            match fault {
                Some(fault) => faults.push(fault),
                None => {
                    records.push(record);
                    places.push(place);
                }
            }
        }
        Ok(Self { toml: toml.into_mut(), records, places, faults })
    }

    /// The records, in the order of the file.
    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Whether it has a key `record`.
    pub(super) fn has_records(&self) -> bool {
        self.toml.contains_key("record")
    }

    /// The records and faults, without the text.
    pub(super) fn into_records(self) -> (Vec<Record>, Vec<RecordFault>) {
        (self.records, self.faults)
    }

    /// Removes the records and faults and returns them, and the text of each record's table with the
    /// comments above it.
    pub(super) fn take_records(&mut self) -> (Vec<Record>, Vec<RecordFault>, Vec<String>) {
        let item = self.toml.remove("record").unwrap_or_default();
        self.places.clear();
        let tables = item.into_array_of_tables().unwrap_or_default().into_iter();
        let text = |table: Table| {
            let mut alone = DocumentMut::new();
            alone.insert("record", Item::ArrayOfTables(ArrayOfTables::from_iter([table])));
            alone.to_string()
        };
        let texts = tables.map(text).collect();
        (mem::take(&mut self.records), mem::take(&mut self.faults), texts)
    }

    /// Removes the comments behind everything else and returns them.
    pub(super) fn take_end(&mut self) -> String {
        let end = self.toml.trailing().as_str().unwrap_or_default().to_owned();
        self.toml.set_trailing("");
        end
    }

    /// Top-level keys besides the records and the schema.
    pub(super) fn other_keys(&self) -> impl Iterator<Item = (&str, &Item)> {
        self.toml.iter().filter(|(key, _)| !["schema", "record"].contains(key))
    }

    /// Copies an unknown key from another file; returns false where this file has another value for
    /// it.
    pub(super) fn adopt_key(&mut self, key: &str, item: &Item) -> bool {
        if let Some(own) = self.toml.get(key) {
            return own.to_string() == item.to_string();
        }
        let mut item = item.clone();
        match &mut item {
            Item::Table(table) => forget_place(table),
            Item::ArrayOfTables(tables) => tables.iter_mut().for_each(forget_place),
            _ => {}
        }
        self.toml.insert(key, item);
        true
    }

    /// The text after changes of records, which are given by their index.
    pub(super) fn changed(
        mut self,
        choose: impl FnOnce(&[Record]) -> Vec<RecordChange>,
    ) -> Result<Option<String>, DatabaseError> {
        let changes = choose(&self.records);
        for (index, change) in changes.iter().rev() {
            match change {
                Some(record) => self.replace(*index, record)?,
                None => self.remove(*index),
            }
        }
        Ok((!changes.is_empty()).then(|| self.to_string()))
    }

    /// Removes a record with its table.
    fn remove(&mut self, index: usize) {
        if let Some(tables) = self.toml.get_mut("record").and_then(Item::as_array_of_tables_mut) {
            tables.remove(self.places.remove(index));
            self.places[index..].iter_mut().for_each(|place| *place -= 1);
            self.records.remove(index);
        }
    }

    /// Adds the schema and the header where they are missing.
    pub(super) fn write_schema(&mut self) {
        if !self.toml.contains_key("schema") {
            let mut schema = toml_edit::Key::new("schema");
            schema.leaf_decor_mut().set_prefix(NEW_FILE);
            self.toml.insert_formatted(&schema, toml_edit::value(SCHEMA));
        }
    }

    /// Adds `record` before the first record that sorts after it; the others keep their positions.
    pub(super) fn insert(&mut self, record: &Record) -> Result<(), DatabaseError> {
        let table = encode(record)?;
        self.write_schema();
        let after = |other: &Record| order(&other.problem) > order(&record.problem);
        let index = self.records.iter().position(after).unwrap_or(self.records.len());
        let tables = self.toml.entry("record").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        if let Some(tables) = tables.as_array_of_tables_mut() {
            let place = self.places.get(index).copied().unwrap_or(tables.len());
            tables.insert(place, table);
            self.places[index..].iter_mut().for_each(|place| *place += 1);
            self.places.insert(index, place);
            self.records.insert(index, record.clone());
        }
        Ok(())
    }

    /// Replaces the record at `index` and keeps the unknown keys of its table.
    pub(super) fn replace(&mut self, index: usize, record: &Record) -> Result<(), DatabaseError> {
        let Some(stored) = self.records.get_mut(index) else { return Ok(()) };
        let (before, after) = (encode(stored)?, encode(record)?);
        let tables = self.toml.get_mut("record").and_then(Item::as_array_of_tables_mut);
        let place = self.places.get(index).copied();
        if let Some(table) = tables.zip(place).and_then(|(tables, place)| tables.get_mut(place)) {
            merge(table, &before, &after);
            *stored = record.clone();
        }
        Ok(())
    }
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.toml.fmt(f)
    }
}

/// Sort key of records: problems of one GEMM type stand together.
pub(super) fn order(problem: &StoredProblem) -> (&StoredPattern, [u64; 4]) {
    let StoredProblem { m, n, k, batch, pattern } = problem;
    (pattern, [*batch, *m, *n, *k])
}

/// Clears the position that a table had in its source file, so that it stays where it is inserted.
fn forget_place(table: &mut Table) {
    table.set_position(None);
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(table) => forget_place(table),
            Item::ArrayOfTables(tables) => tables.iter_mut().for_each(forget_place),
            _ => {}
        }
    }
}

fn encode(record: &Record) -> Result<Table, DatabaseError> {
    layout::table(record).map_err(|error| {
        let StoredProblem { m, n, k, pattern, .. } = &record.problem;
        DatabaseError::Encode { problem: format!("{m}x{n}x{k} {pattern}"), error }
    })
}

/// Returns the schema of a file, if this version can read it.
fn check_schema(root: &Table, text: &str, path: &Path) -> Result<i64, DatabaseError> {
    let item = root.get("schema");
    let wrong = |found: String| {
        let offset = item.and_then(Item::span).map_or(0, |span| span.start);
        let (path, position) = (path.to_owned(), TextPosition::of(text, offset));
        Err(DatabaseError::Schema { path, position, found })
    };
    match item.map(|item| item.as_integer().ok_or(item.type_name())) {
        None => wrong("missing".to_owned()),
        Some(Err(type_name)) => wrong(format!("of type {type_name}")),
        Some(Ok(schema)) if schema < 1 => wrong(schema.to_string()),
        Some(Ok(schema)) if schema <= SCHEMA => Ok(schema),
        Some(Ok(schema)) => Err(DatabaseError::Newer { path: path.to_owned(), schema }),
    }
}

/// A record, and its first impossible value.
type Judged = (Record, Option<RecordFault>);

fn read_records(root: &Table, text: &str, path: &Path) -> Result<Vec<Judged>, DatabaseError> {
    let Some(item) = root.get("record") else { return Ok(Vec::new()) };
    let Some(tables) = item.as_array_of_tables() else {
        return Err(DatabaseError::Records {
            path: path.to_owned(),
            position: TextPosition::of(text, item.span().map_or(0, |span| span.start)),
            found: item.type_name(),
        });
    };
    let judge = |index: usize, table: &Table, record: &Record| {
        let Implausible { field, message } = plausible::check(record).err()?;
        let span = span_of(table, field).or(table.span()).unwrap_or_default();
        let position = TextPosition::of(text, span.start);
        let (path, field) = (path.to_owned(), field.to_owned());
        Some(RecordFault { path, position, record: index + 1, field, message })
    };
    let read = |(index, table): (usize, &Table)| {
        let record = toml_edit::de::from_document(DocumentMut::from(table.clone()));
        let judged = record.map(|record| {
            let fault = judge(index, table, &record);
            (record, fault)
        });
        judged.map_err(|error| {
            let span = error.span().or(table.span()).unwrap_or_default();
            DatabaseError::Field {
                path: path.to_owned(),
                position: TextPosition::of(text, span.start),
                record: index + 1,
                field: field_at(table, &span).unwrap_or_default(),
                message: error.message().to_owned(),
            }
        })
    };
    tables.iter().enumerate().map(read).collect()
}

/// Span of the value with a dotted name in `table`, else of the section that it is in.
fn span_of(table: &dyn TableLike, field: &str) -> Option<Range<usize>> {
    let (name, rest) = field.split_once('.').unwrap_or((field, ""));
    let item = table.get(name)?;
    let inner = match item {
        Item::ArrayOfTables(tables) => {
            tables.iter().find_map(|table| span_of(table as &dyn TableLike, rest))
        }
        _ => item.as_table_like().and_then(|table| span_of(table, rest)),
    };
    inner.or_else(|| item.span()).or_else(|| table.key(name)?.span())
}

/// Dotted name of the item at exactly `span` in `table`.
fn field_at(table: &dyn TableLike, span: &Range<usize>) -> Option<String> {
    table.iter().find_map(|(name, item)| {
        let own = item.span().or_else(|| table.key(name)?.span());
        if own.as_ref() == Some(span) {
            return Some(name.to_owned());
        }
        let inner =
            |table: &dyn TableLike| field_at(table, span).map(|field| format!("{name}.{field}"));
        match item {
            Item::ArrayOfTables(tables) => tables.iter().find_map(|table| inner(table)),
            _ => item.as_table_like().and_then(inner),
        }
    })
}

/// Changes `table` from `before` to `after`, which are two encoded records. A key of neither is
/// unknown and stays. Equal values keep their formatting.
fn merge(table: &mut dyn TableLike, before: &dyn TableLike, after: &dyn TableLike) {
    for (key, _) in before.iter().filter(|(key, _)| !after.contains_key(key)) {
        table.remove(key);
    }
    for (key, new) in after.iter() {
        let old = before.get(key);
        if old.is_some_and(|old| old.to_string() == new.to_string()) {
            continue;
        }
        let Some(item) = table.get_mut(key) else {
            table.insert(key, new.clone());
            continue;
        };
        // All keys of `parameters` belong to the family; another family has other keys.
        let section = if key == "parameters" { None } else { item.as_table_like_mut() };
        let old = old.and_then(Item::as_table_like);
        if let (Some(section), Some(old), Some(new)) = (section, old, new.as_table_like()) {
            merge(section, old, new);
            if let Some(line) = item.as_inline_table_mut() {
                tidy(line);
            }
        } else if item.is_value() == new.is_value() {
            assign(item, new.clone());
        } else {
            // The formatting of a table does not fit an inline table, and the reverse.
            table.insert(key, new.clone());
        }
    }
}

/// Removes the spaces that followed the last key of an inline table, which may now be another key.
fn tidy(line: &mut InlineTable) {
    for (_, value) in line.iter_mut() {
        let blank = |part: Option<&RawString>| {
            part.and_then(RawString::as_str).is_none_or(|text| text.trim_matches(' ').is_empty())
        };
        if blank(value.decor().prefix()) && blank(value.decor().suffix()) {
            value.decor_mut().clear();
        }
    }
}

/// Assigns `new` to `item` and keeps the comment at the end of its line.
fn assign(item: &mut Item, mut new: Item) {
    if let (Some(old), Some(new)) = (item.as_value(), new.as_value_mut()) {
        *new.decor_mut() = old.decor().clone();
    }
    *item = new;
}
