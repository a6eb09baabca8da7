//! Evaluator pool: evaluators that work at the same time, each on a thread of its own. An evaluator is prepared on its
//! thread while the first candidates compile. The pool takes requests and gives reports; the search decides what to
//! evaluate.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Scope, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::candidate::{CompiledCandidate, Evaluated};
use super::error::TuneError;
use super::evaluator::Evaluator;
use crate::measure::Race;

/// A candidate to evaluate, with the tag that its report has.
struct EvaluationRequest<T> {
    tag: T,
    candidate: CompiledCandidate,
    race: Race,
}

/// The result of a request.
pub(super) struct EvaluationReport<T> {
    pub(super) tag: T,
    pub(super) candidate: CompiledCandidate,
    pub(super) evaluated: Result<Evaluated, TuneError>,
    /// The evaluator that is free again.
    evaluator: usize,
}

/// Prepares an evaluator.
pub(super) type EvaluatorMaker<'b> =
    Box<dyn FnOnce() -> Result<Box<dyn Evaluator + 'b>, TuneError> + Send + 'b>;

/// Evaluators on their threads.
pub(super) struct EvaluatorPool<'scope, 'b, T> {
    requests: Vec<Sender<EvaluationRequest<T>>>,
    reports: Receiver<EvaluationReport<T>>,
    idle: Vec<usize>,
    threads: Vec<ScopedJoinHandle<'scope, Result<Box<dyn Evaluator + 'b>, TuneError>>>,
}

impl<'scope, 'b: 'scope, T: Send + 'scope> EvaluatorPool<'scope, 'b, T> {
    /// Starts a thread for each evaluator; the threads end with the pool. An evaluator that cannot be prepared fails its
    /// first request.
    pub(super) fn start(scope: &'scope Scope<'scope, '_>, makers: Vec<EvaluatorMaker<'b>>) -> Self {
        let (sender, reports) = unbounded();
        let (mut requests, mut threads) = (Vec::new(), Vec::new());
        for (number, make) in makers.into_iter().enumerate() {
            let (request, incoming) = bounded::<EvaluationRequest<T>>(1);
            let sender = sender.clone();
            threads.push(scope.spawn(move || {
                let mut made = caught(make);
                for EvaluationRequest { tag, candidate, race } in incoming {
                    let evaluated = match &mut made {
                        Ok(evaluator) => caught(|| evaluator.evaluate(&candidate, &race)),
                        // The search ends with the first error.
                        Err(error) => Err(mem::replace(error, TuneError::Panicked)),
                    };
                    // The receiver is gone once the search has failed.
                    let _ = sender.send(EvaluationReport {
                        tag,
                        candidate,
                        evaluated,
                        evaluator: number,
                    });
                }
                made
            }));
            requests.push(request);
        }
        // The first evaluator also decides, and is taken first.
        let idle = (0..requests.len()).rev().collect();
        Self { requests, reports, idle, threads }
    }
}

/// Turns a panic into an error: without a report the search would wait for ever.
fn caught<R>(work: impl FnOnce() -> Result<R, TuneError>) -> Result<R, TuneError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(TuneError::Panicked))
}

