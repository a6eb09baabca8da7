//! Matrix instructions of a warp: `mma`, `ldmatrix` and `stmatrix`.

use super::cluster_state::ClusterState;
use super::registers::FULL;
use super::warp::Warp;
use crate::cpu::checks::LaneViolation;
use crate::cpu::lanes::lanes;
use crate::cpu::numeric::Rounding;
use crate::cpu::numeric::float::{F16, bf16_value, bits32, f16_value};
use crate::cpu::operation::{
    AccumulatorFormat, MatrixDirection, MatrixElement, MatrixMove, MatrixProduct, Words,
};
use crate::cpu::types::Space;

impl Warp {
    /// `mma.sync` (ISA section 9.7.14.5). The ISA does not specify the order and rounding of the
    /// hardware's sums. Here each sum is computed in binary64 and rounded once.
    pub(super) fn multiply(&mut self, product: &MatrixProduct) {
        let MatrixProduct { element, depth, d, a, b, c, accumulator } = product;
        let mut left = [[0.0; 16]; 16];
        let mut right = [[0.0; 8]; 16];
        for lane in 0..32 {
            let (group, place) = (lane / 4, lane % 4);
            for (at, slot) in a.iter().enumerate() {
                let row = group + 8 * (at & 1);
                for (k, value) in
                    elements(*element, place, at / 2, self.registers.word(*slot)[lane])
                {
                    left[row][k] = value;
                }
            }
            for (at, slot) in b.iter().enumerate() {
                for (k, value) in elements(*element, place, at, self.registers.word(*slot)[lane]) {
                    right[k][group] = value;
                }
            }
        }
        let sum = |row: usize, column: usize, start: f64| {
            (0..*depth).fold(start, |sum, k| sum + left[row][k] * right[k][column])
        };
        // Register number `at` of a lane's share of the sums.
        let share = |lane: usize, at: usize| {
            let start = self.registers.word(c[at])[lane];
            let column = 2 * (lane % 4);
            match accumulator {
                AccumulatorFormat::F32 => {
                    let (row, column) = (lane / 4 + 8 * (at / 2), column + at % 2);
                    bits32(sum(row, column, f32::from_bits(start).into()) as f32)
                }
                AccumulatorFormat::F16 => {
                    let half = |i: usize| {
                        let start = f16_value(start >> (16 * i) & 0xffff);
                        let sum = sum(lane / 4 + 8 * at, column + i, start.into());
                        F16.round(sum, Rounding::NearestEven)
                    };
                    half(0) | half(1) << 16
                }
            }
        };
        let results: Vec<Words> =
            (0..d.len()).map(|at| std::array::from_fn(|lane| share(lane, at))).collect();
        for (slot, values) in d.iter().zip(&results) {
            self.registers.set_word(*slot, values, FULL);
        }
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

/// Elements in one register of a fragment, with their index along K.
fn elements(element: MatrixElement, place: usize, half: usize, bits: u32) -> [(usize, f64); 2] {
    let pair = |value: fn(u32) -> f32| {
        let k = 2 * place + 8 * half;
        [(k, value(bits & 0xffff).into()), (k + 1, value(bits >> 16).into())]
    };
    match element {
        MatrixElement::F16 => pair(f16_value),
        MatrixElement::Bf16 => pair(bf16_value),
        MatrixElement::Tf32 => {
            // The lower 13 bits of tf32 are ignored.
            let value = f64::from(f32::from_bits(bits & 0xffff_e000));
            [(place + 4 * half, value); 2]
        }
    }
}
