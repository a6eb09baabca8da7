//! Matrix instructions of a warp: `mma`, `ldmatrix` and `stmatrix`.

use super::cluster_state::ClusterState;
use super::registers::FULL;
use super::warp::Warp;
use crate::cpu::checks::LaneViolation;
use crate::cpu::lanes::lanes;
use crate::cpu::numeric::float::{BF16, F16, F32, FloatFormat, TF32};
use crate::cpu::numeric::tensor_sum::{Factors, FusedSum};
use crate::cpu::operation::{
    AccumulatorFormat, MatrixDirection, MatrixElement, MatrixMove, MatrixProduct, Words,
};
use crate::cpu::types::Space;

/// Most products of an element in one instruction.
const MAX_DEPTH: usize = 32;

/// A factor of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    A,
    B,
}

impl Warp {
    /// `mma.sync` (ISA section 9.7.14.5). Floating-point sums are those of [`FusedSum`].
    pub(super) fn multiply(&mut self, product: &MatrixProduct) {
        let results = match product.elements {
            [MatrixElement::F16, _] => self.float_sums(product, F16),
            [MatrixElement::Bf16, _] => self.float_sums(product, BF16),
            [MatrixElement::Tf32, _] => self.float_sums(product, TF32),
            [MatrixElement::S8 | MatrixElement::U8, _] => self.integer_sums(product),
        };
        for (slot, values) in product.d.iter().zip(&results) {
            self.registers.set_word(*slot, values, FULL);
        }
    }

    /// Registers of D, for factors of a floating-point format.
    fn float_sums(&self, product: &MatrixProduct, format: FloatFormat) -> Vec<Words> {
        let [mut left, mut right] = [[Factors::ZERO; 16], [Factors::ZERO; 16]];
        self.for_each_element(product, |side, row, k, bits| match side {
            Side::A => left[row].set(k, format, bits),
            Side::B => right[row].set(k, format, bits),
        });
        let sum = |row: usize, column: usize, of_c: FloatFormat, start: u32| {
            FusedSum::of(&left[row], &right[column], (of_c, start))
        };
        self.shares(product, |row, column, start| match product.accumulator {
            AccumulatorFormat::F16 => {
                let half =
                    |i: usize| sum(row, column + i, F16, start >> (16 * i) & 0xffff).to_f16();
                half(0) | half(1) << 16
            }
            _ => sum(row, column, F32, start).to_f32(),
        })
    }

    /// Registers of D, for integers.
    fn integer_sums(&self, product: &MatrixProduct) -> Vec<Words> {
        let [mut left, mut right] = [[[0_i32; MAX_DEPTH]; 16]; 2];
        let [of_a, of_b] = product.elements;
        let value = |element: MatrixElement, bits: u32| match element {
            MatrixElement::S8 => i32::from(bits as u8 as i8),
            _ => i32::from(bits as u8),
        };
        self.for_each_element(product, |side, row, k, bits| match side {
            Side::A => left[row][k] = value(of_a, bits),
            Side::B => right[row][k] = value(of_b, bits),
        });
        let saturates = product.accumulator == AccumulatorFormat::S32 { saturates: true };
        self.shares(product, |row, column, start| {
            let pairs = left[row].iter().zip(&right[column]).take(product.depth);
            let sum = i64::from(pairs.map(|(a, b)| a * b).sum::<i32>());
            let sum = sum + i64::from(start.cast_signed());
            let sum = if saturates { sum.clamp(i32::MIN.into(), i32::MAX.into()) } else { sum };
            sum as u32
        })
    }

    /// Visits the elements in the fragments of all lanes: the side, row of A or column of B, index along K, and bits.
    fn for_each_element(
        &self,
        product: &MatrixProduct,
        mut visit: impl FnMut(Side, usize, usize, u32),
    ) {
        let [of_a, of_b] = product.elements;
        for lane in 0..32 {
            let (group, place) = (lane / 4, lane % 4);
            for (at, slot) in product.a.iter().enumerate() {
                let row = group + 8 * (at & 1);
                for (k, bits) in elements(of_a, place, at / 2, self.registers.word(*slot)[lane]) {
                    visit(Side::A, row, k, bits);
                }
            }
            for (at, slot) in product.b.iter().enumerate() {
                for (k, bits) in elements(of_b, place, at, self.registers.word(*slot)[lane]) {
                    visit(Side::B, group, k, bits);
                }
            }
        }
    }

