//! The machine that executes candidates: GPUs, or this host. Workers that share a GPU take turns by its lease, see
//! [`super::gpu_lease`].

use std::fmt;
use std::mem;
use std::sync::Arc;

use super::gpu_lease::GpuLease;
use crate::model::{Device, Problem};
use crate::worker::{Executor, Starter, WorkerError};

/// What executes candidates.
pub enum Machine {
    /// GPUs of one kind, at least one. All screen candidates, the first decides.
    Gpus(Vec<LeasedGpu>),
    /// This host, as the `cpu` device: results are validated, times are modelled.
    Host,
}

impl Machine {
    /// GPUs of one kind, each with one worker; at least one.
    pub fn gpus(executors: impl IntoIterator<Item = Box<dyn Executor>>) -> Self {
        let gpu = |executor| LeasedGpu::new(executor, Arc::default());
        Self::Gpus(executors.into_iter().map(gpu).collect())
    }

    /// The description of its first device.
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
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.count(), self.device().name)
    }
}

/// A worker on a GPU, which may share the GPU with others.
pub struct LeasedGpu {
    pub(super) executor: Box<dyn Executor>,
    pub(super) lease: Arc<GpuLease>,
    /// Whether its libraries are initialised.
    is_warm: bool,
}

impl LeasedGpu {
    fn new(executor: Box<dyn Executor>, lease: Arc<GpuLease>) -> Self {
        Self { executor, lease, is_warm: false }
    }

    /// Memory of its GPU.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.executor.device().memory_bytes
    }

    /// Another worker on the same GPU, which is not started yet.
    pub(crate) fn another(&self) -> PendingWorker {
        PendingWorker { start: self.executor.starter(), lease: Arc::clone(&self.lease) }
    }

    /// Initialises cuBLAS, where that was not done. It takes 0.2 s on an H200, and is done while the first candidates
    /// compile rather than in the final.
    ///
    /// # Errors
    /// The worker ended, and no other one could be started. A failure of cuBLAS is no error.
    pub(super) fn warm_up(&mut self, like: &Problem) -> Result<(), WorkerError> {
        if mem::replace(&mut self.is_warm, true) {
            return Ok(());
        }
        match self.executor.baselines(like, 1) {
            Err(error) if error.ends_worker() => self.executor.restart(),
            _ => Ok(()),
        }
    }
}

/// A worker that will share a GPU with another one, and is not started yet.
pub(crate) struct PendingWorker {
    start: Starter,
    lease: Arc<GpuLease>,
}

impl PendingWorker {
    /// Starts the worker and warms it up for problems like this one.
    ///
    /// # Errors
    /// The GPU takes no further process.
    pub(crate) fn start(self, like: &Problem) -> Result<LeasedGpu, WorkerError> {
        let mut gpu = LeasedGpu::new((self.start)()?, self.lease);
        gpu.warm_up(like)?;
        Ok(gpu)
    }
}
