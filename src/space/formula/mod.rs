//! Formulas of a kernel for all problems that it serves. `solve` makes them of a family's expressions; what a formula is,
//! and how it is read, evaluated and written, is in the crate that reads bundles.

mod solve;
#[cfg(test)]
mod tests;

pub use gemm_tune_runtime::formula::{
    Binary, Bound, BoundLaunch, BoundMap, BoundPacking, EvaluationFault, FaultKind, Formula,
    Language, NoFormula, OPEN, ReadError, Slot, Term, TermKind, Unary, equal, open_values,
    placed_values, read,
};
pub use solve::Solver;