impl<'b, T> EvaluatorPool<'_, 'b, T> {
    /// Ends the threads and gives the idle evaluators.
    ///
    /// # Errors
    /// That of an evaluator that could not be prepared and had no request.
    pub(super) fn end(self) -> Result<Vec<Box<dyn Evaluator + 'b>>, TuneError> {
        drop(self.requests);
        let joined = self.threads.into_iter();
        joined.map(|thread| thread.join().unwrap_or(Err(TuneError::Panicked))).collect()
    }

    /// Whether an evaluator is idle.
    pub(super) fn is_free(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Whether an evaluator is busy.
    pub(super) fn is_busy(&self) -> bool {
        self.idle.len() < self.requests.len()
    }

    /// Gives a candidate to an idle evaluator, with the present race. Does nothing where none is idle.
    pub(super) fn request(&mut self, tag: T, candidate: CompiledCandidate, race: &Race) {
        let Some(evaluator) = self.idle.pop() else { return };
        // The thread receives as long as the pool is there.
        let _ =
            self.requests[evaluator].send(EvaluationRequest { tag, candidate, race: race.clone() });
    }

    /// The reports. Each must be given to [`EvaluatorPool::received`].
    pub(super) fn reports(&self) -> &Receiver<EvaluationReport<T>> {
        &self.reports
    }

    /// Marks the evaluator of a report as idle.
    pub(super) fn received(&mut self, report: &EvaluationReport<T>) {
        self.idle.push(report.evaluator);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::compile::Compiled;
    use crate::compile::compiler::ImageOrigin;
    use crate::model::{LaunchPlan, Micros, Outcome};
    use crate::tune::TuneEvent;
    use crate::tune::finalist::{FinalOptions, FinalRanking, Finalist};

    /// An evaluator that refuses every candidate, or panics.
    struct Refusing {
        panics: bool,
    }

    impl Evaluator for Refusing {
        fn evaluate(&mut self, _: &CompiledCandidate, _: &Race) -> Result<Evaluated, TuneError> {
            assert!(!self.panics, "as planned");
            Ok(Outcome::Compile { log: "no".to_owned() }.into())
        }

        fn decide(
            self: Box<Self>,
            _: Vec<Finalist>,
            _: FinalOptions<'_>,
            _: &AtomicBool,
            _: &mut dyn FnMut(TuneEvent<'_>),
        ) -> Result<FinalRanking, TuneError> {
            Ok(FinalRanking::default())
        }

        fn restarts(&self) -> usize {
            0
        }

        fn release(self: Box<Self>) -> Result<(), TuneError> {
            Ok(())
        }
    }

    fn candidate() -> CompiledCandidate {
        let compiled = Compiled {
            image: Arc::from([]),
            log: String::new(),
            resources: indexmap::IndexMap::new(),
            origin: ImageOrigin::Cache,
            elapsed: Duration::ZERO,
        };
        CompiledCandidate { plan: LaunchPlan::default(), compiled, predicted: None }
    }

    fn makers(well: bool) -> Vec<EvaluatorMaker<'static>> {
        let make = move || -> Result<Box<dyn Evaluator>, TuneError> {
            thread::sleep(Duration::from_millis(20));
            if well { Ok(Box::new(Refusing { panics: false })) } else { Err(TuneError::Panicked) }
        };
        vec![Box::new(make)]
    }

    #[test]
    fn a_request_waits_until_its_evaluator_is_prepared() {
        for well in [true, false] {
            thread::scope(|scope| {
                let mut evaluators = EvaluatorPool::start(scope, makers(well));
                assert!(evaluators.is_free());
                evaluators.request("first", candidate(), &Race::new(1, Micros(0.0)));
                assert!(evaluators.is_busy());
                let report = evaluators.reports().recv().unwrap();
                evaluators.received(&report);
                assert_eq!((report.tag, report.evaluated.is_ok()), ("first", well));
                assert!(!evaluators.is_busy());
                assert_eq!(evaluators.end().is_ok_and(|evaluators| evaluators.len() == 1), well);
            });
        }
    }

    #[test]
    fn a_panic_is_reported() {
        let panicking: EvaluatorMaker<'static> =
            Box::new(|| Ok(Box::new(Refusing { panics: true })));
        let unmade: EvaluatorMaker<'static> = Box::new(|| panic!("as planned"));
        for make in [panicking, unmade] {
            thread::scope(|scope| {
                let mut evaluators = EvaluatorPool::start(scope, vec![make]);
                evaluators.request((), candidate(), &Race::new(1, Micros(0.0)));
                let report = evaluators.reports().recv_timeout(Duration::from_secs(20)).unwrap();
                assert!(matches!(report.evaluated, Err(TuneError::Panicked)));
            });
        }
    }

    #[test]
    fn an_evaluator_that_cannot_be_prepared_fails_at_the_end_at_the_latest() {
        for well in [true, false] {
            thread::scope(|scope| {
                assert_eq!(EvaluatorPool::<()>::start(scope, makers(well)).end().is_ok(), well);
            });
        }
    }
}
