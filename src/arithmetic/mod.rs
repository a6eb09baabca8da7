//! What each compute type promises: the error bound of correct results, with its derivation. Pure.

mod binary32;
mod tensor_cores;

use crate::model::{Compute, Problem};

/// Returns the bound on |D - reference| / (|alpha| |A| |B| + |beta| |C0|) of every element, for uniform values in
/// [-1, 1). 0 for integers, which are exact. The rounding of D to 16 bits comes on top of it.
pub fn error_bound(problem: &Problem) -> f64 {
    let k = problem.shape.k;
    match problem.types.compute {
        Compute::I32 | Compute::I8 => 0.0,
        Compute::F32 | Compute::F32Emulated => binary32::bound(k),
        Compute::F16 | Compute::Bf16 => tensor_cores::bound(k),
        Compute::Tf32 => tensor_cores::tf32_bound(k),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{GemmType, Layout, ProblemPattern, Shape};

    #[test]
    fn integers_are_exact_and_other_bounds_grow_with_k() {
        for types in GemmType::all() {
            let bound = |k| {
                let pattern = ProblemPattern { types, layout: Layout::Nn };
                error_bound(&pattern.problem(Shape { m: 1, n: 1, k }))
            };
            let is_exact = types.accumulator().is_integer();
            let growth = [1, 8, 64, 1000].map(bound);
            assert_eq!(growth.iter().all(|bound| *bound == 0.0), is_exact, "{types}");
            assert!(is_exact || growth.is_sorted_by(|a, b| a < b), "{types}: {growth:?}");
        }
    }
}
