//! What lanes of a warp do together: shuffles, votes, products and moves of matrices.

use super::cluster::Team;
use super::registers::FULL;
use super::warp::Warp;
use crate::cpu::checks::{ViolationKind, Wrong};
use crate::cpu::counts::lanes;
use crate::cpu::numeric::Rounding;
use crate::cpu::numeric::float::{F16, bf16_value, bits32, f16_value};
use crate::cpu::operation::{
    Direction, Match, MatrixElement, MatrixMove, MatrixProduct, Register, Shuffle, Slot, Sums,
    Test, Vote, Words,
};
use crate::cpu::types::Space;

impl Warp {
    /// The lanes that an instruction brings together: those that name the same members, who must
    /// all be here.
    pub(super) fn groups(&self, members: Slot, active: u32) -> Result<Groups, Wrong> {
        let members = self.registers.word(members);
        let mut groups = Groups { masks: [0; 32], count: 0 };
        let mut rest = active;
        while rest != 0 {
            let first = rest.trailing_zeros() as usize;
            let named = members[first];
            let group = select(rest, |lane| members[lane] == named);
            let (missing, strange) = (named & self.alive & !group, group & !named);
            if missing | strange != 0 {
                let count = missing.count_ones();
                let text = match missing {
                    0 => "a lane exchanges values with lanes that it is not one of".to_owned(),
                    _ => format!("lanes exchange values, but {count} of them are elsewhere"),
                };
                let lane =
                    Some(if missing == 0 { strange.trailing_zeros() as usize } else { first });
                return Err(Wrong {
                    lane,
                    ..Wrong::of_warp(ViolationKind::BarrierDivergence, text)
                });
            }
            groups.masks[groups.count] = group;
            groups.count += 1;
            rest &= !group;
        }
        Ok(groups)
    }

    /// Makes sure that the whole warp is here.
    pub(super) fn all_lanes(&self, what: &str, active: u32) -> Result<(), Wrong> {
        if active == FULL {
            return Ok(());
        }
        let text = format!("{what} is executed by {} lanes, not by all 32", active.count_ones());
        Err(Wrong::of_warp(ViolationKind::BarrierDivergence, text))
    }

    /// `shfl.sync` (ISA section 9.7.9.6): values, and the lanes whose source was within bounds.
    pub(super) fn shuffled(
        &self,
        how: Shuffle,
        a: Slot,
        lane: Slot,
        clamp: Slot,
        active: u32,
    ) -> (Words, u32) {
        let values = self.registers.word(a);
        let (distances, clamps) = (self.registers.word(lane), self.registers.word(clamp));
        let mut result = [0; 32];
        let mut inside = 0;
        for own in lanes(active) {
            let segment = clamps[own] >> 8 & 31;
            let bound = clamps[own] & 31;
            let distance = distances[own] & 31;
            let least = own as u32 & segment;
            let most = least | bound & !segment;
            let (source, valid) = match how {
                Shuffle::Up => {
                    let source = own as i64 - i64::from(distance);
                    (source, source >= i64::from(most))
                }
                Shuffle::Down => {
                    let source = own as u32 + distance;
                    (source.into(), source <= most)
                }
                Shuffle::Butterfly => {
                    let source = own as u32 ^ distance;
                    (source.into(), source <= most)
                }
                Shuffle::Index => {
                    let source = least | distance & !segment;
                    (source.into(), source <= most)
                }
            };
            let source = if valid { source as usize & 31 } else { own };
            result[own] = values[source];
            inside |= u32::from(valid) << own;
        }
        (result, inside)
    }

    /// `vote.sync`
    pub(super) fn vote(&mut self, how: Vote, d: Option<Slot>, a: Test, active: u32) {
        let holds = self.registers.test(a) & active;
        let verdict = match how {
            Vote::All => holds == active,
            Vote::Any => holds != 0,
            Vote::Uniform => holds == 0 || holds == active,
            Vote::Ballot(slot) => {
                self.registers.set_word(slot, &[holds; 32], active);
                return;
            }
        };
        if let Some(d) = d {
            self.registers.set_predicate(d, if verdict { FULL } else { 0 }, active);
        }
    }

    /// `redux.sync`
    pub(super) fn reduce(&mut self, run: fn(u32, u32) -> u32, d: Slot, a: Slot, active: u32) {
        let values = self.registers.word(a);
        if let Some(value) = lanes(active).map(|lane| values[lane]).reduce(run) {
            self.registers.set_word(d, &[value; 32], active);
        }
    }

