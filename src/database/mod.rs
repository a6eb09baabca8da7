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
pub mod sections;
mod selection;
mod summary;

#[cfg(test)]
mod tests;

pub use convert::UnknownCapability;
pub use document::SCHEMA;
pub use drift::Drift;
pub use error::{DatabaseError, TextPosition};
pub use file::{Database, ReplacePolicy, StoreOutcome, check_writable, record_winner};
pub use merge::{Conflict, MergeCandidate, MergeReport, merge};
pub use prune::{PruneConditions, PrunedRecord, Version, prune};
pub use rank::preference;
pub use record::{Record, Winner};
pub use sections::{
    LibraryTime, Provenance, StoredBaseline, StoredConditions, StoredConfidence, StoredProblem,
    StoredValidation,
};
pub use selection::RecordFilter;
pub use summary::{ResultOrigin, record_summary};
