//! Forest of extremely randomised trees (Geurts, Ernst and Wehenkel 2006): mean and spread of the trees' predictions.
//!
//! A split runs along one axis, or along the sum or difference of two or three logarithmic ones, because times depend
//! on products and ratios of parameters.

use std::array;

use fastrand::Rng;
use rayon::prelude::*;

use super::encoding::{EncodedPoint, Encoding};

/// Trees; 12, 32 and 100 do equally well on recorded spaces.
const TREES: usize = 16;

/// Directions tried for a split.
const DIRECTIONS: usize = 5;

/// Smallest extent along a direction that is split.
const TOO_CLOSE: f32 = 1e-4;

/// Direction of a split: up to three axes with their signs.
#[derive(Debug, Clone, Copy, Default)]
struct SplitDirection {
    axes: [u8; 3],
    signs: [f32; 3],
    count: u8,
}

impl SplitDirection {
    fn of(&self, values: &[f32]) -> f32 {
        let terms = self.axes.iter().zip(self.signs).take(usize::from(self.count));
        terms.map(|(axis, sign)| sign * values[usize::from(*axis)]).sum()
    }
}

#[derive(Debug, Clone, Copy)]
enum ForestNode {
    Leaf {
        mean: f32,
    },
    /// Points up to `cut` go to the node `below`, others to the one after it.
    Split {
        direction: SplitDirection,
        cut: f32,
        below: u32,
    },
}

/// See the module.
#[derive(Debug)]
pub(super) struct Forest {
    trees: Vec<Vec<ForestNode>>,
}

/// Predictions of the trees for one point.
#[derive(Debug, Clone, Copy)]
pub(super) struct ForestVote {
    pub(super) each: [f32; TREES],
    pub(super) mean: f32,
    pub(super) deviation: f32,
}

/// Coordinates of a point that trees split.
pub(super) fn values(encoding: &Encoding, point: &EncodedPoint) -> Vec<f32> {
    let levels = point.iter().zip(&encoding.axes);
    levels.map(|(level, axis)| axis.values[usize::from(*level)]).collect()
}

impl Forest {
    /// Seeds of the trees.
    pub(super) fn seeds(rng: &mut Rng) -> [u64; TREES] {
        array::from_fn(|_| rng.u64(..))
    }

    /// Trains a forest on `targets` at `rows` of coordinates.
    pub(super) fn grow(
        encoding: &Encoding,
        rows: &[Vec<f32>],
        targets: &[f32],
        seeds: [u64; TREES],
    ) -> Self {
        let logarithmic = encoding.axes.iter().enumerate().filter(|(_, axis)| axis.is_logarithmic);
        let logarithmic: Vec<u8> = logarithmic.map(|(at, _)| at as u8).collect();
        // Each tree has its own seed, whatever the order.
        let trees = seeds.into_par_iter().map(|seed| {
            let mut rng = Rng::with_seed(seed);
            let mut growth = ForestGrowth {
                axes: encoding.axes.len(),
                logarithmic: &logarithmic,
                rows,
                targets,
                nodes: vec![ForestNode::Leaf { mean: 0.0 }],
                rng: &mut rng,
            };
            let mut all: Vec<u32> = (0..rows.len() as u32).collect();
            growth.grow(0, &mut all);
            growth.nodes
        });
        Self { trees: trees.collect() }
    }

    /// Index of a tree from any number.
    pub(super) fn tree(number: usize) -> usize {
        number % TREES
    }

    pub(super) fn vote(&self, values: &[f32]) -> ForestVote {
        let mut each = [0.0; TREES];
        for (vote, tree) in each.iter_mut().zip(&self.trees) {
            *vote = predict(tree, values);
        }
        let mean = each.iter().sum::<f32>() / TREES as f32;
        let squares: f32 = each.iter().map(|vote| (vote - mean).powi(2)).sum();
        ForestVote { each, mean, deviation: (squares / TREES as f32).sqrt() }
    }
}

fn predict(tree: &[ForestNode], values: &[f32]) -> f32 {
    let mut at = 0;
    loop {
        match &tree[at] {
            ForestNode::Leaf { mean } => return *mean,
            ForestNode::Split { direction, cut, below } => {
                at = *below as usize + usize::from(direction.of(values) > *cut);
            }
        }
    }
}

/// State of one tree in training.
struct ForestGrowth<'a> {
    axes: usize,
    logarithmic: &'a [u8],
    rows: &'a [Vec<f32>],
    targets: &'a [f32],
    nodes: Vec<ForestNode>,
    rng: &'a mut Rng,
}

