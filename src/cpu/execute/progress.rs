//! Progress of a launch: which clusters have begun, which still run, and which failed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cpu::checks::Violation;

/// How far the clusters of a launch are, by their numbers in the order in which they begin.
#[derive(Debug)]
pub(super) struct LaunchProgress {
    next: AtomicUsize,
    running: Mutex<BTreeSet<usize>>,
    /// The first that did something wrong.
    first_wrong: AtomicUsize,
}

impl Default for LaunchProgress {
    fn default() -> Self {
        Self {
            next: AtomicUsize::new(0),
            running: Mutex::default(),
            first_wrong: AtomicUsize::new(usize::MAX),
        }
    }
}

impl LaunchProgress {
    /// Nothing that holds the lock panics; were it so, a set of numbers is still one.
    fn running(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cluster to begin now, of so many.
    pub(super) fn begin(&self, count: usize) -> Option<usize> {
        let mut running = self.running();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let begins = number < count && !self.is_over(number);
        (begins && running.insert(number)).then_some(number)
    }

    pub(super) fn end(&self, number: usize, outcome: &Result<(), Box<Violation>>) {
        self.running().remove(&number);
        if outcome.is_err() {
            self.first_wrong.fetch_min(number, Ordering::Relaxed);
        }
    }

    /// Whether a cluster runs that began before this one.
    pub(super) fn runs_before(&self, number: usize) -> bool {
        self.running().first().is_some_and(|first| *first < number)
    }

    /// Whether a launch ends without this cluster: one before it did something wrong.
    pub(super) fn is_over(&self, number: usize) -> bool {
        self.first_wrong.load(Ordering::Relaxed) < number
    }
}
