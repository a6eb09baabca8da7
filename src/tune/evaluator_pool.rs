//! Benches that evaluate at the same time, a thread for each, in which it is made ready too: the first
//! candidates compile meanwhile. Takes orders and gives reports; what to evaluate, and what a report means, is
//! the search's business.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Scope, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::TuneError;
use super::evaluator::{Candidate, Evaluated, Evaluator};
use crate::measure::Race;

/// What to evaluate, with what it is known by.
struct Order<T> {
    tag: T,
    candidate: Candidate,
    race: Race,
}

/// What became of an order.
pub(super) struct Report<T> {
    pub(super) tag: T,
    pub(super) candidate: Candidate,
    pub(super) evaluated: Result<Evaluated, TuneError>,
    /// Which evaluator is free again.
    evaluator: usize,
}

/// Makes a evaluator ready.
pub(super) type Maker<'b> =
    Box<dyn FnOnce() -> Result<Box<dyn Evaluator + 'b>, TuneError> + Send + 'b>;

/// Benches at work.
pub(super) struct EvaluatorPool<'scope, 'b, T> {
    orders: Vec<Sender<Order<T>>>,
    reports: Receiver<Report<T>>,
    idle: Vec<usize>,
    threads: Vec<ScopedJoinHandle<'scope, Result<Box<dyn Evaluator + 'b>, TuneError>>>,
}

impl<'scope, 'b: 'scope, T: Send + 'scope> EvaluatorPool<'scope, 'b, T> {
    /// Puts every evaluator into a thread, which ends with the pool_of_evaluators. A evaluator that cannot be made says so in the
    /// place of its first report.
    pub(super) fn start(scope: &'scope Scope<'scope, '_>, makers: Vec<Maker<'b>>) -> Self {
        let (sender, reports) = unbounded();
        let (mut orders, mut threads) = (Vec::new(), Vec::new());
        for (number, make) in makers.into_iter().enumerate() {
            let (order, incoming) = bounded::<Order<T>>(1);
            let sender = sender.clone();
            threads.push(scope.spawn(move || {
                let mut made = caught(make);
                for Order { tag, candidate, race } in incoming {
                    let evaluated = match &mut made {
                        Ok(evaluator) => caught(|| evaluator.evaluate(&candidate, &race)),
                        // Whoever is told so does not ask again.
                        Err(error) => Err(mem::replace(error, TuneError::Panicked)),
                    };
                    // Nobody listens once the search has failed.
                    let _ = sender.send(Report { tag, candidate, evaluated, evaluator: number });
                }
                made
            }));
            orders.push(order);
        }
        // The first evaluator also decides: it is taken first.
        let idle = (0..orders.len()).rev().collect();
        Self { orders, reports, idle, threads }
    }
}

/// A thread that ended would leave the search waiting for its report.
fn caught<R>(work: impl FnOnce() -> Result<R, TuneError>) -> Result<R, TuneError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(TuneError::Panicked))
}

