//! A kernel that is measured for many problems, as the defaults of families are for all and winners
//! for those near theirs, and its time for one. Such times tell how far a model of a kernel's cost is
//! off from problem to problem.

use super::{Configuration, Micros};

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Landmark {
    /// The family.
    pub family: String,
    /// The kernel.
    pub configuration: Configuration,
    /// What it is called in a record: its [`Configuration::short_name`].
    pub name: String,
    /// What it took in the search.
    pub time: Micros,
}
