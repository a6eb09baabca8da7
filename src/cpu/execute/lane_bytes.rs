//! Bytes of each lane in the words that a warp loads or stores.

use crate::cpu::operation::{Element, Longs, Words};

/// Words that the lanes of a warp load or store, up to 32 bytes per lane.
pub(super) type Staged = [Words; 8];

/// Bytes of the words that a lane loaded.
pub(super) fn bytes_of(staged: &Staged, lane: usize, at: u32, bytes: u32) -> u64 {
    let word = at as usize / 4;
    let low = u64::from(staged[word][lane]) >> (8 * (at % 4));
    match bytes {
        8 => low | u64::from(staged[word + 1][lane]) << 32,
        _ => low & (u64::MAX >> (64 - 8 * bytes)),
    }
}

/// Puts bytes of every lane into the words to store.
pub(super) fn put(staged: &mut Staged, values: &Longs, at: u32, bytes: u32) {
    let word = at as usize / 4;
    for (lane, value) in values.iter().enumerate() {
        let kept = value & (u64::MAX >> (64 - 8 * bytes));
        staged[word][lane] |= (kept << (8 * (at % 4))) as u32;
        if bytes == 8 {
            staged[word + 1][lane] = (value >> 32) as u32;
        }
    }
}

pub(super) fn extend(element: Element, value: u64) -> u64 {
    let unused = 64 - 8 * element.bytes;
    if element.signed { ((value << unused).cast_signed() >> unused).cast_unsigned() } else { value }
}
