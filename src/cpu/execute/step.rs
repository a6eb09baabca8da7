//! The loop that executes a warp's steps.

use std::sync::atomic::{Ordering, fence};

use super::barriers::Ballot;
use super::cluster::{Pause, Team};
use super::registers::{FULL, Registers};
use super::warp::{Frame, Warp};
use crate::cpu::checks::{Check, ViolationKind, Wrong};
use crate::cpu::decode::Kernel;
use crate::cpu::operation::{
    Arrival, Combined, Logic, Operation, Order, Poll, Register, Slot, Step, Vector,
};

/// What follows a step.
enum Next {
    /// The next step.
    Continue,
    Pause(Pause),
}

impl Warp {
    /// Runs `turn` steps at most.
    pub(super) fn run<const CHECKED: bool, const COUNTED: bool>(
        &mut self,
        team: &mut Team<'_>,
        turn: u64,
    ) -> Result<Pause, Wrong> {
        let code: &Kernel = &team.job.kernel.code;
        let mut left = turn;
        loop {
            let Some(frame) = self.frames.last_mut() else {
                team.spend(turn - left);
                self.finish_copies::<CHECKED>(team, FULL, None)?;
                return Ok(Pause::Ended);
            };
            if frame.at == frame.meet || frame.lanes == 0 {
                self.frames.pop();
                continue;
            }
            if left == 0 {
                team.spend(turn);
                return Ok(Pause::Turn);
            }
            left -= 1;
            let at = frame.at as usize;
            let lanes = frame.lanes;
            frame.at += 1;
            // Past the last step there is always an exit.
            let Some(step) = code.steps.get(at) else {
                self.frames.pop();
                continue;
            };
            let active = match step.guard {
                Some(guard) => lanes & self.registers.test(guard),
                None => lanes,
            };
            if COUNTED {
                team.counts[at].executed += 1;
            }
            match &step.operation {
                Operation::Branch { target, meet } => self.branch(lanes, active, *target, *meet),
                Operation::Exit => self.exit(active),
                _ if active == 0 => {}
                Operation::Clock { d, shift } => {
                    let done = team.executed + turn - left;
                    self.registers.set_value(*d, &[done >> shift; 32], active);
                }
                operation => {
                    if compute(&mut self.registers, operation, active) {
                        continue;
                    }
                    match self.other::<CHECKED, COUNTED>(team, step, at, active)? {
                        Next::Continue => {}
                        Next::Pause(pause) => {
                            team.spend(turn - left);
                            return Ok(pause);
                        }
                    }
                }
            }
        }
    }

    /// Sends the lanes in `taken` to `target`, lets the others go on.
    fn branch(&mut self, lanes: u32, taken: u32, target: u32, meet: u32) {
        let Some(frame) = self.frames.last_mut() else { return };
        if taken == 0 {
            return;
        }
        if taken == lanes {
            frame.at = target;
            return;
        }
        let next = frame.at;
        if meet == frame.meet {
            // They meet where this frame ends anyway.
            self.frames.pop();
        } else {
            frame.at = meet;
        }
        self.frames.push(Frame { at: next, lanes: lanes & !taken, meet });
        self.frames.push(Frame { at: target, lanes: taken, meet });
    }

    fn exit(&mut self, lanes: u32) {
        self.alive &= !lanes;
        for frame in &mut self.frames {
            frame.lanes &= !lanes;
        }
    }

