//! A dispatch set: a few kernels, the decision tree that selects among them, and its measured loss.

use serde::{Deserialize, Serialize};

use super::cover::{CoverError, CoverGoal, cover, percent};
use super::table::{DispatchKernel, SCHEMA, TimeTable};
use super::tree::DispatchNode;
use crate::model::Shape;

/// Parts that shapes are dealt out to, each of which is held out once.
const FOLDS: usize = 10;

/// Kernels and the tree that chooses between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dispatch {
    /// [`SCHEMA`].
    pub schema: u64,
    /// The GPU that the times are of.
    pub device: String,
    /// How elements are stored.
    pub dtype: String,
    /// The arithmetic contract.
    pub compute: String,
    /// Which operands are stored transposed.
    pub layout: String,
    /// The kernels; the tree names them by their place here.
    pub kernels: Vec<DispatchKernel>,
    /// The tree.
    pub tree: DispatchNode,
    /// What it costs.
    pub loss: DispatchLoss,
}

/// By how much times are longer than those of the table's best kernels, in per cent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DispatchLoss {
    /// Shapes of the table.
    pub shapes: usize,
    /// Geometric mean, if the best of the set were always chosen.
    pub set_percent: f64,
    /// The worst shape of that.
    pub set_worst_percent: f64,
    /// Geometric mean of what the tree chooses for the shapes that it was fitted to.
    pub tree_percent: f64,
    /// Geometric mean for shapes that it was not fitted to: a tree for each part of the shapes, fitted
    /// to the other parts.
    pub held_out_percent: f64,
    /// The worst shape of that.
    pub held_out_worst_percent: f64,
    /// How many parts.
    pub folds: usize,
}

impl Dispatch {
    /// The smallest set that is good enough, and its tree.
    ///
    /// # Errors
    /// [`CoverError`].
    pub fn of(table: &TimeTable, wanted: CoverGoal) -> Result<Self, CoverError> {
        let covered = cover(table, wanted)?;
        let set = &covered.kernels;
        let all: Vec<usize> = (0..table.shapes.len()).collect();
        let tree = DispatchNode::fit(table, &all, set);
        let regret = |tree: &DispatchNode, shape: usize| {
            let chosen = tree.order(&table.shapes[shape]);
            let mut times = chosen.iter().filter_map(|kernel| table.time(shape, set[*kernel]));
            times.next().map_or(f64::INFINITY, |time| (time / table.best(shape)).ln())
        };
        let folds = FOLDS.min(all.len());
        let held_out: Vec<f64> = (0..folds)
            .flat_map(|fold| {
                let (out, rest): (Vec<usize>, Vec<usize>) =
                    all.iter().partition(|shape| *shape % folds == fold);
                let tree = DispatchNode::fit(table, &rest, set);
                out.into_iter().map(move |shape| (tree.clone(), shape))
            })
            .map(|(tree, shape)| regret(&tree, shape))
            .collect();
        let fitted: Vec<f64> = all.iter().map(|shape| regret(&tree, *shape)).collect();
        let mean = |logs: &[f64]| percent(logs.iter().sum::<f64>() / logs.len().max(1) as f64);
        let worst = |logs: &[f64]| percent(logs.iter().copied().fold(0.0, f64::max));
        Ok(Self {
            schema: SCHEMA,
            device: table.device.clone(),
            dtype: table.dtype.clone(),
            compute: table.compute.clone(),
            layout: table.layout.clone(),
            kernels: set.iter().map(|kernel| table.kernels[*kernel].clone()).collect(),
            tree,
            loss: DispatchLoss {
                shapes: all.len(),
                set_percent: percent(covered.loss),
                set_worst_percent: percent(covered.worst),
                tree_percent: mean(&fitted),
                held_out_percent: mean(&held_out),
                held_out_worst_percent: worst(&held_out),
                folds,
            },
        })
    }

    /// The kernels for a shape, the best first.
    pub fn order(&self, shape: &Shape) -> &[usize] {
        self.tree.order(shape)
    }
}
