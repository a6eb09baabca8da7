//! Which of several records in one place counts, by a rule that no order of files changes; and the
//! short name of a place.

use std::cmp::Ordering;

use super::record::{Record, RecordKey};
use crate::model::Device;
use crate::model::device::CPU;

/// Hexadecimal digits of a key: with 10,000 records two share one with a probability of 1 %, and
/// then both are shown.
const KEY_DIGITS: usize = 8;

impl Record {
    /// A short name of what the record is for: its problem, device, cache policy and power state. Records that
    /// compete with each other have the same.
    pub fn key(&self) -> String {
        let RecordKey { problem, device, compute_capability, cache_policy, power } =
            self.record_key();
        let mut hasher = blake3::Hasher::new();
        for number in [problem.m, problem.n, problem.k, problem.batch] {
            hasher.update(&number.to_le_bytes());
        }
        let words = [&*problem.dtype, &problem.compute, &problem.layout];
        for word in words.into_iter().chain([device, compute_capability, cache_policy, power]) {
            hasher.update(word.as_bytes());
            hasher.update(&[0]);
        }
        hasher.finalize().to_hex().chars().take(KEY_DIGITS).collect()
    }

    /// Whether it was found on this device, or one of its kind.
    pub fn is_of(&self, device: &Device) -> bool {
        let RecordKey { device: name, compute_capability, .. } = self.record_key();
        name == device.name && compute_capability == device.compute_capability.to_string()
    }

    /// Whether its time was computed on the host and not measured on a GPU.
    pub fn is_modelled(&self) -> bool {
        self.device.name == CPU
    }
}

/// The better of two records in one place comes first: one whose bits are the same in each run before
/// one whose are not, for who reads several files allowed nothing; then one of a whole run before one of
/// an interrupted run, then the lower median, then the earlier one.
pub fn preference(a: &Record, b: &Record) -> Ordering {
    (b.deterministic.cmp(&a.deterministic))
        .then_with(|| a.provenance.interim.cmp(&b.provenance.interim))
        .then_with(|| time(a).total_cmp(&time(b)))
        .then_with(|| a.provenance.time.cmp(&b.provenance.time))
}

/// A median to compare by; what is no number is slower than everything.
fn time(record: &Record) -> f64 {
    let median = record.median().0;
    if median.is_nan() { f64::INFINITY } else { median }
}
