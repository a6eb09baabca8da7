//! Encoding of tensor maps: the 128 opaque bytes that a kernel receives. The encoding is specific
//! to this device; maps that a driver encoded are invalid here.

use crate::model::tensor_map::{MAX_RANK, PlacedMap};
use crate::model::{CopyRounding, Dtype, Swizzle};

/// 64-bit words of an encoded map.
pub(super) const WORDS: usize = 16;

/// First word of an encoded map.
const MARK: u64 = u64::from_le_bytes(*b"tensormp");

/// Indices of the parts of a map: extents, then strides, then the box.
const EXTENTS: usize = 3;
const STRIDES: usize = EXTENTS + MAX_RANK;

/// Elements of a box along each dimension, 256 at most.
const BOX: usize = STRIDES + MAX_RANK - 1;
const BOX_BITS: u32 = 12;

/// Encodes a map.
pub(super) fn encode(map: &PlacedMap) -> [u64; WORDS] {
    let number = |found: Option<usize>| found.unwrap_or_default() as u64;
    let dtype = number(Dtype::ALL.iter().position(|dtype| *dtype == map.dtype));
    let swizzle = number(Swizzle::ALL.iter().position(|swizzle| *swizzle == map.swizzle));
    // 0 is no rounding.
    let rounding = map
        .rounds_to
        .map_or(0, |to| 1 + number(CopyRounding::ALL.iter().position(|rounding| *rounding == to)));
    let mut words = [0; WORDS];
    words[0] = MARK;
    words[1] = map.address;
    words[2] = u64::from(map.rank) | dtype << 8 | swizzle << 16 | rounding << 24;
    words[EXTENTS..STRIDES].copy_from_slice(&map.extents);
    words[STRIDES..BOX].copy_from_slice(&map.strides);
    for (at, extent) in map.tile.iter().enumerate() {
        words[BOX] |= u64::from(*extent) << (BOX_BITS * at as u32);
    }
    words
}

/// Decodes a map. `None` for words that are no map, and for a map with an empty box.
pub(super) fn decode(words: &[u64; WORDS]) -> Option<PlacedMap> {
    let [rank, dtype, swizzle, rounding] =
        [0, 8, 16, 24].map(|shift| (words[2] >> shift & 0xff) as usize);
    let mask = (1 << BOX_BITS) - 1;
    let mut map = PlacedMap {
        address: words[1],
        dtype: *Dtype::ALL.get(dtype)?,
        rank: rank as u32,
        extents: [0; MAX_RANK],
        strides: [0; MAX_RANK - 1],
        tile: std::array::from_fn(|at| (words[BOX] >> (BOX_BITS * at as u32) & mask) as u32),
        swizzle: *Swizzle::ALL.get(swizzle)?,
        rounds_to: match rounding {
            0 => None,
            code => Some(*CopyRounding::ALL.get(code - 1)?),
        },
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
    fn an_encoded_map_decodes_and_other_words_do_not() {
        let map = PlacedMap {
            address: 3 << 40,
            dtype: Dtype::F32,
            rank: 3,
            extents: [u64::from(u32::MAX), 7, 2, 1, 1],
            strides: [1 << 39, 16, 0, 0],
            tile: [256, 32, 1, 1, 1],
            swizzle: Swizzle::B64,
            rounds_to: None,
        };
        for rounds_to in [None, Some(CopyRounding::Tf32)] {
            let map = PlacedMap { rounds_to, ..map };
            assert_eq!(decode(&encode(&map)), Some(map));
        }
        let words = encode(&map);
        assert_eq!(decode(&[0; WORDS]), None);
        for (at, word) in [(0, 0), (2, 6), (2, 0x903), (2, 0x200_0003), (BOX, 0)] {
            let mut other = words;
            other[at] = word;
            assert_eq!(decode(&other), None, "{at}");
        }
    }
}
