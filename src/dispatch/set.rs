//! A dispatch set: a few kernels, the decision tree that selects among them, and its measured loss.

use serde::{Deserialize, Serialize};

use super::cover::{CoverError, CoverGoal, cover, percent};
use super::table::{DispatchKernel, SCHEMA, TimeTable};
use super::tree::fit_tree;
use crate::database::StoredPattern;
use crate::model::Shape;
use gemm_tune_runtime::dispatch_tree::DispatchNode;

/// Folds of the cross-validation.
const FOLDS: usize = 10;

/// A kernel set with its decision tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dispatch {
    /// [`SCHEMA`].
    pub schema: u64,
    /// The GPU of the times.
    pub device: String,
    /// Dtype of A, and of the others where they are absent.
    pub dtype: String,
    /// Dtype of B; absent where it is that of A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_dtype: Option<String>,
    /// Dtype of C and D; absent where it follows from that of A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    /// The arithmetic contract.
    pub compute: String,
    /// Which operands are stored transposed.
    pub layout: String,
    /// What follows the product; absent where nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epilogue: Option<String>,
    /// The kernels; the leaves of the tree are indices into this list.
    pub kernels: Vec<DispatchKernel>,
    /// The tree.
    pub tree: DispatchNode,
    /// Its loss.
    pub loss: DispatchLoss,
}

/// Extra time against the best kernels of the table, in per cent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DispatchLoss {
    /// Number of shapes in the table.
    pub shapes: usize,
    /// Geometric mean for the best kernel of the set at every shape.
    pub set_percent: f64,
    /// The same for the worst shape.
    pub set_worst_percent: f64,
    /// Geometric mean for the tree's choice, on the shapes that it was fitted to.
    pub tree_percent: f64,
    /// Geometric mean for the tree's choice on held-out shapes, by cross-validation.
    pub held_out_percent: f64,
    /// The same for the worst shape.
    pub held_out_worst_percent: f64,
    /// Number of folds.
    pub folds: usize,
}

impl Dispatch {
    /// The GEMM type and layout of its problems.
    pub fn pattern(&self) -> StoredPattern {
        StoredPattern {
            dtype: self.dtype.clone(),
            b_dtype: self.b_dtype.clone(),
            out: self.out.clone(),
            compute: self.compute.clone(),
            layout: self.layout.clone(),
            epilogue: self.epilogue.clone(),
        }
    }

    /// Finds the smallest set within the limits and fits its tree.
    ///
    /// # Errors
    /// [`CoverError`].
    pub fn of(table: &TimeTable, wanted: CoverGoal) -> Result<Self, CoverError> {
        let covered = cover(table, wanted)?;
        let set = &covered.kernels;
        let all: Vec<usize> = (0..table.shapes.len()).collect();
        let tree = fit_tree(table, &all, set);
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
                let tree = fit_tree(table, &rest, set);
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
            b_dtype: table.b_dtype.clone(),
            out: table.out.clone(),
            compute: table.compute.clone(),
            layout: table.layout.clone(),
            epilogue: table.epilogue.clone(),
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

    /// Kernels for a shape, best first.
    pub fn order(&self, shape: &Shape) -> &[usize] {
        self.tree.order(shape)
    }
}
