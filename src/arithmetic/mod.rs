//! What each compute type promises: the error bound of correct results, with its derivation. Pure.

mod binary32;
mod tensor_cores;

use crate::model::{Compute, EpilogueOp, Problem};

/// The bounds of an element's error by what is known of the terms of its sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorBounds {
    /// One of both operands is uniform in [-1, 1): the terms have mean zero.
    pub signed: f64,
    /// All terms are positive, of operands that tf32 represents.
    pub positive: f64,
    /// All terms but one are 0.
    pub single: f64,
}

/// Returns the bound on |D - reference| / (|alpha| |A| |B| + |beta| |C0|) of every element, for uniform values in
/// [-1, 1). See [`error_bounds`].
pub fn error_bound(problem: &Problem) -> f64 {
    error_bounds(problem).signed
}

/// Returns the bounds on |D - reference| / (|alpha| |A| |B| + |beta| |C0|) of every element. 0 for integers, which are
/// exact. The rounding of D to 16 bits comes on top of them.
///
/// Operations of the epilogue change the unit as they change the value: a factor multiplies it, a summand adds its
/// magnitude, and an activation multiplies it with its largest slope ([`slope`]). Each rounds its result, and an
/// activation is evaluated with an error of its own.
pub fn error_bounds(problem: &Problem) -> ErrorBounds {
    let k = problem.shape.k;
    let all = |bound| [bound; 3];
    let [signed, positive, single] = match problem.types.compute {
        Compute::I32 | Compute::I8 if problem.types.d.is_integer() => {
            return ErrorBounds { signed: 0.0, positive: 0.0, single: 0.0 };
        }
        Compute::I32 | Compute::I8 => all(binary32::of_single_sums()),
        Compute::F32Emulated => all(binary32::bound(k)),
        Compute::F32 => [binary32::bound(k), binary32::bound(k), binary32::of_single_sums()],
        Compute::F16 | Compute::Bf16 => {
            [tensor_cores::bound(k), tensor_cores::chain(k), binary32::of_single_sums()]
        }
        Compute::Tf32 => {
            let single = tensor_cores::tf32_operands() + binary32::of_single_sums();
            [tensor_cores::tf32_bound(k), tensor_cores::chain(k), single]
        }
    };
    let operations = problem.epilogue.operations();
    let roundings = operations.map(|operation| binary32::UNIT_ROUNDOFF + evaluation(operation));
    let epilogue = roundings.sum::<f64>();
    let [signed, positive, single] = [signed, positive, single].map(|bound| bound + epilogue);
    ErrorBounds { signed, positive, single }
}

/// The bound on |D - reference| / |reference before the activations| for small integers, whose products, sums,
/// scales and summands are exact.
pub fn error_bound_of_small_integers(problem: &Problem) -> f64 {
    let operations = problem.epilogue.operations();
    let mut bounds = operations.map(evaluation).filter(|bound| *bound > 0.0).peekable();
    // What follows an activation is rounded.
    let first = bounds.peek().map_or(0.0, |_| 8.0 * binary32::UNIT_ROUNDOFF);
    bounds.sum::<f64>() + first
}

/// The error of an activation's evaluation in binary32, relative to its operand.
fn evaluation(operation: EpilogueOp) -> f64 {
    if slope(operation) == 1.0 { 0.0 } else { ACTIVATION }
}

/// Error of an activation in binary32, relative to its operand: some units in the last place of an exponential
/// function. `tanh.approx`, with 2^-11, is beyond it.
const ACTIVATION: f64 = 1.0 / (1u64 << 18) as f64;

/// Whether an operation is an activation. Kernels and libraries disagree on activations of infinities and NaN.
pub fn is_activation(operation: EpilogueOp) -> bool {
    evaluation(operation) > 0.0 || operation == EpilogueOp::Relu
}

/// The largest slope of an operation on a value, rounded up; 1 for those that are linear in it.
pub fn slope(operation: EpilogueOp) -> f64 {
    match operation {
        EpilogueOp::Gelu | EpilogueOp::GeluTanh => 1.13,
        EpilogueOp::Silu => 1.1,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Epilogue, GemmType, Layout, ProblemPattern, Shape};

    #[test]
    fn integers_are_exact_and_other_bounds_grow_with_k() {
        for types in GemmType::all() {
            let bound = |k| {
                let pattern =
                    ProblemPattern { types, layout: Layout::Nn, epilogue: Epilogue::NONE };
                error_bound(&pattern.problem(Shape { m: 1, n: 1, k }))
            };
            let is_exact = types.d.is_integer();
            let growth = [1, 8, 64, 1000].map(bound);
            assert_eq!(growth.iter().all(|bound| *bound == 0.0), is_exact, "{types}");
            let is_sum = types.accumulator().is_integer();
            assert!(is_sum || growth.is_sorted_by(|a, b| a < b), "{types}: {growth:?}");
            let pattern = ProblemPattern { types, layout: Layout::Nn, epilogue: Epilogue::NONE };
            for k in [1, 8, 1000, 1 << 20] {
                let bounds = error_bounds(&pattern.problem(Shape { m: 1, n: 1, k }));
                let ErrorBounds { signed, positive, single } = bounds;
                let rounds_operands = types.compute == Compute::Tf32;
                assert!(rounds_operands || signed.max(single) <= positive, "{types}: {bounds:?}");
            }
        }
    }
}
