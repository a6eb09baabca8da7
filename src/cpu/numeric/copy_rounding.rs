//! Rounding of elements that the copy engine copies to shared memory, as measured on an H200.

use super::Rounding;
use super::float::TF32;
use crate::model::CopyRounding;

/// Low bits of a word that tf32 leaves unused, which a copy makes 0.
const UNUSED_BITS: u32 = 0x1fff;

/// Rounds an element to nearest, ties to even. Subnormal values are rounded too, values beyond the largest one become
/// infinity, and every NaN becomes the positive one of all bits but the unused ones.
pub(in crate::cpu) fn round_copied(element: u32, to: CopyRounding) -> u32 {
    match to {
        CopyRounding::Tf32 => {
            let value = f64::from(f32::from_bits(element));
            TF32.round(value, Rounding::NearestEven) & !UNUSED_BITS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_the_bits_that_an_h200_copies() {
        for (element, rounded) in [
            (0x3f80_1000, 0x3f80_0000),
            (0x3f80_3000, 0x3f80_4000),
            (0x3f80_1001, 0x3f80_2000),
            (0xbf80_3000, 0xbf80_4000),
            (0, 0),
            (0x8000_0000, 0x8000_0000),
            (0x0000_1001, 0x0000_2000),
            (0x8000_3000, 0x8000_4000),
            (0x007f_ffff, 0x0080_0000),
            (0x7f7f_efff, 0x7f7f_e000),
            (0x7f7f_f000, 0x7f80_0000),
            (0xff7f_ffff, 0xff80_0000),
            (0x7f80_0000, 0x7f80_0000),
            (0xff80_0000, 0xff80_0000),
            (0x7f80_0001, 0x7fff_e000),
            (0xffc0_0000, 0x7fff_e000),
            (0xffff_ffff, 0x7fff_e000),
        ] {
            let found = round_copied(element, CopyRounding::Tf32);
            assert_eq!(found, rounded, "{element:#010x}: {found:#010x} for {rounded:#010x}");
        }
    }
}
