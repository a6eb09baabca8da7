//! A GPU prepared for one problem: operands, references and timing buffers are made, and candidates can be loaded.

use std::sync::Arc;

use super::deadlines::{deadline_seconds, patience_seconds, prepare_seconds};
use crate::measure::Stopwatch;
use crate::model::{Fault, LaunchPlan, Micros, Outcome, Problem, Regime};
use crate::validate::{GuardedBuffer, Validator};
use crate::worker::{
    EpilogueAddresses, Executor, KernelFacts, KernelSetup, LoadedModule, OperandAddresses, Scalars,
    WorkItem, WorkerError, bind,
};

/// Fresh workers in a row that may fail before the device is given up.
const MAX_ATTEMPTS: usize = 3;

/// A worker with operands, references and timing buffers for one problem.
pub(super) struct PreparedGpu<'a> {
    pub(super) executor: &'a mut dyn Executor,
    pub(super) problem: Problem,
    pub(super) validator: Validator,
    pub(super) stopwatch: Stopwatch,
    validation_image: Arc<[u8]>,
    seed: u64,
    /// Bytes that the validator may use.
    memory: u64,
    restarts: usize,
}

/// LoadedModule candidates and the scratch memory that they share. With memory of their own, equal kernels differ by up to 3 %
/// with its address; see `docs/decisions/2026-11-23-samples.md`.
pub(super) struct Mounted {
    loaded: Vec<(LoadedModule, LaunchPlan)>,
    workspaces: Vec<GuardedBuffer>,
    problem: Problem,
}

impl Mounted {
    pub(super) fn workspaces(&self) -> &[GuardedBuffer] {
        &self.workspaces
    }

    /// What the driver says of the kernels of the first candidate.
    pub(super) fn facts(&self) -> &[KernelFacts] {
        self.loaded.first().map_or(&[], |(loaded, _)| &loaded.kernels)
    }

    /// The work of one product by the candidate at `place`; none where there is no such place. Mounting refuses plans
    /// whose arguments have no value.
    pub(super) fn work(
        &self,
        place: usize,
        operands: OperandAddresses,
        scalars: Scalars,
    ) -> Vec<WorkItem> {
        let workspaces: Vec<u64> = self.workspaces.iter().map(|zone| zone.address).collect();
        let launches = self.loaded.get(place).and_then(|(loaded, plan)| {
            bind(plan, loaded.module, &self.problem, operands, &workspaces, scalars).ok()
        });
        launches.unwrap_or_default().into_iter().map(WorkItem::Kernel).collect()
    }
}

impl<'a> PreparedGpu<'a> {
    /// Prepares a worker. `validation_image` has the kernels that validate, which may use `memory` bytes.
    pub(super) fn new(
        executor: &'a mut dyn Executor,
        problem: Problem,
        validation_image: Arc<[u8]>,
        regime: Regime,
        (seed, memory): (u64, u64),
    ) -> Result<Self, WorkerError> {
        let (validator, stopwatch) =
            make_ready(executor, &problem, &validation_image, regime, (seed, memory))?;
        let restarts = 0;
        Ok(Self {
            executor,
            problem,
            validator,
            stopwatch,
            validation_image,
            seed,
            memory,
            restarts,
        })
    }

