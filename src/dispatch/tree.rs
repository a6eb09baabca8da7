//! Grows the decision tree over M, N and K that selects kernels. Splits minimise the cost of wrong choices.

use gemm_tune_runtime::dispatch_tree::{Dimension, DispatchNode};

use super::table::TimeTable;

/// Largest depth.
const MAX_DEPTH: usize = 5;

/// Fewest shapes of a leaf: one shape is weak evidence for its neighbours.
const FEWEST: usize = 2;

/// Least gain of a split: the sum over its shapes of logarithms of times; 0.02 is 2 % of one shape.
const LEAST_GAIN: f64 = 0.02;

/// Cost of a kernel that is not legal for a shape, as the logarithm of a ratio: 20 times slower.
const ILLEGAL: f64 = 3.0;

/// Fits a tree to some shapes of a table. Leaves hold indices into `set`.
pub(super) fn fit_tree(table: &TimeTable, shapes: &[usize], set: &[usize]) -> DispatchNode {
    grow(table, shapes, set, MAX_DEPTH)
}

fn grow(table: &TimeTable, shapes: &[usize], set: &[usize], depth: usize) -> DispatchNode {
    let (kernels, own) = answer(table, shapes, set);
    if depth == 0 || shapes.len() < 2 * FEWEST {
        return DispatchNode::Leaf { kernels };
    }
    let mut best: Option<(f64, Dimension, u64)> = None;
    for extent in [Dimension::M, Dimension::N, Dimension::K] {
        let of = |shape: &usize| extent.of(&table.shapes[*shape]);
        let mut values: Vec<u64> = shapes.iter().map(of).collect();
        values.sort_unstable();
        values.dedup();
        for pair in values.windows(2) {
            // The geometric mean of neighbouring values.
            let middle = (pair[0] as f64 * pair[1] as f64).sqrt().ceil() as u64;
            let below = middle.clamp(pair[0] + 1, pair[1]);
            let (low, high) = halves(table, shapes, extent, below);
            if low.len() < FEWEST || high.len() < FEWEST {
                continue;
            }
            let split = answer(table, &low, set).1 + answer(table, &high, set).1;
            // The first of equal splits wins, so that the tree is deterministic.
            if best.is_none_or(|(known, ..)| split < known) {
                best = Some((split, extent, below));
            }
        }
    }
    match best {
        Some((split, extent, below)) if own - split >= LEAST_GAIN => {
            let (low, high) = halves(table, shapes, extent, below);
            let then = grow(table, &low, set, depth - 1);
            let otherwise = grow(table, &high, set, depth - 1);
            DispatchNode::Split {
                extent,
                below,
                then: Box::new(then),
                otherwise: Box::new(otherwise),
            }
        }
        _ => DispatchNode::Leaf { kernels },
    }
}

/// Orders all kernels by their cost over some shapes; also returns the lowest cost.
fn answer(table: &TimeTable, shapes: &[usize], set: &[usize]) -> (Vec<usize>, f64) {
    let mut costs: Vec<(f64, usize)> = set
        .iter()
        .enumerate()
        .map(|(place, kernel)| {
            let of = |shape: &usize| table.log_loss(*shape, *kernel).min(ILLEGAL);
            (shapes.iter().map(of).sum(), place)
        })
        .collect();
    costs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let least = costs.first().map_or(0.0, |(cost, _)| *cost);
    (costs.into_iter().map(|(_, place)| place).collect(), least)
}

fn halves(
    table: &TimeTable,
    shapes: &[usize],
    extent: Dimension,
    below: u64,
) -> (Vec<usize>, Vec<usize>) {
    shapes.iter().partition(|shape| extent.of(&table.shapes[**shape]) < below)
}
