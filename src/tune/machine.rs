//! What executes candidates: GPUs, or this host. Several workers on one GPU take turns: while one
//! problem's candidates compile, another's are measured, and never two at a time.

use std::fmt;
use std::sync::Arc;

use parking_lot::{Condvar, FairMutex, FairMutexGuard, Mutex};

use crate::model::Device;
use crate::worker::Executor;

/// Problems that are tuned at the same time on one GPU: one is compiled for while the other is measured.
/// Three on an H200 with 16 cores were no faster.
pub const LANES: usize = 2;

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

    /// Machines that work on problems of their own, `most` at most. The GPUs are dealt out; where more
    /// problems than GPUs are wanted at a time, as many as `lanes` share one, as far as it bears more
    /// workers: those that do follow one another. The host is one machine, whose cores are all used.
    pub fn split(self, most: usize, lanes: usize) -> Vec<Self> {
        let Self::Gpus(gpus) = self else { return vec![self] };
        let hands = most.clamp(1, gpus.len().max(1));
        let mut dealt: Vec<Vec<Gpu>> = (0..hands).map(|_| Vec::new()).collect();
        for (number, gpu) in gpus.into_iter().enumerate() {
            dealt[number % hands].push(gpu);
        }
        let mut wanted = most.saturating_sub(hands);
        let mut machines = Vec::new();
        for own in dealt {
            let shared = wanted.min(lanes.saturating_sub(1));
            // A GPU that has one process to itself bears no second; then there is one lane.
            let others = (0..shared).map_while(|_| own.first()?.another());
            let others: Vec<Vec<Gpu>> = others.map(|other| vec![other]).collect();
            wanted -= others.len();
            machines.extend(std::iter::once(own).chain(others).map(Self::Gpus));
        }
        machines
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.count(), self.device().name)
    }
}

impl Gpu {
    /// Another worker on it, which takes turns with this.
    fn another(&self) -> Option<Self> {
        let executor = self.executor.under(&[]).ok()?;
        Some(Self { executor, shared: Arc::clone(&self.shared) })
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
    fn the_host_is_one_machine() {
        assert_eq!(Machine::Host.split(5, LANES).len(), 1);
    }
}
