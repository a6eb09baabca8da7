//! What executes candidates: GPUs, or this host. Several workers on one GPU take turns: while one
//! problem's candidates compile, another's are measured, and never two at a time.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::model::{Device, Problem};
use crate::worker::{Executor, Starter, WorkerError};

/// Most problems that are searched at the same time on one GPU: some are compiled for while one is measured. On an
/// H200 with 16 cores 20 layers of a language model take 22.6 s in the mean of two runs with 3, 20.6 s with 4, and
/// 23.9 s with 6, which learn less of each other: they compile 310, 330 and 440 kernels.
const MOST_LANES: usize = 4;

/// Problems to be searched at the same time on one GPU, for so many threads of the compiler: with few, the
/// device waits for them anyway.
pub fn lanes(threads: usize) -> usize {
    (threads / 2).clamp(2, MOST_LANES)
}

/// Device memory for each worker on a GPU: its context and cuBLAS take some 0.6 GB of an H200's, and operands
/// come on top.
const WORKER_BYTES: u64 = 4 << 30;

/// The share of a device's memory that is lent to several at a time.
const LENT: f64 = 0.8;

/// What executes candidates.
pub enum Machine {
    /// GPUs of one kind, at least one. All screen candidates, the first decides.
    Gpus(Vec<Gpu>),
    /// This host, as the `cpu` device: results are validated, times are modelled.
    Host,
}

/// A worker on a GPU that others may have workers on too.
pub struct Gpu {
    pub(super) executor: Box<dyn Executor>,
    pub(super) shared: Arc<Shared>,
    /// Whether its libraries were woken.
    is_awake: bool,
}

impl Gpu {
    fn new(executor: Box<dyn Executor>, shared: Arc<Shared>) -> Self {
        Self { executor, shared, is_awake: false }
    }

    /// Wakes cuBLAS, where it knows such a product and slept until now: that takes 0.2 s on an H200, better
    /// while the first candidates compile than in the final, where what it offers is asked again.
    ///
    /// # Errors
    /// The worker ended, and no other one could be started. Nothing is lost where cuBLAS fails.
    pub(super) fn wake(&mut self, like: &Problem) -> Result<(), WorkerError> {
        if mem::replace(&mut self.is_awake, true) {
            return Ok(());
        }
        match self.executor.baselines(like, 1) {
            Err(error) if error.ends_worker() => self.executor.restart(),
            _ => Ok(()),
        }
    }
}

/// A place at which problems are tuned, one after the other.
pub struct Seat(Place);

enum Place {
    /// A machine that is there.
    Own(Machine),
    /// A GPU that another one's worker is on, for which one is still to be started.
    Shared(Starter, Arc<Shared>),
}

impl Machine {
    /// GPUs of one kind that nobody shares, at least one.
    pub fn gpus(executors: impl IntoIterator<Item = Box<dyn Executor>>) -> Self {
        let gpu = |executor| Gpu::new(executor, Arc::default());
        Self::Gpus(executors.into_iter().map(gpu).collect())
    }

    /// What it is.
    pub fn device(&self) -> Device {
        let first = match self {
            Self::Gpus(gpus) => gpus.first(),
            Self::Host => None,
        };
        first.map_or_else(Device::cpu, |gpu| gpu.executor.device().clone())
    }

    /// How many GPUs it has.
    pub fn count(&self) -> usize {
        match self {
            Self::Gpus(gpus) => gpus.len(),
            Self::Host => 0,
        }
    }

