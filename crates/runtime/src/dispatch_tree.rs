//! Decision tree over M, N and K that selects kernels.

use serde::{Deserialize, Serialize};

use crate::model::Shape;

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
