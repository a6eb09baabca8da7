//! Decision tree over M, N and K that selects kernels. Splits minimise the cost of wrong choices.

use serde::{Deserialize, Serialize};

use super::table::TimeTable;
use crate::model::Shape;

/// Largest depth.
const MAX_DEPTH: usize = 5;

/// Fewest shapes of a leaf: one shape is weak evidence for its neighbours.
const FEWEST: usize = 2;

/// Least gain of a split: the sum over its shapes of logarithms of times; 0.02 is 2 % of one shape.
const LEAST_GAIN: f64 = 0.02;

/// Cost of a kernel that is not legal for a shape, as the logarithm of a ratio: 20 times slower.
const ILLEGAL: f64 = 3.0;

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum DispatchNode {
    /// Compares one dimension with a threshold.
    Split {
        /// `M`, `N` or `K`.
        extent: Dimension,
        /// The threshold: smallest value of the upper branch.
        below: u64,
        /// Branch for values below the threshold.
        then: Box<Self>,
        /// Branch for all other values.
        otherwise: Box<Self>,
    },
    /// Kernels, best first; the next one serves shapes for which one is not legal.
    Leaf {
        /// Their indices.
        kernels: Vec<usize>,
    },
}

/// A dimension of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dimension {
    /// Rows of C.
    M,
    /// Columns of C.
    N,
    /// The summed dimension.
    K,
}

impl Dimension {
    /// Its value for a shape.
    pub fn of(self, shape: &Shape) -> u64 {
        match self {
            Self::M => shape.m,
            Self::N => shape.n,
            Self::K => shape.k,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::M => "M",
            Self::N => "N",
            Self::K => "K",
        }
    }
}

impl DispatchNode {
    /// Fits a tree to some shapes of a table. Leaves hold indices into `set`.
    pub fn fit(table: &TimeTable, shapes: &[usize], set: &[usize]) -> Self {
        grow(table, shapes, set, MAX_DEPTH)
    }

    /// Kernels for a shape, best first.
    pub fn order(&self, shape: &Shape) -> &[usize] {
        match self {
            Self::Leaf { kernels } => kernels,
            Self::Split { extent, below, then, otherwise } => {
                if extent.of(shape) < *below {
                    then.order(shape)
                } else {
                    otherwise.order(shape)
                }
            }
        }
    }

    /// Copies the tree with each index replaced by a list of others.
    #[must_use]
    pub fn mapped(&self, others: &impl Fn(usize) -> Vec<usize>) -> Self {
        match self {
            Self::Leaf { kernels } => {
                Self::Leaf { kernels: kernels.iter().flat_map(|kernel| others(*kernel)).collect() }
            }
            Self::Split { extent, below, then, otherwise } => Self::Split {
                extent: *extent,
                below: *below,
                then: Box::new(then.mapped(others)),
                otherwise: Box::new(otherwise.mapped(others)),
            },
        }
    }

    /// Highest index in a leaf.
    pub fn last(&self) -> usize {
        match self {
            Self::Leaf { kernels } => kernels.iter().copied().max().unwrap_or(0),
            Self::Split { then, otherwise, .. } => then.last().max(otherwise.last()),
        }
    }

    /// Number of leaves.
    pub fn leaves(&self) -> usize {
        match self {
            Self::Leaf { .. } => 1,
            Self::Split { then, otherwise, .. } => then.leaves() + otherwise.leaves(),
        }
    }
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
