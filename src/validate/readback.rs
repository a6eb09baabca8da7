//! Results that a validation reads back from the device.

use super::kernels::RESULT_BYTES;

/// Offsets of the results of a validation.
pub(super) const SMALL: u64 = 0;
pub(super) const UNIFORM: u64 = RESULT_BYTES;
pub(super) const GUARDS_CHANGED: u64 = 2 * RESULT_BYTES;
pub(super) const OPERANDS_CHANGED: u64 = GUARDS_CHANGED + 8;
pub(super) const READBACK_BYTES: u64 = OPERANDS_CHANGED + 8;

/// All results of a validation; `kernels.cu` defines the layout.
pub(super) struct ValidationReadback {
    pub(super) small: ComparisonResult,
    pub(super) uniform: ComparisonResult,
    pub(super) guards_changed: u64,
    pub(super) operands_changed: u64,
}

pub(super) struct ComparisonResult {
    pub(super) wrong: u64,
    pub(super) worst: u64,
    pub(super) at: u64,
    pub(super) got: f64,
    pub(super) expected: f64,
}

impl ValidationReadback {
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let word = |at: u64| {
            let bytes = bytes.get(at as usize..).and_then(|rest| rest.first_chunk::<8>());
            bytes.map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
        };
        let result = |at: u64| ComparisonResult {
            wrong: word(at),
            worst: word(at + 8),
            at: word(at + 16),
            got: f64::from_bits(word(at + 24)),
            expected: f64::from_bits(word(at + 32)),
        };
        Self {
            small: result(SMALL),
            uniform: result(UNIFORM),
            guards_changed: word(GUARDS_CHANGED),
            operands_changed: word(OPERANDS_CHANGED),
        }
    }
}
