//! The evaluator of one problem: evaluates its candidates one after the other, and decides among the best of them. A GPU
//! ([`GpuEvaluator`](super::gpu_evaluator)) or this host ([`CpuEvaluator`](super::cpu_evaluator)).

use std::sync::atomic::AtomicBool;

use super::candidate::{CompiledCandidate, Evaluated};
use super::error::TuneError;
use super::event::TuneEvent;
use super::finalist::{FinalOptions, FinalRanking, Finalist};
use crate::measure::Race;

/// Evaluates the candidates of one problem.
pub(super) trait Evaluator: Send {
    /// Validates a candidate and measures it, as far as the race needs its time.
    ///
    /// # Errors
    /// Only where nothing can be evaluated any more. A failed candidate is an outcome.
    fn evaluate(
        &mut self,
        candidate: &CompiledCandidate,
        race: &Race,
    ) -> Result<Evaluated, TuneError>;

    /// Ranks correct candidates, given fastest first, and frees all memory. Once `stop` is set, the times so far decide.
    ///
    /// # Errors
    /// As [`Evaluator::evaluate`].
    fn decide(
        self: Box<Self>,
        finalists: Vec<Finalist>,
        options: FinalOptions<'_>,
        stop: &AtomicBool,
        on_event: &mut dyn FnMut(TuneEvent<'_>),
    ) -> Result<FinalRanking, TuneError>;

    /// How often the worker was replaced.
    fn restarts(&self) -> usize;

    /// Frees all memory without a decision.
    ///
    /// # Errors
    /// As [`Evaluator::evaluate`].
    fn release(self: Box<Self>) -> Result<(), TuneError>;
}