    /// `elect.sync`
    pub(super) fn elect(&mut self, d: Option<Slot>, chosen: Slot, active: u32) {
        self.registers.set_predicate(chosen, active & active.wrapping_neg(), active);
        if let Some(d) = d {
            self.registers.set_word(d, &[active.trailing_zeros(); 32], active);
        }
    }

    /// `match.sync`
    pub(super) fn match_values(&mut self, how: Match, d: Slot, a: Register, active: u32) {
        let values = self.registers.value(a);
        let alike = |value: u64| select(active, |lane| values[lane] == value);
        match how {
            Match::Any => self.registers.set_word(d, &values.map(alike), active),
            Match::All(same) => {
                let first = values[active.trailing_zeros() as usize & 31];
                let mask = if alike(first) == active { active } else { 0 };
                self.registers.set_word(d, &[mask; 32], active);
                if let Some(same) = same {
                    self.registers.set_predicate(same, mask, active);
                }
            }
        }
    }

    /// `mma.sync` (ISA section 9.7.14.5). The hardware's order and rounding of sums is not
    /// specified; here each sum is made in binary64 and rounded once.
    pub(super) fn multiply(&mut self, product: &MatrixProduct) {
        let MatrixProduct { element, depth, d, a, b, c, sums } = product;
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
        // The `at`th register of a lane's share of the sums.
        let share = |lane: usize, at: usize| {
            let start = self.registers.word(c[at])[lane];
            let column = 2 * (lane % 4);
            match sums {
                Sums::F32 => {
                    let (row, column) = (lane / 4 + 8 * (at / 2), column + at % 2);
                    bits32(sum(row, column, f32::from_bits(start).into()) as f32)
                }
                Sums::F16 => {
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

    /// `ldmatrix` and `stmatrix`: lanes 8 i to 8 i + 7 have the addresses of the rows of matrix i.
    pub(super) fn move_matrices<const CHECKED: bool, const COUNTED: bool>(
        &mut self,
        team: &mut Team<'_>,
        at: usize,
        moved: &MatrixMove,
    ) -> Result<(), Wrong> {
        let addresses = self.addresses(moved.address);
        let count = moved.registers.len();
        let mask = if count == 4 { FULL } else { (1 << (8 * count)) - 1 };
        let mut rows = [[0_u32; 4]; 32];
        if moved.direction == Direction::Store {
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
                    team,
                    Space::Shared,
                    lane,
                    addresses[lane],
                    &rows[lane],
                    16,
                )?;
            }
            if COUNTED {
                team.counts[at].shared(&addresses, mask, 16);
            }
            return Ok(());
        }
        for lane in lanes(mask) {
            self.read_words::<CHECKED>(
                team,
                Space::Shared,
                lane,
                addresses[lane],
                &mut rows[lane],
                16,
            )?;
        }
        if COUNTED {
            team.counts[at].shared(&addresses, mask, 16);
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

/// Lanes that do something together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Groups {
    masks: [u32; 32],
    count: usize,
}

impl Iterator for Groups {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.count = self.count.checked_sub(1)?;
        Some(self.masks[self.count])
    }
}

/// The lanes of a mask for which something holds.
fn select(mask: u32, holds: impl Fn(usize) -> bool) -> u32 {
    lanes(mask).filter(|lane| holds(*lane)).fold(0, |mask, lane| mask | 1 << lane)
}

/// The row and column of the `i`th element that a lane holds of an 8 x 8 matrix.
fn place_in_matrix(lane: usize, i: usize, transposed: bool) -> (usize, usize) {
    let (row, column) = (lane / 4, 2 * (lane % 4) + i);
    if transposed { (column, row) } else { (row, column) }
}

/// What one register of a fragment holds: elements with their place along the summed dimension.
fn elements(element: MatrixElement, place: usize, half: usize, bits: u32) -> [(usize, f64); 2] {
    let pair = |value: fn(u32) -> f32| {
        let k = 2 * place + 8 * half;
        [(k, value(bits & 0xffff).into()), (k + 1, value(bits >> 16).into())]
    };
    match element {
        MatrixElement::F16 => pair(f16_value),
        MatrixElement::Bf16 => pair(bf16_value),
        MatrixElement::Tf32 => {
            // Of a tf32 the lower 13 bits are not looked at.
            let value = f64::from(f32::from_bits(bits & 0xffff_e000));
            [(place + 4 * half, value); 2]
        }
    }
}
