//! Which records a person or program asks to see.

use super::record::Record;
use super::sections::StoredProblem;
use crate::model::{Dtype, Layout, Problem, Shape};

/// Records that meet every condition that is set; without one, all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFilter {
    /// M, N and K, one of these.
    pub shapes: Vec<Shape>,
    /// How elements are stored, one of these.
    pub dtypes: Vec<Dtype>,
    /// How operands are stored, one of these.
    pub layouts: Vec<Layout>,
    /// Part of the GPU's name, whether letters are large or small.
    pub device_name: Option<String>,
}

impl RecordFilter {
    /// Whether a record meets the conditions.
    pub fn takes(&self, record: &Record) -> bool {
        let StoredProblem { m, n, k, dtype, layout, .. } = &record.problem;
        let shape = Shape { m: *m, n: *n, k: *k };
        self.takes_words(shape, (dtype, layout), &record.device.name)
    }

    /// Whether something of this problem and device meets them.
    pub fn takes_problem(&self, problem: &Problem, device: &str) -> bool {
        let words = (problem.dtype.name(), problem.layout.name());
        self.takes_words(problem.shape, words, device)
    }

    fn takes_words(&self, shape: Shape, (dtype, layout): (&str, &str), device: &str) -> bool {
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