impl ForestGrowth<'_> {
    /// Grows the node `at` over these rows.
    fn grow(&mut self, at: usize, members: &mut [u32]) {
        let count = members.len() as f32;
        let targets = members.iter().map(|row| self.targets[*row as usize]);
        let mean = targets.clone().sum::<f32>() / count;
        let is_flat = targets.clone().all(|target| (target - mean).abs() < 1e-5);
        self.nodes[at] = ForestNode::Leaf { mean };
        if members.len() < 2 || is_flat || self.axes == 0 {
            return;
        }
        let Some((direction, cut)) = self.split(members, mean) else { return };
        let mut lower = 0;
        for at in 0..members.len() {
            if direction.of(&self.rows[members[at] as usize]) <= cut {
                members.swap(lower, at);
                lower += 1;
            }
        }
        let below = self.nodes.len();
        self.nodes.extend([ForestNode::Leaf { mean }; 2]);
        self.nodes[at] = ForestNode::Split { direction, cut, below: below as u32 };
        let (low, high) = members.split_at_mut(lower);
        self.grow(below, low);
        self.grow(below + 1, high);
    }

    /// The random direction and cut with the largest reduction of variance.
    fn split(&mut self, members: &[u32], mean: f32) -> Option<(SplitDirection, f32)> {
        let mut best: Option<(f32, SplitDirection, f32)> = None;
        let mut along = Vec::with_capacity(members.len());
        let mut tried = 0;
        // Few rows do not vary along many directions.
        for _ in 0..8 * DIRECTIONS {
            let direction = self.direction();
            along.clear();
            along.extend(members.iter().map(|row| direction.of(&self.rows[*row as usize])));
            let low = along.iter().copied().fold(f32::INFINITY, f32::min);
            let high = along.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            if high - low < TOO_CLOSE {
                continue;
            }
            let cut = low + (high - low) * (0.001 + 0.998 * self.rng.f32());
            let (mut sum, mut count) = (0.0, 0.0);
            for (value, row) in along.iter().zip(members) {
                if *value <= cut {
                    sum += self.targets[*row as usize] - mean;
                    count += 1.0;
                }
            }
            if count as usize == members.len() {
                continue; // the cut was rounded to the highest value
            }
            // Deviations from the mean sum to zero over both sides.
            let gain = sum * sum / count + sum * sum / (members.len() as f32 - count);
            if best.is_none_or(|(most, ..)| gain > most) {
                best = Some((gain, direction, cut));
            }
            tried += 1;
            if tried == DIRECTIONS {
                break;
            }
        }
        best.map(|(_, direction, cut)| (direction, cut))
    }

    /// One axis, two or three, with weights 1 : 1 : 0.5.
    fn direction(&mut self) -> SplitDirection {
        let available = self.logarithmic.len();
        let weights =
            [1.0, f64::from(u8::from(available >= 2)), 0.5 * f64::from(u8::from(available >= 3))];
        let at = self.rng.f64() * weights.iter().sum::<f64>();
        let mut direction =
            SplitDirection { signs: [1.0; 3], count: 1, ..SplitDirection::default() };
        if at < weights[0] {
            direction.axes[0] = self.rng.usize(..self.axes) as u8;
            return direction;
        }
        direction.count = if at < weights[0] + weights[1] { 2 } else { 3 };
        for term in 0..usize::from(direction.count) {
            let (axes, sign) = (direction.axes, self.rng.bool());
            direction.axes[term] = loop {
                let axis = self.logarithmic[self.rng.usize(..available)];
                if !axes[..term].contains(&axis) {
                    break axis;
                }
            };
            direction.signs[term] = if term == 0 || sign { 1.0 } else { -1.0 };
        }
        direction
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Value;
    use crate::space::LegalSpace;

    #[test]
    fn a_forest_learns_a_ratio_and_is_less_certain_without_data() {
        let values: Vec<Value> = (0..8).map(|value| Value::Int(1 << value)).collect();
        let parameters = ["X", "Y"].map(|name| (name.to_owned(), values.clone())).to_vec();
        let all: Vec<Vec<usize>> = (0..64).map(|at| vec![at / 8, at % 8]).collect();
        let encoding = Encoding::of(&LegalSpace::of_recorded(parameters, all.clone()).unwrap());
        let rows: Vec<Vec<f32>> = all.iter().map(|indices| values_of(&encoding, indices)).collect();
        let target = |row: &Vec<f32>| (row[0] - row[1]).abs();
        let seen: Vec<Vec<f32>> = rows.iter().step_by(2).cloned().collect();
        let targets: Vec<f32> = seen.iter().map(target).collect();
        let forest =
            Forest::grow(&encoding, &seen, &targets, Forest::seeds(&mut Rng::with_seed(3)));
        let error = |row: &Vec<f32>| f64::from((forest.vote(row).mean - target(row)).abs());
        let seen_error: f64 = seen.iter().map(error).sum::<f64>() / 32.0;
        let other_error: f64 = rows.iter().skip(1).step_by(2).map(error).sum::<f64>() / 32.0;
        assert!(seen_error < 0.01, "{seen_error}");
        assert!(other_error < 0.8, "{other_error}");
        let deviation = |rows: &mut dyn Iterator<Item = &Vec<f32>>| -> f32 {
            rows.map(|row| forest.vote(row).deviation).sum()
        };
        let (sure, unsure) =
            (deviation(&mut seen.iter()), deviation(&mut rows.iter().skip(1).step_by(2)));
        assert!(sure < 0.1 * unsure, "{sure} {unsure}");
    }

    fn values_of(encoding: &Encoding, indices: &[usize]) -> Vec<f32> {
        values(encoding, &encoding.point(indices))
    }

    #[test]
    fn without_axes_a_tree_is_a_leaf() {
        let encoding = Encoding { axes: Vec::new() };
        let rows = vec![Vec::new(); 3];
        let forest =
            Forest::grow(&encoding, &rows, &[1.0, 2.0, 6.0], Forest::seeds(&mut Rng::with_seed(3)));
        assert_eq!((forest.vote(&[]).mean, forest.vote(&[]).deviation), (3.0, 0.0));
    }
}
