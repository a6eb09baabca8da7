//! GPU lease: gives one worker at a time exclusive use of a GPU, so that measurements never overlap, and reserves its
//! memory. While the candidates of one problem compile, those of another are measured.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Share of a device's memory that several problems may reserve together.
const RESERVABLE: f64 = 0.8;

/// Longest time for which a final yields the GPU to short requests.
const LONGEST_YIELD: Duration = Duration::from_secs(3);

/// The use of one GPU and its memory.
#[derive(Default)]
pub(super) struct GpuLease {
    queue: Mutex<LeaseQueue>,
    passed_on: Condvar,
    reserved: Mutex<u64>,
    returned: Condvar,
}

/// How long the GPU is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeasePriority {
    /// Milliseconds, by a search whose next candidates depend on the outcome.
    Short,
    /// About a second, by a final.
    Long,
}

/// The holder of the GPU and the waiting requests.
#[derive(Default)]
struct LeaseQueue {
    tickets: u64,
    holder: Option<u64>,
    short: VecDeque<u64>,
    long: VecDeque<(u64, Instant)>,
}

impl LeaseQueue {
    /// Gives the GPU to the next request: in order of arrival, short ones first, unless a long one has waited too long.
    fn pass_on(&mut self) {
        let is_overdue =
            self.long.front().is_some_and(|(_, since)| since.elapsed() >= LONGEST_YIELD);
        let short = if is_overdue { None } else { self.short.pop_front() };
        self.holder = short.or_else(|| self.long.pop_front().map(|(ticket, _)| ticket));
    }
}

/// Exclusive use of the GPU until it is dropped.
pub(super) struct LeaseGuard<'s>(&'s GpuLease);

impl Drop for LeaseGuard<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().pass_on();
        self.0.passed_on.notify_all();
    }
}

impl GpuLease {
    /// Waits for the GPU and holds it.
    pub(super) fn hold(&self, priority: LeasePriority) -> LeaseGuard<'_> {
        let mut queue = self.queue.lock();
        let ticket = queue.tickets;
        queue.tickets += 1;
        match priority {
            LeasePriority::Short => queue.short.push_back(ticket),
            LeasePriority::Long => queue.long.push_back((ticket, Instant::now())),
        }
        if queue.holder.is_none() {
            queue.pass_on();
        }
        self.passed_on.wait_while(&mut queue, |queue| queue.holder != Some(ticket));
        LeaseGuard(self)
    }

    /// Bytes that are reserved now.
    pub(super) fn reserved(&self) -> u64 {
        *self.reserved.lock()
    }

    /// Waits until so many bytes of a device's `memory` are free, and reserves them. A request for more than there is
    /// gets the device alone; the device then refuses it.
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64, memory: u64) -> MemoryReservation {
        let most = (RESERVABLE * memory as f64) as u64;
        let mut reserved = self.reserved.lock();
        self.returned.wait_while(&mut reserved, |reserved| {
            *reserved > 0 && reserved.saturating_add(bytes) > most
        });
        *reserved = reserved.saturating_add(bytes);
        MemoryReservation { bytes, lease: Arc::clone(self) }
    }
}

/// Reserved memory, returned when it is dropped.
pub(super) struct MemoryReservation {
    bytes: u64,
    lease: Arc<GpuLease>,
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        let mut reserved = self.lease.reserved.lock();
        *reserved = reserved.saturating_sub(self.bytes);
        self.lease.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_reservation_waits_until_memory_is_returned() {
        let lease = Arc::new(GpuLease::default());
        let (first, second) = (lease.reserve(30, 100), lease.reserve(50, 100));
        thread::scope(|scope| {
            let third = scope.spawn(|| drop(lease.reserve(40, 100)));
            thread::sleep(Duration::from_millis(50));
            assert!(!third.is_finished(), "30 + 50 + 40 are more than 80");
            drop(first);
            thread::sleep(Duration::from_millis(50));
            assert!(!third.is_finished(), "50 + 40 still are");
            drop(second);
            third.join().unwrap();
        });
        // A request larger than the device does not wait for ever.
        drop(lease.reserve(u64::MAX, 100));
        assert_eq!(*lease.reserved.lock(), 0);
    }

    #[test]
    fn short_requests_come_first_in_order_of_arrival() {
        let lease = GpuLease::default();
        let order = Mutex::new(Vec::new());
        let wait = |count: usize| {
            let waiting = || {
                let queue = lease.queue.lock();
                queue.short.len() + queue.long.len()
            };
            while waiting() < count {
                thread::yield_now();
            }
        };
        thread::scope(|scope| {
            let first = lease.hold(LeasePriority::Long);
            let wanted = [
                LeasePriority::Long,
                LeasePriority::Short,
                LeasePriority::Long,
                LeasePriority::Short,
            ];
            for (number, wanted) in wanted.into_iter().enumerate() {
                let (lease, order) = (&lease, &order);
                scope.spawn(move || {
                    let _guard = lease.hold(wanted);
                    order.lock().push(number);
                });
                wait(number + 1);
            }
            drop(first);
        });
        assert_eq!(*order.lock(), [1, 3, 0, 2]);
        // The GPU is free again.
        drop(lease.hold(LeasePriority::Short));
    }

    #[test]
    fn a_long_request_yields_for_a_limited_time() {
        let mut queue = LeaseQueue { short: VecDeque::from([1]), ..LeaseQueue::default() };
        let arrived = Instant::now().checked_sub(LONGEST_YIELD).unwrap();
        queue.long.push_back((0, arrived));
        queue.pass_on();
        assert_eq!(queue.holder, Some(0));
        queue.pass_on();
        assert_eq!(queue.holder, Some(1));
        queue.pass_on();
        assert_eq!(queue.holder, None);
    }
}
