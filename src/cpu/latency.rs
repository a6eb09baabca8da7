//! Clocks that a warp takes while no other warp delays it: the dependencies of its instructions.
//!
//! Steps that are always executed in sequence are a segment; it ends at branches, barriers and waits.
//! The assembler orders instructions within a segment freely, so a step starts when its operands are
//! ready. The next segment starts when the last step of this one has started: warps issue in order,
//! and wait for an operand only where it is used. Values of other segments count as ready, as loops
//! that load ahead have them.
//!
//! Latencies of f32 arithmetic and shared memory are those measured on an H100 (Luo et al. 2024,
//! "Benchmarking and dissecting the Nvidia Hopper GPU architecture via microbenchmarking"). The latency
//! of global memory depends on where data are; its waits are counted, and their time is the caller's.

use std::collections::HashMap;
use std::ops::Range;

use super::counts::InstructionClass;
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

/// Clocks of all warps, each as if it were alone.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WarpClocks {
    /// With operands from global memory at once.
    pub own: f64,
    /// Waits for global memory: times that a warp waits for the whole latency of an access.
    pub waits: f64,
}

/// Sums the clocks of all warps, from the executions of each step.
pub(super) fn warp_clocks(steps: &[KernelStep], counts: &[StepCounts]) -> WarpClocks {
    let mut clocks = WarpClocks::default();
    for segment in segments(steps) {
        let executed = counts.get(segment.start).map_or(0, |counts| counts.executed);
        if executed == 0 {
            continue;
        }
        let steps = &steps[segment];
        let own = scheduled(steps, 0);
        let waits = (scheduled(steps, GLOBAL) - own) as f64 / GLOBAL as f64;
        let copies = steps.iter().map(|step| copy_waits(&step.operation, own)).sum::<f64>();
        clocks.own += executed as f64 * own as f64;
        clocks.waits += executed as f64 * (waits + copies);
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

/// Divides steps into segments.
fn segments(steps: &[KernelStep]) -> Vec<Range<usize>> {
    let mut begins = vec![false; steps.len() + 1];
    begins[0] = true;
    begins[steps.len()] = true;
    for (at, step) in steps.iter().enumerate() {
        if let Operation::Branch { target, .. } = &step.operation
            && let Some(begin) = begins.get_mut(*target as usize)
        {
            *begin = true;
        }
        let ends = matches!(step.class, InstructionClass::Barrier | InstructionClass::Control);
        begins[at + 1] |= ends;
    }
    let places: Vec<usize> = (0..=steps.len()).filter(|at| begins[*at]).collect();
    places.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// Clocks until the last step of a segment has started.
fn scheduled(steps: &[KernelStep], global: u64) -> u64 {
    let mut ready: HashMap<(Class, RegisterSlot), u64> = HashMap::new();
    let (mut last, mut instructions) = (0, 0);
    for step in steps {
        let mut start = 0;
        let mut written = Vec::new();
        if let Some(guard) = step.guard {
            start = ready.get(&(Class::Predicate, guard.slot)).copied().unwrap_or(0);
        }
        step.operation.clone().visit_slots(&mut |class, how, slot| match how {
            SlotUse::Read => start = start.max(ready.get(&(class, *slot)).copied().unwrap_or(0)),
            SlotUse::Write => written.push((class, *slot)),
        });
        let end = start + latency(step.class, global);
        ready.extend(written.into_iter().map(|slot| (slot, end)));
        last = last.max(start + 1);
        instructions += u64::from(step.begins);
    }
    last.max(instructions)
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
