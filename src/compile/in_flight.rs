//! Serialises compiles of the same key: the second thread waits, then finds the result in the cache
//! instead of compiling it again.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Condvar, Mutex, PoisonError};

/// Keys that are being compiled.
#[derive(Debug)]
pub(super) struct InFlight<K> {
    keys: Mutex<HashSet<K>>,
    done: Condvar,
}

/// Exclusive use of a key until dropped.
pub(super) struct InFlightGuard<'q, K: Hash + Eq> {
    in_flight: &'q InFlight<K>,
    key: K,
}

impl<K> Default for InFlight<K> {
    fn default() -> Self {
        Self { keys: Mutex::default(), done: Condvar::new() }
    }
}

impl<K: Hash + Eq + Copy> InFlight<K> {
    /// Waits until no other thread holds this key, then takes it.
    pub(super) fn enter(&self, key: K) -> InFlightGuard<'_, K> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.done.wait_while(keys, |keys| keys.contains(&key));
        free.unwrap_or_else(PoisonError::into_inner).insert(key);
        InFlightGuard { in_flight: self, key }
    }
}

impl<K: Hash + Eq> Drop for InFlightGuard<'_, K> {
    fn drop(&mut self) {
        let mut keys = self.in_flight.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.remove(&self.key);
        self.in_flight.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn equal_keys_are_serialised_and_others_do_not_wait() {
        let in_flight = InFlight::default();
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let other = in_flight.enter(2);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _guard = in_flight.enter(1);
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(2));
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        drop(other);
        assert_eq!(most.into_inner(), 1);
        assert!(in_flight.keys.into_inner().unwrap().is_empty());
    }

    #[test]
    fn a_panic_releases_the_key() {
        let in_flight = InFlight::default();
        let panicked = thread::scope(|scope| {
            let one = scope.spawn(|| {
                let _guard = in_flight.enter("a");
                panic!("on purpose");
            });
            one.join().is_err()
        });
        assert!(panicked);
        drop(in_flight.enter("a"));
    }
}
