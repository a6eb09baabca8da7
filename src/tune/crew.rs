//! Benches that evaluate at the same time, a thread for each. Takes orders and gives reports; what
//! to evaluate, and what a report means, is the search's business.

use std::thread::Scope;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::TuneError;
use super::bench::{Bench, Candidate, Evaluated};
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
    /// Which bench is free again.
    bench: usize,
}

/// Benches at work.
pub(super) struct Crew<T> {
    orders: Vec<Sender<Order<T>>>,
    reports: Receiver<Report<T>>,
    idle: Vec<usize>,
}

impl<T: Send> Crew<T> {
    /// Puts every bench into a thread, which ends after the crew.
    pub(super) fn start<'scope, 'env, 'bench: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        benches: &'scope mut [Box<dyn Bench + 'bench>],
    ) -> Self
    where
        T: 'scope,
    {
        let (sender, reports) = unbounded();
        let mut orders = Vec::new();
        for (number, bench) in benches.iter_mut().enumerate() {
            let (order, incoming) = bounded::<Order<T>>(1);
            let sender = sender.clone();
            scope.spawn(move || {
                for Order { tag, candidate, race } in incoming {
                    let evaluated = bench.evaluate(&candidate, &race);
                    // Nobody listens once the search has failed.
                    let _ = sender.send(Report { tag, candidate, evaluated, bench: number });
                }
            });
            orders.push(order);
        }
        // The first bench also decides: it is taken first.
        let idle = (0..orders.len()).rev().collect();
        Self { orders, reports, idle }
    }

    /// Whether a bench has nothing to do.
    pub(super) fn is_free(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Whether any has something to do.
    pub(super) fn is_busy(&self) -> bool {
        self.idle.len() < self.orders.len()
    }

    /// Gives a candidate to a free bench, with the race as it stands; nothing if there is none.
    pub(super) fn order(&mut self, tag: T, candidate: Candidate, race: &Race) {
        let Some(bench) = self.idle.pop() else { return };
        // The thread listens as long as the crew is there.
        let _ = self.orders[bench].send(Order { tag, candidate, race: race.clone() });
    }

    /// Where reports come; each goes through [`Crew::received`].
    pub(super) fn reports(&self) -> &Receiver<Report<T>> {
        &self.reports
    }

    /// Notes which bench is free again.
    pub(super) fn received(&mut self, report: &Report<T>) {
        self.idle.push(report.bench);
    }
}