impl<'b, T> EvaluatorPool<'_, 'b, T> {
    /// The evaluators, none of which has anything to do any more.
    ///
    /// # Errors
    /// Of one that could not be made and was not asked for anything.
    pub(super) fn end(self) -> Result<Vec<Box<dyn Evaluator + 'b>>, TuneError> {
        drop(self.orders);
        let joined = self.threads.into_iter();
        joined.map(|thread| thread.join().unwrap_or(Err(TuneError::Panicked))).collect()
    }

    /// Whether a evaluator has nothing to do.
    pub(super) fn is_free(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Whether any has something to do.
    pub(super) fn is_busy(&self) -> bool {
        self.idle.len() < self.orders.len()
    }

    /// Gives a candidate to a free evaluator, with the race as it stands; nothing if there is none.
    pub(super) fn order(&mut self, tag: T, candidate: Candidate, race: &Race) {
        let Some(evaluator) = self.idle.pop() else { return };
        // The thread listens as long as the pool_of_evaluators is there.
        let _ = self.orders[evaluator].send(Order { tag, candidate, race: race.clone() });
    }

    /// Where reports come; each goes through [`EvaluatorPool::received`].
    pub(super) fn reports(&self) -> &Receiver<Report<T>> {
        &self.reports
    }

    /// Notes which evaluator is free again.
    pub(super) fn received(&mut self, report: &Report<T>) {
        self.idle.push(report.evaluator);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::compile::Compiled;
    use crate::compile::compiler::ImageOrigin;
    use crate::model::{LaunchPlan, Micros, Outcome};
    use crate::tune::Event;
    use crate::tune::evaluator::{Decided, Kept};
    use crate::tune::sanitize::Sanitizer;

    /// A evaluator that finds that nothing compiles, or panics.
    struct Refusing {
        panics: bool,
    }

    impl Evaluator for Refusing {
        fn evaluate(&mut self, _: &Candidate, _: &Race) -> Result<Evaluated, TuneError> {
            assert!(!self.panics, "as planned");
            Ok(Outcome::Compile { log: "no".to_owned() }.into())
        }

        fn decide(
            self: Box<Self>,
            _: Vec<Kept>,
            _: Option<&Sanitizer>,
            _: &mut dyn FnMut(Event<'_>),
        ) -> Result<Decided, TuneError> {
            Ok(Decided::default())
        }

        fn restarts(&self) -> usize {
            0
        }

        fn release(self: Box<Self>) -> Result<(), TuneError> {
            Ok(())
        }
    }

    fn candidate() -> Candidate {
        let compiled = Compiled {
            image: Arc::from([]),
            log: String::new(),
            resources: indexmap::IndexMap::new(),
            origin: ImageOrigin::Cache,
            elapsed: Duration::ZERO,
        };
        Candidate { plan: LaunchPlan::default(), compiled }
    }

    fn makers(well: bool) -> Vec<Maker<'static>> {
        let make = move || -> Result<Box<dyn Evaluator>, TuneError> {
            thread::sleep(Duration::from_millis(20));
            if well { Ok(Box::new(Refusing { panics: false })) } else { Err(TuneError::Panicked) }
        };
        vec![Box::new(make)]
    }

    #[test]
    fn what_is_ordered_before_a_bench_is_ready_waits_for_it() {
        for well in [true, false] {
            thread::scope(|scope| {
                let mut pool_of_evaluators = EvaluatorPool::start(scope, makers(well));
                assert!(pool_of_evaluators.is_free());
                pool_of_evaluators.order("first", candidate(), &Race::new(1, Micros(0.0)));
                assert!(pool_of_evaluators.is_busy());
                let report = pool_of_evaluators.reports().recv().unwrap();
                pool_of_evaluators.received(&report);
                assert_eq!((report.tag, report.evaluated.is_ok()), ("first", well));
                assert!(!pool_of_evaluators.is_busy());
                assert_eq!(
                    pool_of_evaluators.end().is_ok_and(|evaluators| evaluators.len() == 1),
                    well
                );
            });
        }
    }

    #[test]
    fn a_panic_is_reported() {
        let panicking: Maker<'static> = Box::new(|| Ok(Box::new(Refusing { panics: true })));
        let unmade: Maker<'static> = Box::new(|| panic!("as planned"));
        for make in [panicking, unmade] {
            thread::scope(|scope| {
                let mut pool_of_evaluators = EvaluatorPool::start(scope, vec![make]);
                pool_of_evaluators.order((), candidate(), &Race::new(1, Micros(0.0)));
                let report =
                    pool_of_evaluators.reports().recv_timeout(Duration::from_secs(20)).unwrap();
                assert!(matches!(report.evaluated, Err(TuneError::Panicked)));
            });
        }
    }

    #[test]
    fn a_bench_that_cannot_be_made_says_so_in_the_end_at_the_latest() {
        for well in [true, false] {
            thread::scope(|scope| {
                assert_eq!(EvaluatorPool::<()>::start(scope, makers(well)).end().is_ok(), well);
            });
        }
    }
}
