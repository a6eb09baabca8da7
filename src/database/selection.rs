//! Filter of records by shape, type, layout and device.

use super::record::Record;
use super::sections::StoredProblem;
use crate::model::{Dtype, Layout, Problem, Shape};

/// Conditions that a record has to meet; without conditions, every record matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFilter {
    /// Accepted shapes.
    pub shapes: Vec<Shape>,
    /// Accepted storage types.
    pub dtypes: Vec<Dtype>,
    /// Accepted layouts.
    pub layouts: Vec<Layout>,
    /// Part of the GPU's name, ignoring case.
    pub device_name: Option<String>,
}

impl RecordFilter {
    /// Whether a record meets the conditions.
    pub fn matches(&self, record: &Record) -> bool {
        let StoredProblem { m, n, k, pattern, .. } = &record.problem;
        let shape = Shape { m: *m, n: *n, k: *k };
        self.matches_words(shape, (&pattern.dtype, &pattern.layout), &record.device.name)
    }

    /// Whether a problem on a device meets the conditions.
    pub fn matches_problem(&self, problem: &Problem, device: &str) -> bool {
        let words = (problem.types.a.name(), problem.layout.name());
        self.matches_words(problem.shape, words, device)
    }

    fn matches_words(&self, shape: Shape, (dtype, layout): (&str, &str), device: &str) -> bool {
        let named = |name: &String| device.to_lowercase().contains(name.to_lowercase().as_str());
        one_of(&self.shapes, |known| *known == shape)
            && one_of(&self.dtypes, |known| known.name() == dtype)
            && one_of(&self.layouts, |known| known.name() == layout)
            && self.device_name.as_ref().is_none_or(named)
    }
}

fn one_of<T>(wanted: &[T], is: impl Fn(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(is)
}
