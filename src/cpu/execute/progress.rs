//! Progress of a launch: which clusters have begun, which still run, and which failed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cpu::checks::Violation;

/// Progress of the clusters of a launch, by their numbers in the order of execution.
#[derive(Debug)]
pub(super) struct LaunchProgress {
    next: AtomicUsize,
    running: Mutex<BTreeSet<usize>>,
    /// Lowest number of a cluster with a violation.
    first_failed: AtomicUsize,
}

impl Default for LaunchProgress {
    fn default() -> Self {
        Self {
            next: AtomicUsize::new(0),
            running: Mutex::default(),
            first_failed: AtomicUsize::new(usize::MAX),
        }
    }
}

impl LaunchProgress {
    /// Nothing panics under this lock, and the set stays valid, so poisoning is harmless.
    fn running(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the next cluster to begin, of `count`.
    pub(super) fn begin(&self, count: usize) -> Option<usize> {
        let mut running = self.running();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let begins = number < count && !self.is_over(number);
        (begins && running.insert(number)).then_some(number)
    }

    pub(super) fn end(&self, number: usize, outcome: &Result<(), Box<Violation>>) {
        self.running().remove(&number);
        if outcome.is_err() {
            self.first_failed.fetch_min(number, Ordering::Relaxed);
        }
    }

    /// Whether an earlier cluster is still running.
    pub(super) fn runs_before(&self, number: usize) -> bool {
        self.running().first().is_some_and(|first| *first < number)
    }

    /// Whether the launch has failed in an earlier cluster.
    pub(super) fn is_over(&self, number: usize) -> bool {
        self.first_failed.load(Ordering::Relaxed) < number
    }
}
