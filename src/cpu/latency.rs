//! Clocks that a warp takes while no other warp delays it: the dependencies of its instructions.
//!
//! A segment is a piece of code between the beginnings and ends of loops. The assembler orders instructions within a
//! segment, though none across a barrier, so a step starts when its operands are ready. The next segment starts when the
//! last step of this one has started: warps issue in order, and wait for an operand only where it is used. Values of other
//! segments count as ready. Of the body of a loop, the clocks are those that a second pass adds: they contain the waits for
//! values of the pass before.
//!
//! Latencies of f32 arithmetic and shared memory are those measured on an H100 (Luo et al. 2024,
//! "Benchmarking and dissecting the Nvidia Hopper GPU architecture via microbenchmarking"). The latency
//! of global memory depends on where data are; its waits are counted, and their time is the caller's.

use std::collections::HashMap;
use std::ops::Range;

use super::counts::{InstructionClass, WarpClocks};
use super::operation::{KernelStep, Operation, RegisterSlot, SlotUse};
use super::step_counts::StepCounts;
use super::types::Class;

/// Clocks until the result of an arithmetic instruction can be read.
const ARITHMETIC: u64 = 4;

/// Clocks of a load from shared memory, and of one from the constant bank, local memory or parameters.
const SHARED: u64 = 29;
const OTHER: u64 = 33;

/// Clocks of a shuffle or vote, and of a matrix product.
const WARP: u64 = 23;
const MATRIX: u64 = 33;

/// Latency of global memory with which its waits are counted.
const GLOBAL: u64 = 600;

/// Computes the clocks of the warps that do most, from the executions of each step by all warps. Segments that only some
/// warps execute are taken to be those of the same warps.
pub(super) fn warp_clocks(steps: &[KernelStep], counts: &[StepCounts]) -> WarpClocks {
    let mut clocks = WarpClocks::default();
    let warps = counts.first().map_or(0, |counts| counts.executed);
    for segment in segments(steps) {
        let counted = counts.get(segment.clone()).unwrap_or_default();
        let executed = counted.iter().map(|counts| counts.executed).max().unwrap_or(0);
        if executed == 0 {
            continue;
        }
        // Bodies that most warps skip are left out.
        let is_usual = |counts: &StepCounts| 2 * counts.executed >= executed;
        let is_loop = is_loop(steps, &segment);
        // Warps that come to the segment: before a loop, those that execute the step before it.
        let before = segment.start.checked_sub(1).and_then(|at| counts.get(at));
        let entered = before.map(|counts| counts.executed).filter(|count| is_loop && *count > 0);
        let active = entered.unwrap_or(executed).min(warps).max(1);
        let each = executed as f64 / active as f64;
        let steps = steps[segment].iter().zip(counted);
        let steps: Vec<&KernelStep> =
            steps.filter(|(_, counts)| is_usual(counts)).map(|(step, _)| step).collect();
        let own = duration(&steps, is_loop, 0);
        let waits = (duration(&steps, is_loop, GLOBAL) - own) as f64 / GLOBAL as f64;
        let copies = steps.iter().map(|step| copy_waits(&step.operation, own)).sum::<f64>();
        clocks.own += each * own as f64;
        clocks.waits += each * (waits + copies);
    }
    clocks
}

/// Waits of a `cp.async.wait_group`: the latency that the segments of the groups in flight do not cover, if each
/// is as long as this one.
fn copy_waits(operation: &Operation, own: u64) -> f64 {
    match operation {
        Operation::CopyWait { pending } => {
            let covered = u64::from(pending.unwrap_or(0)) * own;
            GLOBAL.saturating_sub(covered) as f64 / GLOBAL as f64
        }
        _ => 0.0,
    }
}

/// Whether a branch goes back.
fn goes_back(at: usize, step: &KernelStep) -> Option<usize> {
    match step.operation {
        Operation::Branch { target, .. } if target as usize <= at => Some(target as usize),
        _ => None,
    }
}

/// Divides steps into segments, where loops begin and end. What a branch forward skips stays in the segment, as the
/// assembler predicates short bodies.
fn segments(steps: &[KernelStep]) -> Vec<Range<usize>> {
    let mut begins = vec![false; steps.len() + 1];
    begins[0] = true;
    begins[steps.len()] = true;
    for (at, step) in steps.iter().enumerate() {
        if let Some(target) = goes_back(at, step) {
            begins[target] = true;
            begins[at + 1] = true;
        }
    }
    let places: Vec<usize> = (0..=steps.len()).filter(|at| begins[*at]).collect();
    places.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// Whether a segment is the whole body of a loop.
fn is_loop(steps: &[KernelStep], segment: &Range<usize>) -> bool {
    let last = segment.end - 1;
    goes_back(last, &steps[last]) == Some(segment.start)
}

/// Clocks of a segment; of a loop's body, those that a second time adds.
fn duration(steps: &[&KernelStep], is_loop: bool, global: u64) -> u64 {
    let mut schedule = Schedule::default();
    schedule.run(steps, global);
    if !is_loop {
        return schedule.clocks();
    }
    let once = schedule.clocks();
    schedule.fence = once;
    schedule.run(steps, global);
    schedule.clocks() - once
}

/// A warp's steps in the order of their dependencies.
#[derive(Default)]
struct Schedule {
    /// When each register can be read.
    ready: HashMap<(Class, RegisterSlot), u64>,
    /// When the last step has started.
    last: u64,
    /// Instructions so far.
    instructions: u64,
    /// No later step starts before it.
    fence: u64,
}

impl Schedule {
    /// Clocks until the last step has started: one instruction a clock at most.
    fn clocks(&self) -> u64 {
        self.last.max(self.instructions)
    }

    fn run(&mut self, steps: &[&KernelStep], global: u64) {
        for step in steps {
            let mut start = self.fence;
            let ready = &self.ready;
            let mut wait_for = |register: (Class, RegisterSlot)| {
                start = start.max(ready.get(&register).copied().unwrap_or(0));
            };
            let mut written = Vec::new();
            if let Some(guard) = step.guard {
                wait_for((Class::Predicate, guard.slot));
            }
            step.operation.clone().visit_slots(&mut |class, how, slot| match how {
                SlotUse::Read => wait_for((class, *slot)),
                SlotUse::Write => written.push((class, *slot)),
            });
            let end = start + latency(step.class, global);
            self.ready.extend(written.into_iter().map(|slot| (slot, end)));
            self.last = self.last.max(start + 1);
            self.instructions += u64::from(step.begins);
            if step.class == InstructionClass::Barrier {
                self.fence = self.clocks();
            }
        }
    }
}

fn latency(class: InstructionClass, global: u64) -> u64 {
    use InstructionClass::{
        AsyncCopy, Atomic, Barrier, Control, Float, Fma, GlobalLoad, GlobalStore, Integer, Matrix,
        OtherMemory, SharedLoad, SharedStore, Warp,
    };
    match class {
        Fma | Float | Integer => ARITHMETIC,
        SharedLoad => SHARED,
        OtherMemory => OTHER,
        Warp => WARP,
        Matrix => MATRIX,
        GlobalLoad | Atomic => global,
        GlobalStore | SharedStore | AsyncCopy | Barrier | Control => 0,
    }
}
