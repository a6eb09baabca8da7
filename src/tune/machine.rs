//! What executes candidates: GPUs, or this host; and the places at which problems are tuned there. Whose turn it
//! is where several share a GPU is [`super::gpu_lease`]'s business.

use std::fmt;
use std::mem;
use std::sync::Arc;

use super::gpu_lease::GpuLease;
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

/// Device memory for each worker on a GPU, with its context, cuBLAS, operands and references. A judgement: what
/// is lent to problems is counted by itself.
const WORKER_BYTES: u64 = 4 << 30;

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
    pub(super) shared: Arc<GpuLease>,
    /// Whether its libraries were woken.
    is_awake: bool,
}

impl Gpu {
    fn new(executor: Box<dyn Executor>, shared: Arc<GpuLease>) -> Self {
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
    Shared(Starter, Arc<GpuLease>),
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
                    || Seat(Place::Shared(first.executor.starter(), Arc::clone(&first.shared)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_one_place() {
        assert_eq!(Machine::Host.seats(5, lanes(16)).len(), 1);
    }
}
