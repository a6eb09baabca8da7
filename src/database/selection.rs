//! Filter of records by shape, batch, type, layout and device.

use super::record::Record;
use super::sections::StoredProblem;
use crate::model::{Compute, Dtype, Layout, Problem, Shape};

/// Conditions that a record has to meet; without conditions, every record matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFilter {
    /// Accepted shapes.
    pub shapes: Vec<Shape>,
    /// Accepted storage types.
    pub dtypes: Vec<Dtype>,
    /// Accepted arithmetic contracts.
    pub computes: Vec<Compute>,
    /// Accepted layouts.
    pub layouts: Vec<Layout>,
    /// Accepted numbers of independent products.
    pub batches: Vec<u64>,
    /// Part of the GPU's name, ignoring case.
    pub device_name: Option<String>,
}

impl RecordFilter {
    /// Whether a record meets the conditions.
    pub fn matches(&self, record: &Record) -> bool {
        self.matches_stored(&record.problem, &record.device.name)
    }

    /// Whether a problem on a device meets the conditions.
    pub fn matches_problem(&self, problem: &Problem, device: &str) -> bool {
        self.matches_stored(&StoredProblem::from(problem), device)
    }

    fn matches_stored(&self, problem: &StoredProblem, device: &str) -> bool {
        let StoredProblem { m, n, k, batch, pattern } = problem;
        let shape = Shape { m: *m, n: *n, k: *k };
        let named = |name: &String| device.to_lowercase().contains(name.to_lowercase().as_str());
        one_of(&self.shapes, |known| *known == shape)
            && one_of(&self.dtypes, |known| known.name() == pattern.dtype)
            && one_of(&self.computes, |known| known.name() == pattern.compute)
            && one_of(&self.layouts, |known| known.name() == pattern.layout)
            && one_of(&self.batches, |known| known == batch)
            && self.device_name.as_ref().is_none_or(named)
    }
}

fn one_of<T>(wanted: &[T], is: impl Fn(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(is)
}
