//! The tuning database: winners as records of a TOML file, one file for each GPU model.
//!
//! Here is what a record is ([`record`]) and how a file of them is read and changed without losing
//! anything that others put there ([`mod@file`]). Which candidate wins is decided before it gets
//! here; nothing here times, compiles or knows a family.

mod convert;
mod document;
pub mod error;
mod figures;
pub mod file;
mod layout;
pub mod record;
mod summary;

#[cfg(test)]
mod tests;

pub use document::SCHEMA;
pub use error::{DatabaseError, Position};
pub use file::{Database, Recorded, Replace, check_writable, record_winner};
pub use record::{LibraryTime, Provenance, Record, StoredConfidence, Winner};
pub use summary::{Origin, record_summary};
