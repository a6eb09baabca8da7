//! Operand values as a function of their index, so that device and host agree without copies. The
//! generators in `kernels.cu` are equal.

use super::element::{bits_of, value_of};
use crate::model::{Dtype, EpilogueOp};
use crate::worker::Scalars;

/// Kind of the values of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// -3 to 3 without 0: sums are exact, and every missing product shows.
    Small,
    /// Uniform over [-1, 1), over -1000 to 1000 for integers, or over all of 8 bits.
    Uniform,
}

/// Seeds of the value streams of one run of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seeds(u64);

impl Seeds {
    pub(super) fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(16)) // space for the streams
    }

    /// Seeds of A and B.
    pub(super) fn operands(self) -> [u64; 2] {
        [self.stream(1), self.stream(2)]
    }

    /// Seed of C before it is written.
    pub(super) fn c(self) -> u64 {
        self.stream(3)
    }

    /// Seed of operands that are only timed.
    pub(super) fn timed(self) -> u64 {
        self.stream(4)
    }

    /// Seed for selecting blocks.
    pub(super) fn choice(self) -> u64 {
        self.stream(5)
    }

    /// Seed of the first operation's operand in an epilogue; each has the stream of its number.
    pub(super) fn epilogue(self) -> u64 {
        self.stream(6)
    }

    /// Seed of the operand of an operation.
    pub(super) fn epilogue_operand(self, operation: EpilogueOp) -> u64 {
        self.epilogue().wrapping_add(operation as u64)
    }

    fn stream(self, number: u64) -> u64 {
        self.0.wrapping_add(number)
    }
}

impl ValueKind {
    /// Number of the kind in `kernels.cu`.
    pub(super) fn kind(self) -> i32 {
        match self {
            Self::Small => 0,
            Self::Uniform => 1,
        }
    }

    /// Returns the value at `index` of the stream of `seed`, an element of the dtype.
    pub fn at(self, dtype: Dtype, index: u64, seed: u64) -> f64 {
        let bits = mix(index, seed);
        let uniform = |values: u64| ((bits >> 32) % values) as f64;
        match (self, dtype) {
            (Self::Small, _) => {
                let which = ((bits >> 32) % 6) as i32;
                f64::from(if which < 3 { which - 3 } else { which - 2 })
            }
            (Self::Uniform, Dtype::I32) => uniform(2001) - 1000.0,
            (Self::Uniform, Dtype::I8) => uniform(256) - 128.0,
            (Self::Uniform, Dtype::F32) => of_24_bits(bits),
            (Self::Uniform, Dtype::F16 | Dtype::Bf16) => {
                value_of(dtype, bits_of(dtype, of_24_bits(bits)))
            }
        }
    }
}

/// Factors of the run on uniform values: neither 0 nor 1, and different.
pub(super) fn uneven_scalars(dtype: Dtype) -> Scalars {
    match dtype {
        Dtype::I32 => Scalars { alpha: 3.0, beta: -2.0 },
        _ => Scalars { alpha: -0.75, beta: 0.5 },
    }
}

/// The highest bits as a number in [-1, 1).
fn of_24_bits(bits: u64) -> f64 {
    (bits >> 40) as f64 / 8_388_608.0 - 1.0
}

/// The finaliser of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
fn mix(index: u64, seed: u64) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut x = index.wrapping_add(seed.wrapping_mul(GOLDEN)).wrapping_add(GOLDEN);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixer_is_splitmix64() {
        // The first outputs of splitmix64 from state 0, as in Vigna's reference implementation.
        assert_eq!(mix(0, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0, 1), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn values_stay_in_their_range() {
        for index in 0..10_000 {
            let small = ValueKind::Small.at(Dtype::F32, index, 7);
            assert!(small != 0.0 && small.abs() <= 3.0);
            let uniform = ValueKind::Uniform.at(Dtype::F32, index, 7);
            assert!((-1.0..1.0).contains(&uniform));
            assert_eq!(f64::from(uniform as f32), uniform);
            assert!(ValueKind::Uniform.at(Dtype::I32, index, 7).abs() <= 1000.0);
        }
    }
}