    /// Computes the registers of D from row, column and register of C.
    fn shares(
        &self,
        product: &MatrixProduct,
        share: impl Fn(usize, usize, u32) -> u32,
    ) -> Vec<Words> {
        let is_packed = product.accumulator == AccumulatorFormat::F16;
        let register = |at: usize, lane: usize| {
            let (row, column) = (lane / 4, 2 * (lane % 4));
            let (down, right) = if is_packed { (at, 0) } else { (at / 2, at % 2) };
            share(row + 8 * down, column + right, self.registers.word(product.c[at])[lane])
        };
        (0..product.d.len()).map(|at| std::array::from_fn(|lane| register(at, lane))).collect()
    }

    /// `ldmatrix` and `stmatrix`. Lanes 8 i to 8 i + 7 hold the row addresses of matrix i.
    pub(super) fn move_matrices<const CHECKED: bool, const COUNTED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        at: usize,
        moved: &MatrixMove,
    ) -> Result<(), LaneViolation> {
        let addresses = self.addresses(moved.address);
        let count = moved.registers.len();
        let mask = if count == 4 { FULL } else { (1 << (8 * count)) - 1 };
        let mut rows = [[0_u32; 4]; 32];
        if moved.direction == MatrixDirection::Store {
            for (matrix, slot) in moved.registers.iter().enumerate() {
                let values = *self.registers.word(*slot);
                for (lane, value) in values.into_iter().enumerate() {
                    for (i, half) in [value & 0xffff, value >> 16].into_iter().enumerate() {
                        let (row, column) = place_in_matrix(lane, i, moved.transposed);
                        rows[8 * matrix + row][column / 2] |= half << (16 * (column % 2));
                    }
                }
            }
            for lane in lanes(mask) {
                self.write_words::<CHECKED>(
                    cluster,
                    Space::Shared,
                    lane,
                    addresses[lane],
                    &rows[lane],
                    16,
                )?;
            }
            if COUNTED {
                cluster.counts[at].shared(&addresses, mask, 16);
            }
            return Ok(());
        }
        for lane in lanes(mask) {
            self.read_words::<CHECKED>(
                cluster,
                Space::Shared,
                lane,
                addresses[lane],
                &mut rows[lane],
                16,
            )?;
        }
        if COUNTED {
            cluster.counts[at].shared(&addresses, mask, 16);
        }
        for (matrix, slot) in moved.registers.iter().enumerate() {
            let mut values = [0; 32];
            for (lane, value) in values.iter_mut().enumerate() {
                for i in 0..2 {
                    let (row, column) = place_in_matrix(lane, i, moved.transposed);
                    let half = rows[8 * matrix + row][column / 2] >> (16 * (column % 2)) & 0xffff;
                    *value |= half << (16 * i);
                }
            }
            self.registers.set_word(*slot, &values, FULL);
        }
        Ok(())
    }
}

/// Row and column of element `i` of a lane in an 8 x 8 matrix.
fn place_in_matrix(lane: usize, i: usize, transposed: bool) -> (usize, usize) {
    let (row, column) = (lane / 4, 2 * (lane % 4) + i);
    if transposed { (column, row) } else { (row, column) }
}

/// Bits of the elements in register `number` of those along K of a lane, with their index along K.
pub(super) fn elements(
    element: MatrixElement,
    place: usize,
    number: usize,
    bits: u32,
) -> impl Iterator<Item = (usize, u32)> {
    let count = element.per_register();
    let width = 32 / count;
    let mask = u32::MAX >> (32 - width);
    (0..count).map(move |i| (count * (place + 4 * number) + i, bits >> (width * i) & mask))
}
