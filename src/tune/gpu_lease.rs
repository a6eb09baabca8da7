//! A GPU that several workers share: who has it, for while one problem's candidates compile, another's are
//! measured, and never two at a time; and how much of its memory is whose.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The share of a device's memory that is lent to several at a time.
const LENT: f64 = 0.8;

/// A GPU's time, which one has at a time, and its memory.
#[derive(Default)]
pub(super) struct GpuLease {
    queue: Mutex<Queue>,
    passed_on: Condvar,
    lent: Mutex<u64>,
    returned: Condvar,
}

/// How long the device is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeasePriority {
    /// For milliseconds, by a search whose next questions wait for the answer, and the cores with them.
    Shortly,
    /// For about a second, by what nobody waits for but its own end.
    Long,
}

/// How long who wants the device for long lets others go first: a search that always has candidates must not
/// keep a final waiting for ever.
const COURTESY: Duration = Duration::from_secs(3);

/// Who has the device, and who waits for it.
#[derive(Default)]
struct Queue {
    tickets: u64,
    holder: Option<u64>,
    shortly: VecDeque<u64>,
    long: VecDeque<(u64, Instant)>,
}

impl Queue {
    /// Gives the device to the next one: in the order in which they came, but those first who want it shortly.
    fn pass_on(&mut self) {
        let is_impatient = self.long.front().is_some_and(|(_, since)| since.elapsed() >= COURTESY);
        let shortly = if is_impatient { None } else { self.shortly.pop_front() };
        self.holder = shortly.or_else(|| self.long.pop_front().map(|(ticket, _)| ticket));
    }
}

/// The device, until it is dropped.
pub(super) struct LeaseGuard<'s>(&'s GpuLease);

impl Drop for LeaseGuard<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().pass_on();
        self.0.passed_on.notify_all();
    }
}

impl GpuLease {
    /// The device, as soon as it is one's turn.
    pub(super) fn turn(&self, wanted: LeasePriority) -> LeaseGuard<'_> {
        let mut queue = self.queue.lock();
        let ticket = queue.tickets;
        queue.tickets += 1;
        match wanted {
            LeasePriority::Shortly => queue.shortly.push_back(ticket),
            LeasePriority::Long => queue.long.push_back((ticket, Instant::now())),
        }
        if queue.holder.is_none() {
            queue.pass_on();
        }
        self.passed_on.wait_while(&mut queue, |queue| queue.holder != Some(ticket));
        LeaseGuard(self)
    }

    /// So many bytes of a device's `memory`, as soon as others leave them. Who asks for more than there
    /// is has the device alone, and will be told so by the device.
    pub(super) fn lend(self: &Arc<Self>, bytes: u64, memory: u64) -> MemoryReservation {
        let most = (LENT * memory as f64) as u64;
        let mut lent = self.lent.lock();
        self.returned.wait_while(&mut lent, |lent| *lent > 0 && lent.saturating_add(bytes) > most);
        *lent = lent.saturating_add(bytes);
        MemoryReservation { bytes, shared: Arc::clone(self) }
    }
}

/// Memory that is somebody's until it is dropped.
pub(super) struct MemoryReservation {
    bytes: u64,
    shared: Arc<GpuLease>,
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        let mut lent = self.shared.lent.lock();
        *lent = lent.saturating_sub(self.bytes);
        self.shared.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_finds_no_room_waits_until_others_leave() {
        let shared = Arc::new(GpuLease::default());
        let (first, second) = (shared.lend(30, 100), shared.lend(50, 100));
        thread::scope(|scope| {
            let third = scope.spawn(|| drop(shared.lend(40, 100)));
            thread::sleep(Duration::from_millis(50));
            assert!(!third.is_finished(), "30 + 50 + 40 are more than 80");
            drop(first);
            thread::sleep(Duration::from_millis(50));
            assert!(!third.is_finished(), "50 + 40 still are");
            drop(second);
            third.join().unwrap();
        });
        // What is larger than everything is not waited for for ever.
        drop(shared.lend(u64::MAX, 100));
        assert_eq!(*shared.lent.lock(), 0);
    }

    #[test]
    fn who_wants_the_device_shortly_goes_first_in_the_order_of_coming() {
        let shared = GpuLease::default();
        let order = Mutex::new(Vec::new());
        let wait = |count: usize| {
            let waiting = || {
                let queue = shared.queue.lock();
                queue.shortly.len() + queue.long.len()
            };
            while waiting() < count {
                thread::yield_now();
            }
        };
        thread::scope(|scope| {
            let first = shared.turn(LeasePriority::Long);
            let wanted = [
                LeasePriority::Long,
                LeasePriority::Shortly,
                LeasePriority::Long,
                LeasePriority::Shortly,
            ];
            for (number, wanted) in wanted.into_iter().enumerate() {
                let (shared, order) = (&shared, &order);
                scope.spawn(move || {
                    let _turn = shared.turn(wanted);
                    order.lock().push(number);
                });
                wait(number + 1);
            }
            drop(first);
        });
        assert_eq!(*order.lock(), [1, 3, 0, 2]);
        // Nobody has it any more.
        drop(shared.turn(LeasePriority::Shortly));
    }

    #[test]
    fn who_wants_it_long_waits_no_longer_than_courtesy_asks() {
        let mut queue = Queue { shortly: VecDeque::from([1]), ..Queue::default() };
        let came = Instant::now().checked_sub(COURTESY).unwrap();
        queue.long.push_back((0, came));
        queue.pass_on();
        assert_eq!(queue.holder, Some(0));
        queue.pass_on();
        assert_eq!(queue.holder, Some(1));
        queue.pass_on();
        assert_eq!(queue.holder, None);
    }
}
