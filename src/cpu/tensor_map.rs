//! Tensor maps as this device has them: the 128 bytes that a kernel is passed and does not look into.
//! Their form is this device's own; one that a driver encoded means nothing here.

use crate::model::tensor_map::{MAX_RANK, PlacedMap};
use crate::model::{Dtype, Swizzle};

/// Words of 64 bits of an encoded map.
pub(super) const WORDS: usize = 16;

/// What an encoded map begins with.
const MARK: u64 = u64::from_le_bytes(*b"tensormp");

/// Where the parts of a map are: extents, strides and the box follow one another.
const EXTENTS: usize = 3;
const STRIDES: usize = EXTENTS + MAX_RANK;

/// Elements of a box along each dimension, 256 at most.
const BOX: usize = STRIDES + MAX_RANK - 1;
const BOX_BITS: u32 = 12;

/// A map as a kernel is passed it.
pub(super) fn encode(map: &PlacedMap) -> [u64; WORDS] {
    let number = |found: Option<usize>| found.unwrap_or_default() as u64;
    let dtype = number(Dtype::ALL.iter().position(|dtype| *dtype == map.dtype));
    let swizzle = number(Swizzle::ALL.iter().position(|swizzle| *swizzle == map.swizzle));
    let mut words = [0; WORDS];
    words[0] = MARK;
    words[1] = map.address;
    words[2] = u64::from(map.rank) | dtype << 8 | swizzle << 16;
    words[EXTENTS..STRIDES].copy_from_slice(&map.extents);
    words[STRIDES..BOX].copy_from_slice(&map.strides);
    for (at, extent) in map.tile.iter().enumerate() {
        words[BOX] |= u64::from(*extent) << (BOX_BITS * at as u32);
    }
    words
}

/// What was encoded; nothing where that was no map, or one of empty boxes.
pub(super) fn decode(words: &[u64; WORDS]) -> Option<PlacedMap> {
    let [rank, dtype, swizzle] = [0, 8, 16].map(|shift| (words[2] >> shift & 0xff) as usize);
    let mask = (1 << BOX_BITS) - 1;
    let mut map = PlacedMap {
        address: words[1],
        dtype: *Dtype::ALL.get(dtype)?,
        rank: rank as u32,
        extents: [0; MAX_RANK],
        strides: [0; MAX_RANK - 1],
        tile: std::array::from_fn(|at| (words[BOX] >> (BOX_BITS * at as u32) & mask) as u32),
        swizzle: *Swizzle::ALL.get(swizzle)?,
    };
    map.extents.copy_from_slice(&words[EXTENTS..STRIDES]);
    map.strides.copy_from_slice(&words[STRIDES..BOX]);
    let is_map = words[0] == MARK && (1..=MAX_RANK).contains(&rank) && !map.tile.contains(&0);
    is_map.then_some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_decoded_and_nothing_else() {
        let map = PlacedMap {
            address: 3 << 40,
            dtype: Dtype::F32,
            rank: 3,
            extents: [u64::from(u32::MAX), 7, 2, 1, 1],
            strides: [1 << 39, 16, 0, 0],
            tile: [256, 32, 1, 1, 1],
            swizzle: Swizzle::B64,
        };
        let words = encode(&map);
        assert_eq!(decode(&words), Some(map));
        assert_eq!(decode(&[0; WORDS]), None);
        for (at, word) in [(0, 0), (2, 6), (2, 0x903), (BOX, 0)] {
            let mut other = words;
            other[at] = word;
            assert_eq!(decode(&other), None, "{at}");
        }
    }
}
