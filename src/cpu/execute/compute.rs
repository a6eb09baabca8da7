//! Operations without memory access or synchronisation: lane functions, comparisons, selections,
//! packing.

use super::registers::Registers;
use crate::cpu::lanes::select;
use crate::cpu::operation::{Combined, Logic, Operation, Register, RegisterSlot, Vector};

/// Executes an operation of this kind; returns false for any other.
#[inline(always)]
pub(super) fn compute(registers: &mut Registers, operation: &Operation, mask: u32) -> bool {
    let r = registers;
    match operation {
        Operation::Word1 { run, d, a } => {
            let values = run(r.word(*a));
            r.set_word(*d, &values, mask);
        }
        Operation::Word2 { run, d, a, b } => {
            let values = run(r.word(*a), r.word(*b));
            r.set_word(*d, &values, mask);
        }
        Operation::Word3 { run, d, a, b, c } => {
            let values = run(r.word(*a), r.word(*b), r.word(*c));
            r.set_word(*d, &values, mask);
        }
        Operation::Long1 { run, d, a } => {
            let values = run(r.long(*a));
            r.set_long(*d, &values, mask);
        }
        Operation::Long2 { run, d, a, b } => {
            let values = run(r.long(*a), r.long(*b));
            r.set_long(*d, &values, mask);
        }
        Operation::Long3 { run, d, a, b, c } => {
            let values = run(r.long(*a), r.long(*b), r.long(*c));
            r.set_long(*d, &values, mask);
        }
        Operation::Widen1 { run, d, a } => {
            let values = run(r.word(*a));
            r.set_long(*d, &values, mask);
        }
        Operation::Widen2 { run, d, a, b } => {
            let values = run(r.word(*a), r.word(*b));
            r.set_long(*d, &values, mask);
        }
        Operation::Widen3 { run, d, a, b, c } => {
            let values = run(r.word(*a), r.word(*b), r.long(*c));
            r.set_long(*d, &values, mask);
        }
        Operation::Narrow1 { run, d, a } => {
            let values = run(r.long(*a));
            r.set_word(*d, &values, mask);
        }
        Operation::Shift { run, d, a, b } => {
            let values = run(r.long(*a), r.word(*b));
            r.set_long(*d, &values, mask);
        }
        Operation::Convert { how, d, a } => {
            let values = r.value(*a).map(|value| how.apply(value));
            r.set_value(*d, &values, mask);
        }
        Operation::WordCompare { run, d, opposite, a, b, combined } => {
            let lanes = run(r.word(*a), r.word(*b));
            set_compared(r, lanes, (*d, *opposite), *combined, mask);
        }
        Operation::LongCompare { run, d, opposite, a, b, combined } => {
            let lanes = run(r.long(*a), r.long(*b));
            set_compared(r, lanes, (*d, *opposite), *combined, mask);
        }
        Operation::WordSelect { d, a, b, test } => {
            let values = select(r.predicate(*test), r.word(*a), r.word(*b));
            r.set_word(*d, &values, mask);
        }
        Operation::LongSelect { d, a, b, test } => {
            let values = select(r.predicate(*test), r.long(*a), r.long(*b));
            r.set_long(*d, &values, mask);
        }
        Operation::PredicateMove { d, a } => {
            let lanes = r.test(*a);
            r.set_predicate(*d, lanes, mask);
        }
        Operation::PredicateLogic { logic, d, a, b } => {
            let lanes = joined(*logic, r.test(*a), r.test(*b));
            r.set_predicate(*d, lanes, mask);
        }
        Operation::Pack { bits, d, parts } => pack(r, *bits, *d, *parts, mask),
        Operation::Unpack { bits, parts, a } => unpack(r, *bits, *parts, *a, mask),
        _ => return false,
    }
    true
}

fn joined(logic: Logic, a: u32, b: u32) -> u32 {
    match logic {
        Logic::And => a & b,
        Logic::Or => a | b,
        Logic::Xor => a ^ b,
    }
}

fn set_compared(
    registers: &mut Registers,
    lanes: u32,
    (d, opposite): (RegisterSlot, Option<RegisterSlot>),
    combined: Option<Combined>,
    mask: u32,
) {
    // The comparison is negated before it is combined (ISA section 9.7.6.1).
    let (mut result, mut negated) = (lanes, !lanes);
    if let Some(Combined { logic, with }) = combined {
        let with = registers.test(with);
        (result, negated) = (joined(logic, lanes, with), joined(logic, !lanes, with));
    }
    registers.set_predicate(d, result, mask);
    if let Some(opposite) = opposite {
        registers.set_predicate(opposite, negated, mask);
    }
}

fn pack(registers: &mut Registers, bits: u32, d: Register, parts: Vector, mask: u32) {
    let mut whole = [0; 32];
    for (at, part) in parts.parts().iter().enumerate() {
        let Some(part) = part else { continue };
        let values = registers.value(*part);
        for (to, value) in whole.iter_mut().zip(values) {
            *to |= (value & (u64::MAX >> (64 - bits))) << (at as u32 * bits);
        }
    }
    registers.set_value(d, &whole, mask);
}

fn unpack(registers: &mut Registers, bits: u32, parts: Vector, a: Register, mask: u32) {
    let whole = registers.value(a);
    for (at, part) in parts.parts().iter().enumerate() {
        let Some(part) = part else { continue };
        let shift = at as u32 * bits;
        let values = whole.map(|value| value >> shift & (u64::MAX >> (64 - bits)));
        registers.set_value(*part, &values, mask);
    }
}
