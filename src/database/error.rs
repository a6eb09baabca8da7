//! Errors of database files: which file, which position, and what to do next.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::document::SCHEMA;

/// A position in a text; lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPosition {
    /// The line.
    pub line: usize,
    /// The character within the line.
    pub column: usize,
}

impl TextPosition {
    /// Position of the byte at `offset`; an offset past the end gives the end.
    pub fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A record with an impossible value. It stays in its file and is not used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}:{position}: record {record}, `{field}`: {message}; the record is left alone and not used: correct or delete it", .path.display())]
pub struct RecordFault {
    /// The database file.
    pub path: PathBuf,
    /// Where the field, or its section, begins.
    pub position: TextPosition,
    /// Which record, counted from 1.
    pub record: usize,
    /// The field, as in `measurement.median_us`.
    pub field: String,
    /// What is wrong with its value.
    pub message: String,
}

/// Reason why a database was not read or not written. The file is unchanged.
#[derive(Debug, Error)]
pub enum DatabaseError {
    /// The file exists and cannot be read.
    #[error("cannot read `{}`: {error}; make it readable or give another file with `--db PATH`", .path.display())]
    Unreadable {
        /// The database file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The text is not TOML; the file may be truncated.
    #[error("{}:{position}: not TOML: {message}; repair the file or give another with `--db PATH`", .path.display())]
    Syntax {
        /// The database file.
        path: PathBuf,
        /// Where the syntax error is.
        position: TextPosition,
        /// Message of the parser.
        message: String,
    },
    /// The file is TOML without a valid schema number.
    #[error("{}:{position}: `schema` is {found}: a tuning database begins with `schema = {SCHEMA}`; if this file is not a database, give another with `--db PATH`", .path.display())]
    Schema {
        /// The database file.
        path: PathBuf,
        /// Where `schema` is, or where it should be.
        position: TextPosition,
        /// The value found in place of a number from 1.
        found: String,
    },
    /// A later version of this program wrote it.
    #[error("{}: written by a newer gemm-tune (schema {schema}); update gemm-tune or give another file with `--db PATH`", .path.display())]
    Newer {
        /// The database file.
        path: PathBuf,
        /// Its schema.
        schema: i64,
    },
    /// `record` is not a list of records.
    #[error("{}:{position}: `record` is {found}: write each record under a `[[record]]` line", .path.display())]
    Records {
        /// The database file.
        path: PathBuf,
        /// Where `record` is.
        position: TextPosition,
        /// Its TOML type.
        found: &'static str,
    },
    /// A record lacks a field or has a field of another type.
    #[error("{}:{position}: record {record}{}: {message}; correct the record, delete it, or give another file with `--db PATH`", .path.display(), within(.field))]
    Field {
        /// The database file.
        path: PathBuf,
        /// Where the field, or the section that lacks it, begins.
        position: TextPosition,
        /// Which record, counted from 1.
        record: usize,
        /// The field or section, as in `measurement.median_us`; empty for the record itself.
        field: String,
        /// The error of the field.
        message: String,
    },
    /// The record to store has a value that TOML cannot hold.
    #[error("the record of {problem} cannot be written as TOML: {error}")]
    Encode {
        /// The problem of the record.
        problem: String,
        /// The encoder's error.
        error: toml_edit::ser::Error,
    },
    /// A folder or a file cannot be created or written.
    #[error("cannot write `{}`: {error}; make it writable or give another file with `--db PATH`", .path.display())]
    Unwritable {
        /// The folder or file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// Measured and modelled times do not share a file.
    #[error("`{}` holds records of {stored}; the times of {new} cannot be added, because times of the cpu device are modelled and times of a GPU are measured; give another file with `--db PATH`", .path.display())]
    MixedTiming {
        /// The database file.
        path: PathBuf,
        /// Device of a stored record.
        stored: String,
        /// Device of the new record.
        new: String,
    },
    /// Files to merge hold measured and modelled times.
    #[error("`{}` holds measured times and `{}` holds modelled times of the cpu device; they cannot share a file; merge them separately", .measured.display(), .modelled.display())]
    MixedInputs {
        /// A file with records of a GPU.
        measured: PathBuf,
        /// A file with records of the cpu device; may be the same file.
        modelled: PathBuf,
    },
    /// The system refused the lock that serialises writers.
    #[error("cannot lock `{}`: {error}; give a file on a disk that supports locks with `--db PATH`", .path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
}

impl DatabaseError {
    /// The error of a record that was read alone: its line and its number in the whole file.
    pub(super) fn moved(mut self, lines: usize, index: usize) -> Self {
        match &mut self {
            Self::Syntax { position, .. }
            | Self::Schema { position, .. }
            | Self::Records { position, .. } => position.line += lines,
            Self::Field { position, record, .. } => {
                position.line += lines;
                *record = index + 1;
            }
            _ => {}
        }
        self
    }

    /// A part of a file that has no record.
    pub(super) fn no_record(path: &Path, index: usize) -> Self {
        Self::Field {
            path: path.to_owned(),
            position: TextPosition { line: 1, column: 1 },
            record: index + 1,
            field: String::new(),
            message: "it is empty".to_owned(),
        }
    }
}

impl RecordFault {
    /// As [`DatabaseError::moved`].
    pub(super) fn moved(mut self, lines: usize, index: usize) -> Self {
        self.position.line += lines;
        self.record = index + 1;
        self
    }
}

fn within(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!(", `{field}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        for (offset, line, column) in
            [(0, 1, 1), (2, 1, 3), (3, 2, 1), (5, 2, 2), (6, 2, 3), (99, 2, 3)]
        {
            assert_eq!(
                TextPosition::of("ab\nµc", offset),
                TextPosition { line, column },
                "at {offset}"
            );
        }
    }
}