    /// Everything that is more than arithmetic.
    fn other<const CHECKED: bool, const COUNTED: bool>(
        &mut self,
        team: &mut Team<'_>,
        step: &Step,
        at: usize,
        active: u32,
    ) -> Result<Next, Wrong> {
        match &step.operation {
            Operation::Load { space, element, address, d, order } => {
                self.load::<CHECKED, COUNTED>(team, at, (*space, *element, *address), *d, active)?;
                if *order == Order::Strong {
                    team.polls += 1;
                    fence(Ordering::Acquire);
                }
            }
            Operation::Store { space, element, address, a, order } => {
                if *order == Order::Strong {
                    fence(Ordering::Release);
                }
                self.store::<CHECKED, COUNTED>(team, at, (*space, *element, *address), *a, active)?;
            }
            Operation::Atomic { space, update, alignment, d, address, a, b } => {
                let place = (*space, *address, *alignment);
                let operands = (*a, *b, *d);
                self.atomic::<CHECKED, COUNTED>(team, at, place, *update, operands, active)?;
            }
            Operation::Copy { bytes, to, from, source_bytes } => {
                let addresses = (*to, *from, *source_bytes);
                self.copy::<CHECKED, COUNTED>(team, at, *bytes, addresses, active)?;
            }
            Operation::BoxCopy(copy) => {
                self.copy_box::<CHECKED, COUNTED>(team, at, copy, active)?;
            }
            Operation::Mbarrier { space, address, step } => {
                let awaited = self.mbarrier::<CHECKED>(team, (*space, *address), *step, active)?;
                if let Some(awaited) = awaited {
                    if COUNTED {
                        team.counts[at].executed -= 1;
                    }
                    return Ok(Next::Pause(Pause::Phase(awaited)));
                }
            }
            Operation::CopyCommit => {
                for lane in crate::cpu::counts::lanes(active) {
                    self.groups[lane] += 1;
                }
            }
            Operation::CopyWait { pending } => {
                self.finish_copies::<CHECKED>(team, active, *pending)?;
            }
            Operation::Shuffle { how, d, inside, a, lane, clamp, members } => {
                self.groups(*members, active)?;
                let (values, valid) = self.shuffled(*how, *a, *lane, *clamp, active);
                self.registers.set_word(*d, &values, active);
                if let Some(inside) = inside {
                    self.registers.set_predicate(*inside, valid, active);
                }
            }
            Operation::Vote { how, d, a, members } => {
                let groups = self.groups(*members, active)?;
                groups.for_each(|group| self.vote(*how, *d, *a, group));
            }
            Operation::ActiveMask { d } => self.registers.set_word(*d, &[active; 32], active),
            Operation::Reduce { run, d, a, members } => {
                let groups = self.groups(*members, active)?;
                groups.for_each(|group| self.reduce(*run, *d, *a, group));
            }
            Operation::Match { how, d, a, members } => {
                let groups = self.groups(*members, active)?;
                groups.for_each(|group| self.match_values(*how, *d, *a, group));
            }
            Operation::Elect { d, chosen, members } => {
                let groups = self.groups(*members, active)?;
                groups.for_each(|group| self.elect(*d, *chosen, group));
            }
            Operation::Barrier { id, threads, arrival, poll } => {
                self.check_whole::<CHECKED>(team, active)?;
                return self.barrier(*id, *threads, *arrival, *poll, active);
            }
            Operation::ClusterBarrier(step) => {
                self.check_whole::<CHECKED>(team, active)?;
                return Ok(Next::Pause(Pause::Cluster(*step)));
            }
            Operation::Sleep => return Ok(Next::Pause(Pause::Turn)),
            Operation::WarpBarrier => self.clocks.advance(self.place.number),
            Operation::Fence => {
                fence(Ordering::SeqCst);
                if CHECKED && team.blocks > 1 {
                    self.fenced = Some(self.clocks.clone());
                    self.clocks.advance(self.place.number);
                }
            }
            Operation::MatrixProduct(product) => {
                self.all_lanes("mma", active)?;
                self.multiply(product);
            }
            Operation::MatrixMove(moved) => {
                self.all_lanes("ldmatrix or stmatrix", active)?;
                self.move_matrices::<CHECKED, COUNTED>(team, at, moved)?;
            }
            Operation::Trap => {
                return Err(Wrong::of_warp(ViolationKind::Trap, "the kernel gave up (`trap`)"));
            }
            _ => {}
        }
        Ok(Next::Continue)
    }

    fn barrier(
        &self,
        id: Slot,
        threads: Option<Slot>,
        arrival: Arrival,
        poll: Option<Poll>,
        active: u32,
    ) -> Result<Next, Wrong> {
        let first = active.trailing_zeros() as usize & 31;
        let id = self.registers.word(id)[first] as usize;
        let threads = threads.map(|threads| self.registers.word(threads)[first]);
        if id >= 16 {
            return Err(Wrong::of_warp(
                ViolationKind::BarrierDivergence,
                format!("there is no barrier {id}: a block has 16"),
            ));
        }
        if let Some(threads) = threads
            && (threads % 32 != 0 || !(32..=1024).contains(&threads))
        {
            return Err(Wrong::of_warp(
                ViolationKind::BarrierDivergence,
                format!("barrier {id} is for {threads} threads, not for whole warps of a block"),
            ));
        }
        let ballot = poll.map(|Poll { asks, a }| {
            let holding = self.registers.test(a) & active;
            Ballot { asks, holding, asked: active }
        });
        Ok(Next::Pause(Pause::Barrier { id, threads, arrival, ballot }))
    }

    /// Makes sure that a warp comes to a barrier whole.
    fn check_whole<const CHECKED: bool>(&self, team: &Team<'_>, active: u32) -> Result<(), Wrong> {
        let checked = CHECKED && team.job.options.checks.has(Check::Divergence);
        if checked && active != self.alive { Err(self.diverged(active)) } else { Ok(()) }
    }

    fn diverged(&self, active: u32) -> Wrong {
        let missing = self.alive & !active;
        Wrong {
            lane: Some(active.trailing_zeros() as usize & 31),
            ..Wrong::of_warp(
                ViolationKind::BarrierDivergence,
                format!(
                    "{} lanes of warp {} wait here while {} are elsewhere",
                    active.count_ones(),
                    self.place.index,
                    missing.count_ones()
                ),
            )
        }
    }
}

/// Executes what only computes, and says whether it did.
#[inline(always)]
fn compute(registers: &mut Registers, operation: &Operation, mask: u32) -> bool {
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
            let chosen = r.predicate(*test);
            let mut values = *r.word(*b);
            for (lane, value) in r.word(*a).iter().enumerate() {
                if chosen >> lane & 1 == 1 {
                    values[lane] = *value;
                }
            }
            r.set_word(*d, &values, mask);
        }
        Operation::LongSelect { d, a, b, test } => {
            let chosen = r.predicate(*test);
            let mut values = *r.long(*b);
            for (lane, value) in r.long(*a).iter().enumerate() {
                if chosen >> lane & 1 == 1 {
                    values[lane] = *value;
                }
            }
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
    (d, opposite): (Slot, Option<Slot>),
    combined: Option<Combined>,
    mask: u32,
) {
    // The opposite is of the comparison, then combined like it (ISA section 9.7.6.1).
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
