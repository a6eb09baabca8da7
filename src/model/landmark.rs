//! A default of a family, measured for a problem. As this is done for every problem that is tuned,
//! such times tell how far a model of a kernel's cost is off from problem to problem.

use super::{Configuration, Micros};

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Landmark {
    /// The family.
    pub family: String,
    /// The default.
    pub configuration: Configuration,
    /// What it took in the search.
    pub time: Micros,
}

impl Landmark {
    /// What it is called in a record.
    pub fn name(&self) -> String {
        self.configuration.short_name(&self.family)
    }
}
