//! Kernels that a search starts with.

use super::Configuration;

/// A configuration that won for some problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    /// Its family.
    pub family: String,
    /// Its values.
    pub configuration: Configuration,
}

/// Kernels that won before a problem is tuned. Those that are not legal for it are skipped.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WarmStart {
    /// The record of this very problem. It is evaluated in any case and takes part in the final round.
    pub record: Option<Hint>,
    /// Winners of other problems, the most similar first. They are evaluated right after the families' defaults.
    pub others: Vec<Hint>,
}
