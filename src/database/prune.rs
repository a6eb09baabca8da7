//! Removes records from a file that meet all given conditions, and returns what was removed.

use std::collections::HashMap;
use std::path::Path;

use super::error::DatabaseError;
use super::file::{Database, rewrite};
use super::rank::preference;
use super::record::{Record, RecordKey};

/// Conditions for removal. A record is removed if it meets every condition that is set; without
/// conditions, none is removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneConditions {
    /// A better record has the same key: of a complete run where this one is interim, or faster, or
    /// as fast and earlier.
    pub superseded: bool,
    /// The run was interrupted.
    pub interim: bool,
    /// The device has this name.
    pub device_name: Option<String>,
    /// The NVRTC version is below this one.
    pub nvrtc_before: Option<Version>,
    /// The gemm-tune version is below this one.
    pub gemm_tune_before: Option<Version>,
}

/// A version number: `13.0`, `0.1.0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(Vec<u64>);

impl Version {
    /// Parses numbers separated by dots; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers: Vec<u64> =
            text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        while numbers.last() == Some(&0) {
            numbers.pop();
        }
        Some(Self(numbers))
    }
}

/// A removed record with the reason.
#[derive(Debug, Clone, PartialEq)]
pub struct PrunedRecord {
    /// The record.
    pub record: Record,
    /// Each condition that it meets, as text.
    pub because: Vec<String>,
}

impl PruneConditions {
    /// Whether no condition is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Selects the records to remove, with their indices.
    pub fn apply(&self, records: &[Record]) -> Vec<(usize, PrunedRecord)> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut best: HashMap<RecordKey<'_>, usize> = HashMap::new();
        for (index, record) in records.iter().enumerate() {
            let place = best.entry(record.record_key()).or_insert(index);
            if preference(record, &records[*place]).is_lt() {
                *place = index;
            }
        }
        let going = |(index, record): (usize, &Record)| {
            let rival = best.get(&record.record_key()).filter(|best| **best != index);
            let because = self.met_by(record, rival.map(|best| &records[*best]))?;
            Some((index, PrunedRecord { record: record.clone(), because }))
        };
        records.iter().enumerate().filter_map(going).collect()
    }

    /// The conditions as text, if a record meets all; `better` is the preferred record with the
    /// same key.
    fn met_by(&self, record: &Record, better: Option<&Record>) -> Option<Vec<String>> {
        let mut because = Vec::new();
        if self.superseded {
            let rival = better?;
            let whole = if rival.provenance.interim { "" } else { " of a complete run" };
            because.push(format!("a record{whole} takes {}", rival.median()));
        }
        if self.interim {
            if !record.provenance.interim {
                return None;
            }
            because.push("its run was interrupted".to_owned());
        }
        if let Some(name) = &self.device_name {
            if record.device.name != *name {
                return None;
            }
            because.push(format!("measured on {name}"));
        }
        let toolchain = [
            (&self.nvrtc_before, &record.provenance.nvrtc, "NVRTC"),
            (&self.gemm_tune_before, &record.provenance.gemm_tune, "gemm-tune"),
        ];
        for (before, own, what) in toolchain {
            let Some(before) = before else { continue };
            // An unreadable version is not treated as old.
            if Version::parse(own).is_none_or(|own| own >= *before) {
                return None;
            }
            because.push(format!("{what} {own}"));
        }
        Some(because)
    }
}

/// Removes the records that meet `conditions` from the file at `path` and returns them. With
/// `dry_run` the file stays unchanged.
///
/// # Errors
/// [`DatabaseError`]; the file is then unchanged.
pub fn prune(
    path: &Path,
    conditions: &PruneConditions,
    dry_run: bool,
) -> Result<Vec<PrunedRecord>, DatabaseError> {
    if dry_run {
        let going = conditions.apply(Database::load_existing(path)?.records());
        return Ok(going.into_iter().map(|(_, pruned)| pruned).collect());
    }
    let mut pruned = Vec::new();
    rewrite(path, |records| {
        let (places, going): (Vec<usize>, _) = conditions.apply(records).into_iter().unzip();
        pruned = going;
        places.into_iter().map(|place| (place, None)).collect()
    })?;
    Ok(pruned)
}
