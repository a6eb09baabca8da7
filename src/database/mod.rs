//! The tuning database: winners as records of a TOML file, one file for each GPU model.
//!
//! Here is what a record is ([`record`]), how a file of them is read and changed without losing
//! anything that others put there ([`mod@file`]), and how several become one ([`merge()`]). Which candidate wins is decided before it gets
//! here; nothing here times, compiles or knows a family.

mod convert;
mod document;
mod drift;
pub mod error;
mod figures;
pub mod file;
mod layout;
mod merge;
mod migrate;
mod prune;
mod rank;
pub mod record;
mod restamp;
mod selection;
mod summary;

#[cfg(test)]
mod tests;

pub use convert::UnknownCapability;
pub use document::SCHEMA;
pub use drift::Drift;
pub use error::{DatabaseError, Position};
pub use file::{Database, Recorded, Replace, check_writable, record_winner};
pub use merge::{Conflict, Contender, Merged, merge};
pub use prune::{Conditions, Pruned, Version, prune};
pub use rank::preference;
pub use record::{
    LibraryTime, Provenance, Record, StoredBaseline, StoredConditions, StoredConfidence,
    StoredProblem, StoredValidation, Winner,
};
pub use restamp::restamp;
pub use selection::Selection;
pub use summary::{Origin, record_summary};
