//! Control flow graph of a kernel, and the reconvergence points of its branches.
//!
//! Lanes that diverge at a branch reconverge at its immediate post-dominator: the first step on
//! every path from the branch to the exit.

use crate::cpu::operation::{KernelStep, Operation};

/// A basic block: steps that are always executed in sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BasicBlock {
    pub(super) first: usize,
    /// One past its last step.
    pub(super) end: usize,
    /// Successors, without the exit.
    pub(super) next: Vec<usize>,
    exits: BlockExit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockExit {
    Never,
    Perhaps,
}

/// Divides steps into basic blocks.
pub(super) fn blocks(steps: &[KernelStep]) -> Vec<BasicBlock> {
    let mut begins = vec![false; steps.len() + 1];
    begins[0] = true;
    for (at, step) in steps.iter().enumerate() {
        match step.operation {
            Operation::Branch { target, .. } => {
                if let Some(begin) = begins.get_mut(target as usize) {
                    *begin = true;
                }
                begins[at + 1] = true;
            }
            Operation::Exit | Operation::Trap => begins[at + 1] = true,
            _ => {}
        }
    }
    let firsts: Vec<usize> = (0..steps.len()).filter(|at| begins[*at]).collect();
    let block_at = |step: usize| firsts.binary_search(&step).ok();
    let ends = firsts.iter().skip(1).copied().chain([steps.len()]);
    firsts
        .iter()
        .zip(ends)
        .map(|(&first, end)| {
            let last = &steps[end - 1];
            let (falls_through, target, ends_here) = match last.operation {
                Operation::Branch { target, .. } => (last.guard.is_some(), Some(target), false),
                Operation::Exit | Operation::Trap => (last.guard.is_some(), None, true),
                _ => (true, None, false),
            };
            let mut next: Vec<usize> =
                target.into_iter().filter_map(|target| block_at(target as usize)).collect();
            let after = if falls_through { block_at(end) } else { None };
            next.extend(after);
            // Execution ends after the last step.
            let beyond = falls_through && after.is_none();
            let exits = if ends_here || beyond || next.is_empty() {
                BlockExit::Perhaps
            } else {
                BlockExit::Never
            };
            BasicBlock { first, end, next, exits }
        })
        .collect()
}

/// Immediate post-dominator of every block; `None` is the exit. Uses the iteration of Cooper,
/// Harvey and Kennedy (2001) on the reversed graph.
pub(super) fn post_dominators(blocks: &[BasicBlock]) -> Vec<Option<usize>> {
    let exit = blocks.len();
    let mut before = vec![Vec::new(); exit + 1];
    for (at, block) in blocks.iter().enumerate() {
        for next in &block.next {
            before[*next].push(at);
        }
        if block.exits == BlockExit::Perhaps {
            before[exit].push(at);
        }
    }
    // Postorder of the reversed graph from the exit. Blocks of endless loops do not reach the exit;
    // they have no order and no reconvergence point.
    let mut order = vec![usize::MAX; exit + 1];
    let mut sequence = Vec::new();
    let mut seen = vec![false; exit + 1];
    let mut stack = vec![(exit, 0)];
    seen[exit] = true;
    while let Some((node, place)) = stack.pop() {
        if let Some(previous) = before[node].get(place) {
            stack.push((node, place + 1));
            if !seen[*previous] {
                seen[*previous] = true;
                stack.push((*previous, 0));
            }
        } else {
            order[node] = sequence.len();
            sequence.push(node);
        }
    }
    let mut dominator: Vec<Option<usize>> = vec![None; exit + 1];
    dominator[exit] = Some(exit);
    let mut changed = true;
    while changed {
        changed = false;
        for &node in sequence.iter().rev().filter(|node| **node != exit) {
            let leads_out = (blocks[node].exits == BlockExit::Perhaps).then_some(exit);
            let mut found = None;
            for next in blocks[node].next.iter().copied().chain(leads_out) {
                if dominator[next].is_none() {
                    continue;
                }
                found = Some(match found {
                    None => next,
                    Some(other) => common(&dominator, &order, other, next),
                });
            }
            if dominator[node] != found {
                dominator[node] = found;
                changed = true;
            }
        }
    }
    (0..exit).map(|node| dominator[node].filter(|dominator| *dominator != exit)).collect()
}

fn common(dominator: &[Option<usize>], order: &[usize], first: usize, second: usize) -> usize {
    let (mut first, mut second) = (first, second);
    while first != second {
        // A higher postorder is nearer to the exit, which is last and ends the walk.
        if order[first] < order[second] {
            first = dominator[first].unwrap_or(second);
        } else {
            second = dominator[second].unwrap_or(first);
        }
    }
    first
}

/// Sets the reconvergence step of every branch; `u32::MAX` means the exit.
pub(super) fn set_reconvergence_points(steps: &mut [KernelStep]) {
    let blocks = blocks(steps);
    let dominators = post_dominators(&blocks);
    for (block, dominator) in blocks.iter().zip(dominators) {
        if let Operation::Branch { reconvergence, .. } = &mut steps[block.end - 1].operation {
            *reconvergence = dominator.map_or(u32::MAX, |block| blocks[block].first as u32);
        }
    }
}
