//! Operand values as a function of their index, so that device and host agree without copies. The
//! generators in `kernels.cu` are equal.

use super::element::{bits_of, value_of};
use crate::model::{Dtype, EpilogueOp, Problem};
use crate::worker::Scalars;

/// Kind of the values of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// -3 to 3 without 0: sums are exact, and every missing product shows.
    Small,
    /// Uniform over [-1, 1), over -1000 to 1000 for integers, or over all of 8 bits.
    Uniform,
    /// Of A and B: uniform ones that each line, a row of op(A) or a column of op(B), changes in its own way: to their
    /// magnitudes, to one value and zeros, or with an infinity or a NaN among them. Integers, whose sums are exact,
    /// stay as they are.
    Mixed,
}

/// What a line has, a row of op(A) or a column of op(B): values that show what others hide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineClass {
    /// Uniform values. Errors cancel as the signs do, so that the bound is narrow where sums are long.
    Signed,
    /// Their magnitudes, as tf32 represents them. Sums grow with K, which shows accumulators with too few bits.
    Positive,
    /// One value, a quarter of them subnormal in f16, and zeros. Products stand alone, which shows operands that are
    /// rounded.
    Single,
    /// Uniform values, and an infinity or a NaN among them. It reaches every element of its line, and no other one.
    Special,
}

impl LineClass {
    /// The class of a line. Two lines have two classes, and half of many are positive.
    pub(super) fn of(line: u64) -> Self {
        match line % 16 {
            1 => Self::Single,
            9 => Self::Special,
            even if even % 2 == 0 => Self::Positive,
            _ => Self::Signed,
        }
    }
}

/// Where the lines of an operand are in memory: its stored rows have `length` elements, and a product has `rows` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OperandLines {
    pub(super) length: u64,
    pub(super) rows: u64,
    /// Whether a stored row is a line, rather than the elements of all lines for one k.
    pub(super) are_rows: bool,
    /// Positive values are divided by 2 to this power, so that their sums fit into f16.
    pub(super) shift: u32,
}

/// What makes a value below 1 subnormal in f16, as a power of 2.
const SUBNORMAL_SHIFT: u32 = 14;

/// Magnitude of the largest sums of positive values, as a power of 2.
const LARGEST_SUM: u32 = 14;

impl OperandLines {
    /// Lines of A and of B.
    pub(super) fn of(problem: &Problem) -> [Self; 2] {
        let (shape, layout) = (problem.shape, problem.layout);
        let shift = shape.k.next_power_of_two().ilog2().saturating_sub(LARGEST_SUM);
        let lines = |are_rows, lines, shift| {
            let (rows, length) = if are_rows { (lines, shape.k) } else { (shape.k, lines) };
            Self { length, rows, are_rows, shift }
        };
        [lines(!layout.a_transposed(), shape.m, shift), lines(layout.b_transposed(), shape.n, 0)]
    }

    /// Line and k of an element of the batch.
    fn place(self, index: u64) -> (u64, u64) {
        let (outer, inner) = (index / self.length % self.rows, index % self.length);
        if self.are_rows { (outer, inner) } else { (inner, outer) }
    }

    /// The mixed value of an element.
    pub(super) fn mixed(self, dtype: Dtype, index: u64, seed: u64) -> f64 {
        if dtype.is_integer() {
            return ValueKind::Uniform.at(dtype, index, seed);
        }
        let uniform = of_24_bits(mix(index, seed));
        let (line, k) = self.place(index);
        let scaled = |value: f64, shift: u32| value / f64::from(1 << shift);
        let extent = if self.are_rows { self.length } else { self.rows };
        let choice = mix(!line, seed);
        let value = match LineClass::of(line) {
            LineClass::Positive => scaled(as_tf32(uniform.abs()), self.shift),
            LineClass::Special if choice % extent == k => match choice >> 62 {
                0 => f64::INFINITY,
                1 => f64::NEG_INFINITY,
                _ => f64::NAN,
            },
            LineClass::Signed | LineClass::Special => uniform,
            LineClass::Single => {
                let shift = if choice >> 62 == 0 { SUBNORMAL_SHIFT } else { 0 };
                if choice % extent == k { scaled(uniform, shift) } else { 0.0 }
            }
        };
        value_of(dtype, bits_of(dtype, value))
    }
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
            Self::Mixed => 2,
        }
    }

    /// The kind of an epilogue's operands and of C beside A and B of this kind.
    pub(super) fn beside(self) -> Self {
        match self {
            Self::Small => Self::Small,
            Self::Uniform | Self::Mixed => Self::Uniform,
        }
    }

    /// Returns the value at `index` of the stream of `seed`, an element of the dtype. Without their lines, mixed values
    /// are uniform.
    pub fn at(self, dtype: Dtype, index: u64, seed: u64) -> f64 {
        let bits = mix(index, seed);
        let uniform = |values: u64| ((bits >> 32) % values) as f64;
        match (self, dtype) {
            (Self::Small, _) => {
                let which = ((bits >> 32) % 6) as i32;
                f64::from(if which < 3 { which - 3 } else { which - 2 })
            }
            (_, Dtype::I32) => uniform(2001) - 1000.0,
            (_, Dtype::I8) => uniform(256) - 128.0,
            (_, Dtype::F32) => of_24_bits(bits),
            (_, Dtype::F16 | Dtype::Bf16) => value_of(dtype, bits_of(dtype, of_24_bits(bits))),
        }
    }
}

/// Factors of the run on mixed values: neither 0 nor 1, and different. Alpha is positive, so that `relu` keeps the sums of
/// positive values.
pub(super) fn uneven_scalars(dtype: Dtype) -> Scalars {
    match dtype {
        Dtype::I32 => Scalars { alpha: 3.0, beta: -2.0 },
        _ => Scalars { alpha: 0.75, beta: -0.5 },
    }
}

/// The value without the 13 bits that tf32 lacks.
fn as_tf32(value: f64) -> f64 {
    f32::from_bits((value as f32).to_bits() & 0xffff_e000).into()
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
    use crate::model::{Layout, Shape};

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

    #[test]
    fn each_line_has_the_values_of_its_class_in_every_layout() {
        for &layout in Layout::ALL {
            let shape = Shape { m: 9, n: 11, k: 1 << 16 };
            let problem = Problem { layout, ..Problem::new(shape, Dtype::F16) };
            let lines = OperandLines::of(&problem);
            for (of, extent, transposed) in [
                (lines[0], shape.m, layout.a_transposed()),
                (lines[1], shape.n, !layout.b_transposed()),
            ] {
                for line in 0..extent {
                    let at = |k| if transposed { k * extent + line } else { line * shape.k + k };
                    let values: Vec<f64> =
                        (0..shape.k).map(|k| of.mixed(Dtype::F16, at(k), 3)).collect();
                    let nonzero = values.iter().filter(|value| **value != 0.0).count();
                    let negative = values.iter().filter(|value| **value < 0.0).count();
                    match LineClass::of(line) {
                        LineClass::Signed => assert!(negative > 30_000 && negative < 35_000),
                        LineClass::Positive => assert!(negative == 0 && nonzero > 65_000),
                        LineClass::Single => assert!(nonzero <= 1),
                        LineClass::Special => {
                            let special = values.iter().filter(|value| !value.is_finite());
                            assert!(special.count() == 1);
                        }
                    }
                }
            }
            let largest = (0..shape.k * shape.m)
                .map(|at| lines[0].mixed(Dtype::F16, at, 3))
                .filter(|value| value.is_finite())
                .fold(0.0, f64::max);
            assert!(largest <= 1.0);
        }
    }
}
