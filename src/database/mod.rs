//! The tuning database: winners as records of a TOML file, one file for each GPU model.
//!
//! A record ([`record`], [`sections`]) is one winner. [`mod@file`] reads and changes a file of
//! records and keeps comments and unknown keys. [`merge()`] combines several files into one. The
//! winner is decided before; this room times nothing, compiles nothing and names no family.

mod built_in;
mod chunks;
mod convert;
mod document;
mod drift;
pub mod error;
mod figures;
pub mod file;
mod glance;
mod layout;
mod merge;
mod migrate;
mod plausible;
mod prune;
mod rank;
pub mod record;
mod restamp;
pub mod sections;
mod selection;
mod summary;
mod texts;

#[cfg(test)]
mod tests;

pub use built_in::BUILT_IN;
pub use convert::UnknownCapability;
pub use document::SCHEMA;
pub use drift::Drift;
pub use error::{DatabaseError, RecordFault, TextPosition};
pub use file::{Database, ReplacePolicy, StoreOutcome, WritableDatabase, record_winner};
pub use merge::{Conflict, MergeCandidate, MergeReport, merge};
pub use prune::{PruneConditions, PrunedRecord, Version, prune};
pub use rank::preference;
pub use record::{Record, Winner};
pub use restamp::restamp;
pub use sections::{
    LibraryAlgorithm, LibraryTime, Provenance, StoredBaseline, StoredConditions, StoredConfidence,
    StoredFinalist, StoredPattern, StoredProblem, StoredValidation, UnknownPattern,
};
pub use selection::RecordFilter;
pub use summary::{ResultOrigin, record_summary, update_record};
