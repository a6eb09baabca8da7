//! Swizzles of shared memory: permutations of 16-byte chunks by address bits.
//!
//! A swizzle XORs low address bits with higher ones of the same address (ISA: swizzling modes). Tensor copies and
//! matrix descriptors use the same permutation. Its pattern depends on addresses alone and repeats every eight rows.

use crate::model::Swizzle;

/// Number of chunk bits that a swizzle changes.
fn bits(swizzle: Swizzle) -> u32 {
    match swizzle {
        Swizzle::None => 0,
        Swizzle::B32 => 1,
        Swizzle::B64 => 2,
        Swizzle::B128 => 3,
    }
}

/// Bytes of the rows within which a swizzle permutes chunks: 16 without a swizzle.
pub(super) fn row_bytes(swizzle: Swizzle) -> u64 {
    16 << bits(swizzle)
}

/// Address in the block's shared memory of the byte that has `address` without a swizzle.
pub(super) fn swizzled(swizzle: Swizzle, address: u64) -> u64 {
    let mask = (1 << bits(swizzle)) - 1;
    address ^ (address >> 7 & mask) << 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swizzle_permutes_the_chunks_of_each_row() {
        for (swizzle, row, expected) in [
            (Swizzle::None, 0x380, [0, 1, 2, 3, 4, 5, 6, 7]),
            (Swizzle::B32, 0x80, [1, 0, 3, 2, 5, 4, 7, 6]),
            (Swizzle::B32, 0x100, [0, 1, 2, 3, 4, 5, 6, 7]),
            (Swizzle::B64, 0x180, [3, 2, 1, 0, 7, 6, 5, 4]),
            (Swizzle::B64, 0x200, [0, 1, 2, 3, 4, 5, 6, 7]),
            (Swizzle::B128, 0x280, [5, 4, 7, 6, 1, 0, 3, 2]),
            (Swizzle::B128, 0x400, [0, 1, 2, 3, 4, 5, 6, 7]),
        ] {
            let found: [u64; 8] = std::array::from_fn(|chunk| {
                (swizzled(swizzle, row + 16 * chunk as u64) - row) / 16
            });
            assert_eq!(found, expected, "{swizzle:?} {row:#x}");
            assert_eq!(swizzled(swizzle, row + 5), swizzled(swizzle, row) + 5);
        }
    }
}
