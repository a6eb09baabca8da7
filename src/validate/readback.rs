//! Results that a validation reads back from the device.

use super::kernels::RESULT_BYTES;
use super::parts::Part;
use crate::model::Problem;

/// Offsets of the runs in the results of a part.
pub(super) const SMALL: u64 = 0;
pub(super) const MIXED: u64 = RESULT_BYTES;

/// Bytes of the results of a part.
pub(super) const PART_BYTES: u64 = 2 * RESULT_BYTES;

/// Offsets of the counts behind the results of so many parts.
pub(super) fn guards_changed(parts: usize) -> u64 {
    parts as u64 * PART_BYTES
}

pub(super) fn operands_changed(parts: usize) -> u64 {
    guards_changed(parts) + 8
}

/// Bytes of all results.
pub(super) fn readback_bytes(parts: usize) -> u64 {
    operands_changed(parts) + 8
}

/// All results of a validation; `kernels.cu` defines the layout.
#[derive(Default)]
pub(super) struct ValidationReadback {
    pub(super) small: ComparisonResult,
    pub(super) mixed: ComparisonResult,
    pub(super) guards_changed: u64,
    pub(super) operands_changed: u64,
}

/// Result of comparing one run.
#[derive(Default, Clone, Copy)]
pub(super) struct ComparisonResult {
    pub(super) wrong: u64,
    /// Bits of the largest error, ordered as numbers since none is negative.
    pub(super) worst: u64,
    pub(super) at: u64,
    pub(super) got: f64,
    pub(super) expected: f64,
}

impl ComparisonResult {
    /// Adds the result of a later part. The first of the worst wrong elements is described.
    fn add(&mut self, later: Self) {
        let wrong = self.wrong + later.wrong;
        let described = later.wrong > 0 && (self.wrong == 0 || later.worst > self.worst);
        let worst = self.worst.max(later.worst);
        *self = Self { wrong, worst, ..if described { later } else { *self } };
    }
}

impl ValidationReadback {
    pub(super) fn from_bytes(bytes: &[u8], problem: &Problem, parts: &[Part]) -> Self {
        let word = |at: u64| {
            let bytes = bytes.get(at as usize..).and_then(|rest| rest.first_chunk::<8>());
            bytes.map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
        };
        let result = |part: &Part, at: u64| ComparisonResult {
            wrong: word(at),
            worst: word(at + 8),
            at: word(at + 16).saturating_add(part.first(problem)),
            got: f64::from_bits(word(at + 24)),
            expected: f64::from_bits(word(at + 32)),
        };
        let mut readback = Self {
            guards_changed: word(guards_changed(parts.len())),
            operands_changed: word(operands_changed(parts.len())),
            ..Self::default()
        };
        for (part, at) in parts.iter().zip((0..).step_by(PART_BYTES as usize)) {
            readback.small.add(result(part, at + SMALL));
            readback.mixed.add(result(part, at + MIXED));
        }
        readback
    }
}
