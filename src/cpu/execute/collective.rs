//! Instructions that combine lanes of a warp: shuffles, votes, reductions, elections and matches.

use super::registers::FULL;
use super::warp::Warp;
use crate::cpu::checks::{LaneViolation, ViolationKind};
use crate::cpu::lanes::lanes;
use crate::cpu::operation::{
    MatchMode, PredicateOperand, Register, RegisterSlot, ShuffleMode, VoteMode, Words,
};

impl Warp {
    /// Groups lanes that name the same members. All members must be active.
    pub(super) fn groups(
        &self,
        members: RegisterSlot,
        active: u32,
    ) -> Result<LaneGroups, LaneViolation> {
        let members = self.registers.word(members);
        let mut groups = LaneGroups { masks: [0; 32], count: 0 };
        let mut rest = active;
        while rest != 0 {
            let first = rest.trailing_zeros() as usize;
            let named = members[first];
            let group = select(rest, |lane| members[lane] == named);
            let (missing, strange) = (named & self.alive & !group, group & !named);
            if missing | strange != 0 {
                let count = missing.count_ones();
                let text = match missing {
                    0 => "a lane is not a member of its own exchange".to_owned(),
                    _ => format!("{count} members of a lane exchange are at another instruction"),
                };
                let lane =
                    Some(if missing == 0 { strange.trailing_zeros() as usize } else { first });
                return Err(LaneViolation {
                    lane,
                    ..LaneViolation::of_warp(ViolationKind::BarrierDivergence, text)
                });
            }
            groups.masks[groups.count] = group;
            groups.count += 1;
            rest &= !group;
        }
        Ok(groups)
    }

    /// Checks that all lanes of the warp are active.
    pub(super) fn check_all_lanes(&self, what: &str, active: u32) -> Result<(), LaneViolation> {
        if active == FULL {
            return Ok(());
        }
        let text = format!("{what} is executed by {} lanes instead of all 32", active.count_ones());
        Err(LaneViolation::of_warp(ViolationKind::BarrierDivergence, text))
    }

    /// `shfl.sync` (ISA section 9.7.9.6): values, and the lanes whose source is in range.
    pub(super) fn shuffled(
        &self,
        how: ShuffleMode,
        a: RegisterSlot,
        lane: RegisterSlot,
        clamp: RegisterSlot,
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
                ShuffleMode::Up => {
                    let source = own as i64 - i64::from(distance);
                    (source, source >= i64::from(most))
                }
                ShuffleMode::Down => {
                    let source = own as u32 + distance;
                    (source.into(), source <= most)
                }
                ShuffleMode::Butterfly => {
                    let source = own as u32 ^ distance;
                    (source.into(), source <= most)
                }
                ShuffleMode::Index => {
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
    pub(super) fn vote(
        &mut self,
        how: VoteMode,
        d: Option<RegisterSlot>,
        a: PredicateOperand,
        active: u32,
    ) {
        let holds = self.registers.test(a) & active;
        let verdict = match how {
            VoteMode::All => holds == active,
            VoteMode::Any => holds != 0,
            VoteMode::Uniform => holds == 0 || holds == active,
            VoteMode::Ballot(slot) => {
                self.registers.set_word(slot, &[holds; 32], active);
                return;
            }
        };
        if let Some(d) = d {
            self.registers.set_predicate(d, if verdict { FULL } else { 0 }, active);
        }
    }

    /// `redux.sync`
    pub(super) fn reduce(
        &mut self,
        run: fn(u32, u32) -> u32,
        d: RegisterSlot,
        a: RegisterSlot,
        active: u32,
    ) {
        let values = self.registers.word(a);
        if let Some(value) = lanes(active).map(|lane| values[lane]).reduce(run) {
            self.registers.set_word(d, &[value; 32], active);
        }
    }

    /// `elect.sync`
    pub(super) fn elect(&mut self, d: Option<RegisterSlot>, chosen: RegisterSlot, active: u32) {
        self.registers.set_predicate(chosen, active & active.wrapping_neg(), active);
        if let Some(d) = d {
            self.registers.set_word(d, &[active.trailing_zeros(); 32], active);
        }
    }

    /// `match.sync`
    pub(super) fn match_values(
        &mut self,
        how: MatchMode,
        d: RegisterSlot,
        a: Register,
        active: u32,
    ) {
        let values = self.registers.value(a);
        let alike = |value: u64| select(active, |lane| values[lane] == value);
        match how {
            MatchMode::Any => self.registers.set_word(d, &values.map(alike), active),
            MatchMode::All(same) => {
                let first = values[active.trailing_zeros() as usize & 31];
                let mask = if alike(first) == active { active } else { 0 };
                self.registers.set_word(d, &[mask; 32], active);
                if let Some(same) = same {
                    self.registers.set_predicate(same, mask, active);
                }
            }
        }
    }
}

/// Groups of lanes that execute an instruction together.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaneGroups {
    masks: [u32; 32],
    count: usize,
}

impl Iterator for LaneGroups {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.count = self.count.checked_sub(1)?;
        Some(self.masks[self.count])
    }
}

/// Lanes of a mask that satisfy a condition.
fn select(mask: u32, holds: impl Fn(usize) -> bool) -> u32 {
    lanes(mask).filter(|lane| holds(*lane)).fold(0, |mask, lane| mask | 1 << lane)
}
