//! Which records a person or program asks to see.

use super::record::Record;
use crate::model::{Dtype, Layout, Shape};

/// Records that meet every condition that is set; without one, all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// M, N and K, one of these.
    pub shapes: Vec<Shape>,
    /// How elements are stored, one of these.
    pub dtypes: Vec<Dtype>,
    /// How operands are stored, one of these.
    pub layouts: Vec<Layout>,
    /// Part of the GPU's name, whether letters are large or small.
    pub device_name: Option<String>,
}

impl Selection {
    /// Whether a record meets the conditions.
    pub fn takes(&self, record: &Record) -> bool {
        let problem = &record.problem;
        let shape = Shape { m: problem.m, n: problem.n, k: problem.k };
        let named = |name: &String| {
            record.device.name.to_lowercase().contains(name.to_lowercase().as_str())
        };
        (self.shapes.is_empty() || self.shapes.contains(&shape))
            && one_of(&self.dtypes, |dtype| dtype.name() == problem.dtype)
            && one_of(&self.layouts, |layout| layout.name() == problem.layout)
            && self.device_name.as_ref().is_none_or(named)
    }
}

fn one_of<T>(wanted: &[T], is: impl Fn(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(is)
}
