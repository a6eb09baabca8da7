//! What executes candidates: GPUs, or this host. Several workers on one GPU take turns: while one
//! problem's candidates compile, another's are measured, and never two at a time.

use std::fmt;
use std::sync::Arc;

use parking_lot::{Condvar, FairMutex, FairMutexGuard, Mutex};

use crate::model::Device;
use crate::worker::{Executor, Starter};

/// Most problems that are tuned at the same time on one GPU: some are compiled for while one is measured. 20
/// layers of a language model take 28.8 and 30.7 s with 4 on an H200 with 16 cores, 23.4 and 29.5 s with 6. As
/// long as problems told each other of themselves only when they were over, more than two were no faster.
const MOST_LANES: usize = 6;

/// Problems to be tuned at the same time on one GPU, for so many threads of the compiler: with few, the
/// device waits for them anyway.
pub fn lanes(threads: usize) -> usize {
    (threads / 2).clamp(2, MOST_LANES)
}

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
        let gpu = |executor| Gpu { executor, shared: Arc::default() };
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
    /// problems than GPUs are wanted at a time, up to `lanes` share one. The host is one place, whose cores are
    /// all used.
    pub fn seats(self, most: usize, lanes: usize) -> Vec<Seat> {
        let Self::Gpus(gpus) = self else { return vec![Seat(Place::Own(self))] };
        let hands = most.clamp(1, gpus.len().max(1));
        let mut dealt: Vec<Vec<Gpu>> = (0..hands).map(|_| Vec::new()).collect();
        for (number, gpu) in gpus.into_iter().enumerate() {
            dealt[number % hands].push(gpu);
        }
        let mut wanted = most.saturating_sub(hands);
        let mut seats = Vec::new();
        for own in dealt {
            let others = own.first().into_iter().flat_map(|first| {
                let other =
                    || Seat(Place::Shared(first.executor.another(), Arc::clone(&first.shared)));
                std::iter::repeat_with(other).take(wanted.min(lanes.saturating_sub(1)))
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
    /// What is there, once its worker is started where it shares a GPU, which takes a driver a quarter of a
    /// second; none where the GPU bears no other process.
    pub fn machine(self) -> Option<Machine> {
        match self.0 {
            Place::Own(machine) => Some(machine),
            Place::Shared(start, shared) => {
                start().ok().map(|executor| Machine::Gpus(vec![Gpu { executor, shared }]))
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
    /// Fair, so that a search that always has candidates does not keep a final waiting.
    turn: FairMutex<()>,
    lent: Mutex<u64>,
    returned: Condvar,
}

impl Shared {
    /// The device, as soon as nobody else has it.
    pub(super) fn turn(&self) -> FairMutexGuard<'_, ()> {
        self.turn.lock()
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
    fn the_host_is_one_place() {
        assert_eq!(Machine::Host.seats(5, lanes(16)).len(), 1);
    }
}
