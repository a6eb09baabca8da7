//! Where the lanes of a warp that part at a branch meet again: at the first step that all ways
//! from the branch lead through, its immediate post-dominator.

use crate::cpu::operation::{KernelStep, Operation};

/// A stretch of steps that are executed one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BasicBlock {
    pub(super) first: usize,
    /// One past its last step.
    pub(super) end: usize,
    /// Blocks that may follow; the exit is none of them.
    pub(super) next: Vec<usize>,
    exits: BlockExit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockExit {
    Never,
    Perhaps,
}

/// Cuts steps into blocks.
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
            // Behind the last step there is nothing left to execute.
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

/// The immediate post-dominator of every block; `None` is the exit. By the iteration of Cooper,
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
    // Postorder of the reversed graph from the exit. Blocks that never come there, in a loop
    // without end, have no order, and meet nowhere.
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
        // Later in postorder is nearer to the exit; the exit comes last and ends the walk.
        if order[first] < order[second] {
            first = dominator[first].unwrap_or(second);
        } else {
            second = dominator[second].unwrap_or(first);
        }
    }
    first
}

/// Gives every branch the step where its lanes meet; `u32::MAX` where they only meet at the exit.
pub(super) fn set_reconvergence_points(steps: &mut [KernelStep]) {
    let blocks = blocks(steps);
    let dominators = post_dominators(&blocks);
    for (block, dominator) in blocks.iter().zip(dominators) {
        if let Operation::Branch { reconvergence, .. } = &mut steps[block.end - 1].operation {
            *reconvergence = dominator.map_or(u32::MAX, |block| blocks[block].first as u32);
        }
    }
}
