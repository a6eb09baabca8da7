//! Slot allocation: registers that are never live together share a slot. NVRTC names every value it
//! computes; without allocation, a warp's values would not fit into the host's L1 cache.
//!
//! Lanes of a warp can be at different steps, but each lane follows the control flow graph, and a
//! write changes only the lanes that execute it. Liveness of a single thread therefore holds for a
//! warp.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::control_flow::{BasicBlock, blocks};
use crate::cpu::operation::{KernelStep, RegisterSlot, SlotUse};
use crate::cpu::types::Class;

/// A set of slots of one class.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SlotSet(Vec<u64>);

impl SlotSet {
    fn new(slots: u32) -> Self {
        Self(vec![0; (slots as usize).div_ceil(64)])
    }

    fn insert(&mut self, slot: RegisterSlot) {
        self.0[slot.0 as usize / 64] |= 1 << (slot.0 % 64);
    }

    fn contains(&self, slot: RegisterSlot) -> bool {
        self.0[slot.0 as usize / 64] >> (slot.0 % 64) & 1 == 1
    }

    fn iter(&self) -> impl Iterator<Item = RegisterSlot> + '_ {
        self.0.iter().enumerate().flat_map(|(at, bits)| {
            (0..64)
                .filter(move |bit| bits >> bit & 1 == 1)
                .map(move |bit| RegisterSlot(at as u32 * 64 + bit))
        })
    }
}

/// Renumbers the slots of `class`, those in `pinned` first, and returns the new numbers and their
/// count. `pinned` slots are live throughout the kernel.
pub(super) fn allocate(
    steps: &mut [KernelStep],
    class: Class,
    slots: u32,
    pinned: &BTreeSet<RegisterSlot>,
) -> (Vec<RegisterSlot>, u32) {
    let blocks = blocks(steps);
    let uses = uses_of(steps, class);
    let intervals = intervals(&blocks, &uses, slots);
    let mut renamed = vec![RegisterSlot(0); slots as usize];
    for (at, slot) in pinned.iter().enumerate() {
        renamed[slot.0 as usize] = RegisterSlot(at as u32);
    }
    let mut order: Vec<(usize, usize, RegisterSlot)> = (0..slots)
        .map(RegisterSlot)
        .filter(|slot| !pinned.contains(slot))
        .filter_map(|slot| intervals[slot.0 as usize].map(|(first, last)| (first, last, slot)))
        .collect();
    order.sort_unstable();
    let mut count = pinned.len() as u32;
    let mut free: Vec<RegisterSlot> = Vec::new();
    let mut busy: BinaryHeap<Reverse<(usize, RegisterSlot)>> = BinaryHeap::new();
    for (first, last, slot) in order {
        while let Some(Reverse((end, place))) = busy.peek().copied() {
            if end >= first {
                break;
            }
            busy.pop();
            free.push(place);
        }
        let place = free.pop().unwrap_or_else(|| {
            count += 1;
            RegisterSlot(count - 1)
        });
        renamed[slot.0 as usize] = place;
        busy.push(Reverse((last, place)));
    }
    for step in steps {
        let rename = |of: Class, slot: &mut RegisterSlot| {
            if of == class {
                *slot = renamed[slot.0 as usize];
            }
        };
        if let Some(guard) = &mut step.guard {
            rename(Class::Predicate, &mut guard.slot);
        }
        step.operation.visit_slots(&mut |of, _, slot| rename(of, slot));
    }
    (renamed, count)
}

/// Slots that each step reads and writes.
fn uses_of(steps: &mut [KernelStep], class: Class) -> Vec<Vec<(SlotUse, RegisterSlot)>> {
    let of_step = |step: &mut KernelStep| {
        let mut uses = Vec::new();
        let guarded = step.guard.is_some();
        if let (Some(guard), Class::Predicate) = (step.guard, class) {
            uses.push((SlotUse::Read, guard.slot));
        }
        step.operation.visit_slots(&mut |of, how, slot| {
            if of == class {
                // A false guard keeps the old value.
                if guarded {
                    uses.push((SlotUse::Read, *slot));
                }
                uses.push((how, *slot));
            }
        });
        uses
    };
    steps.iter_mut().map(of_step).collect()
}

/// Live interval of each slot. A step reads at twice its index and writes just after.
fn intervals(
    blocks: &[BasicBlock],
    uses: &[Vec<(SlotUse, RegisterSlot)>],
    slots: u32,
) -> Vec<Option<(usize, usize)>> {
    // Slots that a block reads before it writes them, and slots that it writes.
    let mut alive_before: Vec<SlotSet> = Vec::new();
    let mut written: Vec<SlotSet> = Vec::new();
    for block in blocks {
        let (mut reads, mut writes) = (SlotSet::new(slots), SlotSet::new(slots));
        for (how, slot) in uses[block.first..block.end].iter().flatten() {
            match how {
                SlotUse::Read if !writes.contains(*slot) => reads.insert(*slot),
                SlotUse::Read => {}
                SlotUse::Write => writes.insert(*slot),
            }
        }
        alive_before.push(reads);
        written.push(writes);
    }
    let mut alive_after: Vec<SlotSet> = blocks.iter().map(|_| SlotSet::new(slots)).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for at in (0..blocks.len()).rev() {
            let mut after = SlotSet::new(slots);
            for next in &blocks[at].next {
                after.0.iter_mut().zip(&alive_before[*next].0).for_each(|(to, from)| *to |= from);
            }
            let passing = after.0.iter().zip(&written[at].0).map(|(after, own)| after & !own);
            for (to, from) in alive_before[at].0.iter_mut().zip(passing) {
                changed |= *to | from != *to;
                *to |= from;
            }
            alive_after[at] = after;
        }
    }
    let mut intervals: Vec<Option<(usize, usize)>> = vec![None; slots as usize];
    let mut extend = |slot: RegisterSlot, at: usize| {
        let interval = &mut intervals[slot.0 as usize];
        let (first, last) = interval.unwrap_or((at, at));
        *interval = Some((first.min(at), last.max(at)));
    };
    for (at, block) in blocks.iter().enumerate() {
        alive_before[at].iter().for_each(|slot| extend(slot, 2 * block.first));
        alive_after[at].iter().for_each(|slot| extend(slot, 2 * block.end));
        for (step, uses) in uses.iter().enumerate().take(block.end).skip(block.first) {
            for (how, slot) in uses {
                extend(*slot, 2 * step + usize::from(*how == SlotUse::Write));
            }
        }
    }
    intervals
}