    /// Places at which problems are tuned at the same time, `most` at most. The GPUs are dealt out; where more
    /// problems than GPUs are wanted at a time, some share one: `lanes` that search, where that is more than
    /// one, and as many that are in their finals. The host is one place, whose cores are all used.
    pub fn seats(self, most: usize, lanes: usize) -> Vec<Seat> {
        let Self::Gpus(gpus) = self else { return vec![Seat(Place::Own(self))] };
        let hands = most.clamp(1, gpus.len().max(1));
        let mut dealt: Vec<Vec<Gpu>> = (0..hands).map(|_| Vec::new()).collect();
        for (number, gpu) in gpus.into_iter().enumerate() {
            dealt[number % hands].push(gpu);
        }
        let mut wanted = most.saturating_sub(hands);
        let others_of = |gpu: &Gpu| {
            let bearable = (gpu.executor.device().memory_bytes / WORKER_BYTES) as usize;
            let workers = if lanes > 1 { 2 * lanes } else { 1 };
            workers.min(bearable).saturating_sub(1)
        };
        let mut seats = Vec::new();
        for own in dealt {
            let others = own.first().into_iter().flat_map(|first| {
                let other =
                    || Seat(Place::Shared(first.executor.another(), Arc::clone(&first.shared)));
                std::iter::repeat_with(other).take(wanted.min(others_of(first)))
            });
            let others: Vec<Seat> = others.collect();
            wanted -= others.len();
            seats.push(Seat(Place::Own(Self::Gpus(own))));
            seats.extend(others);
        }
        seats
    }
}

impl Seat {
    /// What is there, once its worker is started and woken for problems like this one where it shares a GPU,
    /// which takes a driver half a second; none where the GPU bears no other process.
    pub fn machine(self, like: &Problem) -> Option<Machine> {
        match self.0 {
            Place::Own(machine) => Some(machine),
            Place::Shared(start, shared) => {
                let mut gpu = Gpu::new(start().ok()?, shared);
                gpu.wake(like).ok()?;
                Some(Machine::Gpus(vec![gpu]))
            }
        }
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.count(), self.device().name)
    }
}

/// A GPU's time, which one has at a time, and its memory.
#[derive(Default)]
pub(super) struct Shared {
    queue: Mutex<Queue>,
    passed_on: Condvar,
    lent: Mutex<u64>,
    returned: Condvar,
}

/// How long the device is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
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
pub(super) struct Turn<'s>(&'s Shared);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().pass_on();
        self.0.passed_on.notify_all();
    }
}

impl Shared {
    /// The device, as soon as it is one's turn.
    pub(super) fn turn(&self, wanted: Wanted) -> Turn<'_> {
        let mut queue = self.queue.lock();
        let ticket = queue.tickets;
        queue.tickets += 1;
        match wanted {
            Wanted::Shortly => queue.shortly.push_back(ticket),
            Wanted::Long => queue.long.push_back((ticket, Instant::now())),
        }
        if queue.holder.is_none() {
            queue.pass_on();
        }
        self.passed_on.wait_while(&mut queue, |queue| queue.holder != Some(ticket));
        Turn(self)
    }

    /// So many bytes of a device's `memory`, as soon as others leave them. Who asks for more than there
    /// is has the device alone, and will be told so by the device.
    pub(super) fn lend(self: &Arc<Self>, bytes: u64, memory: u64) -> Loan {
        let most = (LENT * memory as f64) as u64;
        let mut lent = self.lent.lock();
        self.returned.wait_while(&mut lent, |lent| *lent > 0 && lent.saturating_add(bytes) > most);
        *lent = lent.saturating_add(bytes);
        Loan { bytes, shared: Arc::clone(self) }
    }
}

/// Memory that is somebody's until it is dropped.
pub(super) struct Loan {
    bytes: u64,
    shared: Arc<Shared>,
}

impl Drop for Loan {
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
        let shared = Arc::new(Shared::default());
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
        let shared = Shared::default();
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
            let first = shared.turn(Wanted::Long);
            let wanted = [Wanted::Long, Wanted::Shortly, Wanted::Long, Wanted::Shortly];
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
        drop(shared.turn(Wanted::Shortly));
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

    #[test]
    fn the_host_is_one_place() {
        assert_eq!(Machine::Host.seats(5, lanes(16)).len(), 1);
    }
}
