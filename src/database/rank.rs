//! Preference among records with the same key, independent of the order of files; and the short
//! key.

use super::sections::StoredPattern;
use std::cmp::Ordering;

use super::record::{Record, RecordKey};
use crate::model::Device;
use crate::model::device::CPU;

/// Hexadecimal digits of a key. Among 10,000 records two share a key with a probability of 1 %;
/// then both are shown.
const KEY_DIGITS: usize = 8;

impl Record {
    /// Short hash of the record key (problem, device, cache policy, power state). Competing records
    /// have the same.
    pub fn key(&self) -> String {
        let RecordKey { problem, device, compute_capability, cache_policy, power } =
            self.record_key();
        let mut hasher = blake3::Hasher::new();
        for number in [problem.m, problem.n, problem.k, problem.batch] {
            hasher.update(&number.to_le_bytes());
        }
        // What is absent is no part of the hash, so that keys of earlier files stay.
        let StoredPattern { dtype, b_dtype, out, compute, layout, epilogue } = &problem.pattern;
        let other = [("b_dtype", b_dtype), ("out", out), ("epilogue", epilogue)];
        let other = other.into_iter().filter_map(|(key, word)| Some([key, word.as_ref()?]));
        let words = [&**dtype, compute, layout].into_iter().chain(other.flatten());
        for word in words.chain([device, compute_capability, cache_policy, power]) {
            hasher.update(word.as_bytes());
            hasher.update(&[0]);
        }
        hasher.finalize().to_hex().chars().take(KEY_DIGITS).collect()
    }

    /// Whether it was measured on this device model.
    pub fn is_of(&self, device: &Device) -> bool {
        let RecordKey { device: name, compute_capability, .. } = self.record_key();
        name == device.name && compute_capability == device.compute_capability.to_string()
    }

    /// Whether its time was modelled on the host and not measured on a GPU.
    pub fn is_modelled(&self) -> bool {
        self.device.name == CPU
    }
}

/// Orders records with the same key, the preferred one first: deterministic before
/// non-deterministic, because readers of several files did not allow non-determinism. Then complete
/// before interrupted, then the lower median, then the earlier one.
pub fn preference(a: &Record, b: &Record) -> Ordering {
    (b.deterministic.cmp(&a.deterministic))
        .then_with(|| a.provenance.interim.cmp(&b.provenance.interim))
        .then_with(|| time(a).total_cmp(&time(b)))
        .then_with(|| a.provenance.time.cmp(&b.provenance.time))
}

/// Median for comparison; NaN counts as infinity.
fn time(record: &Record) -> f64 {
    let median = record.median().0;
    if median.is_nan() { f64::INFINITY } else { median }
}
