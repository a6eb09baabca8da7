//! Deadlines for work on a device, after which its worker is replaced.

use crate::model::{Micros, Problem};

/// Time that a candidate has while no best time is known: a start-up allowance, and the time of a kernel with 10 GFLOP/s,
/// slower than the worst kernel of any GPU.
const ALLOWANCE_SECONDS: f64 = 10.0;
const SLOWEST_RATE: f64 = 1e10;

/// Time that a candidate has once a best time is known. A driver reports a fault only after seconds, and a kernel 500
/// times slower than the best is not worth waiting for.
const KNOWN_ALLOWANCE_SECONDS: f64 = 5.0;
const HOPELESS_FACTOR: f64 = 500.0;

/// Time for making operands and references, besides the time of a slow kernel.
const PREPARE_SECONDS: f64 = 60.0;

/// The deadline for making a device ready for a problem.
pub(super) fn prepare_seconds(problem: &Problem) -> f64 {
    PREPARE_SECONDS + patience_seconds(problem)
}

/// The longest time of a kernel for a problem, while no time is known.
pub(super) fn patience_seconds(problem: &Problem) -> f64 {
    problem.operations() / SLOWEST_RATE
}

/// The deadline of a candidate.
pub(super) fn deadline_seconds(problem: &Problem, best: Option<Micros>) -> f64 {
    match best {
        Some(best) => KNOWN_ALLOWANCE_SECONDS + HOPELESS_FACTOR * best.0 / 1e6,
        None => ALLOWANCE_SECONDS + patience_seconds(problem),
    }
}