    /// Replaces the worker and prepares the new one.
    pub(super) fn restart(&mut self) -> Result<(), WorkerError> {
        self.restarts += 1;
        let mut attempt = 1;
        loop {
            let ready = self.executor.restart().and_then(|()| {
                let regime = self.stopwatch.regime();
                let values = (self.seed, self.memory);
                make_ready(self.executor, &self.problem, &self.validation_image, regime, values)
            });
            match ready {
                Ok((validator, stopwatch)) => {
                    (self.validator, self.stopwatch) = (validator, stopwatch);
                    return Ok(());
                }
                Err(error) if attempt == MAX_ATTEMPTS => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }

    /// How often the worker was replaced.
    pub(super) fn restarts(&self) -> usize {
        self.restarts
    }

    /// Switches the validator to this problem or another one of the same dtype, with values of its own: `values`
    /// selects them, and 0 is what the search uses. Its memory replaces that of the present one.
    pub(super) fn validate_on(
        &mut self,
        problem: &Problem,
        values: u64,
    ) -> Result<(), WorkerError> {
        self.executor.set_deadline(prepare_seconds(problem));
        let seed = self.seed.wrapping_add(values);
        self.validator.switch(self.executor, problem, seed)?;
        self.stopwatch.follow(&self.validator);
        Ok(())
    }

    /// Sets the deadline for a kernel for the validator's problem, with the best time so far. References in parts are
    /// computed during a validation.
    pub(super) fn allow_kernel(&mut self, problem: &Problem, best: Option<Micros>) {
        let references = if self.validator.is_in_parts() { patience_seconds(problem) } else { 0.0 };
        self.executor.set_deadline(deadline_seconds(problem, best) + references);
    }

    /// Loads candidates that are launched for `problem`, and allocates the workspaces that they share, each as large as
    /// the largest one at its place.
    pub(super) fn mount(
        &mut self,
        candidates: &[(&[u8], &LaunchPlan)],
        problem: &Problem,
    ) -> Result<Mounted, WorkerError> {
        let mut mounted = Mounted { loaded: Vec::new(), workspaces: Vec::new(), problem: *problem };
        match self.load(candidates, &mut mounted) {
            Ok(()) => Ok(mounted),
            Err(error) if error.ends_worker() => Err(error),
            Err(error) => {
                self.unmount(mounted)?;
                Err(error)
            }
        }
    }

    fn load(
        &mut self,
        candidates: &[(&[u8], &LaunchPlan)],
        mounted: &mut Mounted,
    ) -> Result<(), WorkerError> {
        let mut bytes: Vec<u64> = Vec::new();
        for (image, plan) in candidates {
            let probe =
                OperandAddresses { a: 0, b: 0, c: 0, epilogue: EpilogueAddresses::default() };
            let addresses = vec![0; plan.workspaces.len()];
            if let Err(error) = bind(plan, 0, &mounted.problem, probe, &addresses, Scalars::PLAIN) {
                return Err(WorkerError::Device { message: error.to_string(), sticky: false });
            }
            let loaded = self.executor.load(image, &KernelSetup::of(plan))?;
            mounted.loaded.push((loaded, (*plan).clone()));
            bytes.resize(bytes.len().max(plan.workspaces.len()), 0);
            for (bytes, workspace) in bytes.iter_mut().zip(&plan.workspaces) {
                *bytes = workspace.bytes.max(*bytes);
            }
        }
        for bytes in bytes {
            mounted.workspaces.push(GuardedBuffer::allocate(self.executor, bytes)?);
        }
        Ok(())
    }

    /// Unloads candidates and frees their workspaces.
    pub(super) fn unmount(&mut self, mounted: Mounted) -> Result<(), WorkerError> {
        for zone in mounted.workspaces {
            zone.free(self.executor)?;
        }
        for (loaded, _) in mounted.loaded {
            self.executor.unload(loaded.module)?;
        }
        Ok(())
    }

    /// Frees operands, references and timing buffers.
    pub(super) fn free(self) -> Result<(), WorkerError> {
        self.stopwatch.release(self.executor)?;
        self.validator.release(self.executor)
    }
}

/// The outcome of a candidate whose evaluation failed with a worker error.
pub(super) fn outcome_of(error: WorkerError, during: &str) -> Outcome {
    match error {
        WorkerError::TimedOut { seconds } => Outcome::Timeout { seconds },
        error => Outcome::Runtime(Fault { during: during.to_owned(), message: error.to_string() }),
    }
}

/// Makes operands, references and timing buffers.
fn make_ready(
    executor: &mut dyn Executor,
    problem: &Problem,
    image: &[u8],
    regime: Regime,
    (seed, memory): (u64, u64),
) -> Result<(Validator, Stopwatch), WorkerError> {
    executor.set_deadline(prepare_seconds(problem));
    let validator = Validator::prepare(executor, image, problem, seed, memory)?;
    match Stopwatch::prepare(executor, &validator, problem, regime) {
        Ok(stopwatch) => Ok((validator, stopwatch)),
        Err(error) if error.ends_worker() => Err(error),
        Err(error) => validator.release(executor).and(Err(error)),
    }
}
