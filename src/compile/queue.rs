//! One after the other where two threads want the same: the second finds in the cache what the first
//! compiled, and does not compile it again.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Condvar, Mutex, PoisonError};

/// What is under way.
#[derive(Debug)]
pub(super) struct Queue<K> {
    under_way: Mutex<HashSet<K>>,
    done: Condvar,
}

/// Somebody's turn, until it is dropped.
pub(super) struct Turn<'q, K: Hash + Eq> {
    queue: &'q Queue<K>,
    key: K,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self { under_way: Mutex::default(), done: Condvar::new() }
    }
}

impl<K: Hash + Eq + Copy> Queue<K> {
    /// Waits until nobody else has a turn with this key.
    pub(super) fn turn(&self, key: K) -> Turn<'_, K> {
        let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.done.wait_while(under_way, |under_way| under_way.contains(&key));
        free.unwrap_or_else(PoisonError::into_inner).insert(key);
        Turn { queue: self, key }
    }
}

impl<K: Hash + Eq> Drop for Turn<'_, K> {
    fn drop(&mut self) {
        let mut under_way = self.queue.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.remove(&self.key);
        self.queue.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn turns_with_one_key_follow_each_other_and_others_do_not_wait() {
        let queue = Queue::default();
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let other = queue.turn(2);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _turn = queue.turn(1);
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(2));
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        drop(other);
        assert_eq!(most.into_inner(), 1);
        assert!(queue.under_way.into_inner().unwrap().is_empty());
    }

    #[test]
    fn who_panics_leaves() {
        let queue = Queue::default();
        let panicked = thread::scope(|scope| {
            let one = scope.spawn(|| {
                let _turn = queue.turn("a");
                panic!("on purpose");
            });
            one.join().is_err()
        });
        assert!(panicked);
        drop(queue.turn("a"));
    }
}
