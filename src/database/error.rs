//! What can be wrong with a database file: which file, where in it, and what to do next.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::document::SCHEMA;

/// A place in a text, both counted from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPosition {
    /// The line.
    pub line: usize,
    /// The character within it.
    pub column: usize,
}

impl TextPosition {
    /// The place of the byte at `offset`; an offset past the end is the end.
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

/// Why a database was not read or not written. The file is as it was before.
#[derive(Debug, Error)]
pub enum DatabaseError {
    /// The file is there, but its text is not to be had.
    #[error("cannot read `{}`: {error}; make it readable or give another file with `--db PATH`", .path.display())]
    Unreadable {
        /// The database file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The text is not TOML, as of a file cut short.
    #[error("{}:{position}: not TOML: {message}; repair the file or give another with `--db PATH`", .path.display())]
    Syntax {
        /// The database file.
        path: PathBuf,
        /// Where TOML ends.
        position: TextPosition,
        /// What the parser expected.
        message: String,
    },
    /// TOML, but without the number that says how to read it.
    #[error("{}:{position}: `schema` is {found}: a tuning database begins with `schema = {SCHEMA}`; give another file with `--db PATH` if this is none", .path.display())]
    Schema {
        /// The database file.
        path: PathBuf,
        /// Where `schema` is, or should be.
        position: TextPosition,
        /// What is there instead of a number from 1.
        found: String,
    },
    /// A later version of this program wrote it.
    #[error("{}: written by a newer gemm-tune (schema {schema}); update gemm-tune or give another file with `--db PATH`", .path.display())]
    Newer {
        /// The database file.
        path: PathBuf,
        /// The schema that it has.
        schema: i64,
    },
    /// `record` is something else than a list of records.
    #[error("{}:{position}: `record` is {found}: write each record under a `[[record]]` line", .path.display())]
    Records {
        /// The database file.
        path: PathBuf,
        /// Where it is.
        position: TextPosition,
        /// The TOML type that it has.
        found: &'static str,
    },
    /// A record lacks a field or has one of another type.
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
        /// What is wrong with it.
        message: String,
    },
    /// The record to store has a value that TOML cannot hold.
    #[error("the record of {problem} cannot be written as TOML: {error}")]
    Encode {
        /// Whose winner it is.
        problem: String,
        /// The value's type.
        error: toml_edit::ser::Error,
    },
    /// A folder or a file could not be made or written.
    #[error("cannot write `{}`: {error}; make it writable or give another file with `--db PATH`", .path.display())]
    Unwritable {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Times that were measured and times that were modelled do not share a file.
    #[error("`{}` holds records of {stored}: the times of {new} are not of that kind, for those of the cpu device are modelled; give another file with `--db PATH`", .path.display())]
    MixedTiming {
        /// The database file.
        path: PathBuf,
        /// The device of a record that it has.
        stored: String,
        /// The device whose record was to be stored.
        new: String,
    },
    /// Files to merge hold times of both kinds.
    #[error("`{}` holds measured times and `{}` modelled ones of the cpu device, which do not share a file; merge them apart", .measured.display(), .modelled.display())]
    MixedInputs {
        /// A file with records of a GPU.
        measured: PathBuf,
        /// A file with records of the cpu device; may be the same.
        modelled: PathBuf,
    },
    /// The lock that keeps writers apart was refused.
    #[error("cannot lock `{}`: {error}; give a file on a disk that supports locks with `--db PATH`", .path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
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
