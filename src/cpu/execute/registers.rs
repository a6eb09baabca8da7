//! Register values of a warp, by slot, with masked writes.

use crate::cpu::kernel_code::{InitialSlots, SlotCounts};
use crate::cpu::lanes::select;
use crate::cpu::operation::{Longs, PredicateOperand, Register, RegisterSlot, Words};

/// Mask of all lanes.
pub(super) const FULL: u32 = u32::MAX;

/// Value of unwritten registers: NaN as a number, unmapped as an address.
const STALE: u64 = 0x7ff5_a5a5_7fa5_a5a5;

/// Register values of a warp.
#[derive(Debug)]
pub(super) struct Registers {
    predicates: Vec<u32>,
    words: Vec<Words>,
    longs: Vec<Longs>,
}

impl Registers {
    pub(super) fn new(slots: SlotCounts) -> Self {
        Self {
            predicates: vec![0; slots.predicates as usize],
            words: vec![[0; 32]; slots.words as usize],
            longs: vec![[0; 32]; slots.longs as usize],
        }
    }

    /// Resets all registers to a stale value and sets the constants.
    pub(super) fn reset(&mut self, pinned: &InitialSlots) {
        self.predicates.fill(STALE as u32);
        self.words.fill([STALE as u32; 32]);
        self.longs.fill([STALE; 32]);
        for (value, slot) in &pinned.words {
            self.words[slot.0 as usize] = [*value; 32];
        }
        for (value, slot) in &pinned.longs {
            self.longs[slot.0 as usize] = [*value; 32];
        }
        if let Some(slot) = pinned.always {
            self.predicates[slot.0 as usize] = FULL;
        }
    }

    #[inline(always)]
    pub(super) fn word(&self, slot: RegisterSlot) -> &Words {
        &self.words[slot.0 as usize]
    }

    #[inline(always)]
    pub(super) fn long(&self, slot: RegisterSlot) -> &Longs {
        &self.longs[slot.0 as usize]
    }

    #[inline(always)]
    pub(super) fn predicate(&self, slot: RegisterSlot) -> u32 {
        self.predicates[slot.0 as usize]
    }

    /// Lanes for which a predicate operand is true.
    #[inline(always)]
    pub(super) fn test(&self, test: PredicateOperand) -> u32 {
        let lanes = self.predicate(test.slot);
        if test.negated { !lanes } else { lanes }
    }

    #[inline(always)]
    pub(super) fn set_word(&mut self, slot: RegisterSlot, values: &Words, mask: u32) {
        let to = &mut self.words[slot.0 as usize];
        *to = if mask == FULL { *values } else { select(mask, values, to) };
    }

    #[inline(always)]
    pub(super) fn set_long(&mut self, slot: RegisterSlot, values: &Longs, mask: u32) {
        let to = &mut self.longs[slot.0 as usize];
        *to = if mask == FULL { *values } else { select(mask, values, to) };
    }

    #[inline(always)]
    pub(super) fn set_predicate(&mut self, slot: RegisterSlot, lanes: u32, mask: u32) {
        let to = &mut self.predicates[slot.0 as usize];
        *to = *to & !mask | lanes & mask;
    }

    /// Values of a register of either class, as 64 bits.
    pub(super) fn value(&self, register: Register) -> Longs {
        match register {
            Register::Word(slot) => self.word(slot).map(u64::from),
            Register::Long(slot) => *self.long(slot),
        }
    }

    /// Writes a register of either class.
    pub(super) fn set_value(&mut self, register: Register, values: &Longs, mask: u32) {
        match register {
            Register::Word(slot) => self.set_word(slot, &values.map(|value| value as u32), mask),
            Register::Long(slot) => self.set_long(slot, values, mask),
        }
    }
}
