//! What an export leaves out: records and kernels that cannot be exported, each with its reason.

use std::cmp::Reverse;

use indexmap::IndexMap;

/// Kernels that a format has no form for: the place of each, and why.
pub type UnfitKernels = Vec<(usize, String)>;

/// A record or kernel that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The key of the record, or the name of the kernel.
    pub name: String,
    /// Why, as in `needs compute capability 9.0 (sm_89)`.
    pub why: String,
}

impl LeftOut {
    /// Of a name, for a reason.
    pub fn new(name: impl Into<String>, why: impl ToString) -> Self {
        Self { name: name.into(), why: why.to_string() }
    }
}

/// How many are left out for each reason, most first.
pub fn reasons(left_out: &[LeftOut]) -> Vec<(usize, &str)> {
    let mut counts: IndexMap<&str, usize> = IndexMap::new();
    for one in left_out {
        *counts.entry(one.why.as_str()).or_default() += 1;
    }
    let mut counts: Vec<(usize, &str)> =
        counts.into_iter().map(|(why, count)| (count, why)).collect();
    counts.sort_by_key(|(count, _)| Reverse(*count));
    counts
}
