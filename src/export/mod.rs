//! Winners and evaluated configurations in the forms that other programs read, one file here for
//! each. Pure: values in, texts out; who writes them, and where, is not known here.

mod csv;
mod json;
mod kernel_tuner;
mod space;
mod t4;
#[cfg(test)]
mod tests;
mod wisdom;

pub use self::csv::csv;
pub use json::json;
pub use kernel_tuner::kernel_tuner;
pub use space::{EvaluatedSpace, SpaceError};
pub use t4::t4;
pub use wisdom::wisdom;
