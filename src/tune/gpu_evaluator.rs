//! GPU evaluator: evaluates candidates one after the other while it holds the GPU's lease. A candidate that breaks the
//! device costs a restart of the worker and gets its outcome.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::candidate::{CompiledCandidate, Evaluated};
use super::error::TuneError;
use super::evaluator::Evaluator;
use super::event::TuneEvent;
use super::final_round;
use super::finalist::{FinalOptions, FinalRanking, Finalist};
use super::gpu_lease::{GpuLease, LeasePriority, MemoryReservation};
use super::machine::LeasedGpu;
use super::memory;
use super::prepared_gpu::{Mounted, PreparedGpu, outcome_of};
use crate::compile::{Compile, CompileRequest};
use crate::measure::{DropReason, Race, RaceStep, RacingCandidate, Stopwatch};
use crate::model::{
    Device, Fault, Measurement, Mismatch, Outcome, Problem, Regime, Resources, Timing, Validation,
};
use crate::validate::{KERNELS, ValidationSubject, Validator, compile_options};
use crate::worker::{KernelFacts, Scalars, WorkerError};

/// A prepared GPU and its lease.
pub(super) struct GpuEvaluator<'a> {
    gpu: PreparedGpu<'a>,
    lease: Arc<GpuLease>,
    /// Returned with the evaluator.
    _memory: MemoryReservation,
}

impl<'a> GpuEvaluator<'a> {
    /// Reserves memory and prepares the GPU as soon as it is free.
    pub(super) fn prepare(
        worker: &'a mut LeasedGpu,
        problem: Problem,
        compiler: &dyn Compile,
        regime: Regime,
        seed: u64,
    ) -> Result<Self, TuneError> {
        let (lease, device) = (Arc::clone(&worker.lease), worker.executor.device().clone());
        let validation_image = compiler
            .compile(&CompileRequest {
                source: KERNELS.into(),
                name: "validate/kernels.cu".to_owned(),
                options: compile_options(&problem),
            })?
            .image;
        let timing = Stopwatch::footprint(&problem, &device, regime.cache);
        let available = memory::available(worker)?;
        let memory = lease.reserve(timing + Validator::footprint(&problem), available);
        let guard = lease.hold(LeasePriority::Short);
        worker.warm_up(&problem)?;
        let executor = worker.executor.as_mut();
        let (free, needed) = (executor.free_memory()?, timing + Validator::least(&problem));
        if needed > free {
            return Err(TuneError::Memory { problem: problem.to_string(), needed, free });
        }
        let values = (seed, free - timing);
        let gpu = PreparedGpu::new(executor, problem, validation_image, regime, values)?;
        drop(guard);
        Ok(Self { gpu, lease, _memory: memory })
    }

    /// Validates a candidate and races it. A time that is too good is confirmed from the beginning.
    fn try_evaluate(
        &mut self,
        candidate: &CompiledCandidate,
        race: &Race,
        during: &mut &'static str,
    ) -> Result<Outcome, WorkerError> {
        let gpu = &mut self.gpu;
        let mut racer = RacingCandidate::new();
        loop {
            *during = "loading";
            let (problem, image) = (gpu.problem, &candidate.compiled.image);
            let mounted = gpu.mount(&[(image, &candidate.plan)], &problem)?;
            let resources = resources(gpu.executor.device(), candidate, mounted.facts());
            let run = run_once(gpu, &mounted, &mut racer, race, during);
            if !run.as_ref().is_err_and(WorkerError::ends_worker) {
                gpu.unmount(mounted)?;
            }
            let (validation, step, launches_per_sample) = match run? {
                Ok(run) => run,
                Err(mismatch) => return Ok(Outcome::Correctness(mismatch)),
            };
            match step {
                RaceStep::More | RaceStep::Confirm(_) => {}
                RaceStep::Drop(reason @ DropReason::Impossible { .. }) => {
                    let (during, message) = ("timing".to_owned(), reason.to_string());
                    return Ok(Outcome::Runtime(Fault { during, message }));
                }
                RaceStep::Enough | RaceStep::Drop(_) => {
                    let measurement = Measurement {
                        samples: racer.samples().to_vec(),
                        launches_per_sample,
                        regime: gpu.stopwatch.regime(),
                        timing: Timing::Measured,
                        sm_clock_mhz: None,
                    };
                    return Ok(Outcome::Correct { validation, measurement, resources });
                }
            }
        }
    }
}

/// A candidate's validation, the step of its race, and its launches per sample.
type JudgedRun = (Validation, RaceStep, u32);

/// Validates a loaded candidate and takes samples.
fn run_once(
    gpu: &mut PreparedGpu<'_>,
    mounted: &Mounted,
    racer: &mut RacingCandidate,
    race: &Race,
    during: &mut &'static str,
) -> Result<Result<JudgedRun, Mismatch>, WorkerError> {
    *during = "validating";
    let subject = ValidationSubject {
        work: &|operands, scalars| mounted.work(0, operands, scalars),
        workspaces: mounted.workspaces(),
    };
    let validation = match gpu.validator.validate(gpu.executor, &subject)? {
        Ok(validation) => validation,
        Err(mismatch) => return Ok(Err(mismatch)),
    };
    *during = "timing";
    let work = |operands| mounted.work(0, operands, Scalars::PLAIN);
    let (step, launches_per_sample) = gpu.stopwatch.race(gpu.executor, &work, racer, race)?;
    *during = "unloading";
    Ok(Ok((validation, step, launches_per_sample)))
}

impl Evaluator for GpuEvaluator<'_> {
    fn evaluate(
        &mut self,
        candidate: &CompiledCandidate,
        race: &Race,
    ) -> Result<Evaluated, TuneError> {
        let lease = Arc::clone(&self.lease);
        let _guard = lease.hold(LeasePriority::Short);
        let problem = self.gpu.problem;
        self.gpu.allow_kernel(&problem, race.best());
        let mut during = "loading";
        let result = self.try_evaluate(candidate, race, &mut during);
        let error = match result {
            Ok(outcome) => return Ok(Evaluated { outcome, restarted: None }),
            Err(error) => error,
        };
        let mut restarted = None;
        if error.ends_worker() {
            self.gpu.restart()?;
            restarted = Some(error.to_string());
        }
        Ok(Evaluated { outcome: outcome_of(error, during), restarted })
    }

    fn decide(
        mut self: Box<Self>,
        finalists: Vec<Finalist>,
        options: FinalOptions<'_>,
        stop: &AtomicBool,
        on_event: &mut dyn FnMut(TuneEvent<'_>),
    ) -> Result<FinalRanking, TuneError> {
        let lease = Arc::clone(&self.lease);
        let _guard = lease.hold(LeasePriority::Long);
        let decided = final_round::decide(&mut self.gpu, finalists, options, stop, on_event)?;
        self.gpu.free()?;
        Ok(decided)
    }

    fn restarts(&self) -> usize {
        self.gpu.restarts()
    }

    fn release(self: Box<Self>) -> Result<(), TuneError> {
        let lease = Arc::clone(&self.lease);
        let _guard = lease.hold(LeasePriority::Short);
        Ok(self.gpu.free()?)
    }
}

/// Registers, memory and occupancy of a candidate.
fn resources(device: &Device, candidate: &CompiledCandidate, facts: &[KernelFacts]) -> Resources {
    let kernels = || candidate.plan.kernels.iter().zip(facts);
    let occupancy = kernels().map(|(kernel, facts)| {
        let threads: u32 = kernel.block.iter().product();
        f64::from(facts.blocks_per_sm * threads) / f64::from(device.threads_per_sm)
    });
    let spills = candidate.compiled.resources.values().map(|kernel| kernel.spill_bytes());
    Resources {
        registers: facts.iter().map(|facts| facts.registers).max().unwrap_or(0),
        spill_bytes: spills.max().unwrap_or(0),
        shared_bytes: kernels()
            .map(|(kernel, facts)| facts.static_shared_bytes + kernel.dynamic_shared_bytes)
            .max()
            .unwrap_or(0),
        occupancy: occupancy.reduce(f64::min),
    }
}
