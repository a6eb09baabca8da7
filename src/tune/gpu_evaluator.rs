//! A GPU made ready for one problem, on which candidates are evaluated one after the other. A
//! candidate that breaks the device costs a restart and gets its outcome.

use std::sync::Arc;

use super::evaluator::{Candidate, Decided, Evaluated, Evaluator, Kept};
use super::gpu_lease::{GpuLease, LeasePriority, MemoryReservation};
use super::machine::Gpu;
use super::sanitize::Sanitizer;
use super::{Event, TuneError, final_round};
use crate::compile::{Compile, CompileRequest};
use crate::measure::{DropReason, Race, RaceStep, RacingCandidate, Stopwatch};
use crate::model::{
    Fault, LaunchPlan, Measurement, Micros, Outcome, Problem, Regime, Resources, Timing,
};
use crate::validate::{GuardedBuffer, KERNELS, ValidationSubject, Validator, compile_options};
use crate::worker::{
    Executor, KernelFacts, KernelSetup, LoadedModule, OperandAddresses, Scalars, Work, WorkerError,
    bind,
};

/// How long a candidate gets before any time is known: a start-up allowance, and the time of a
/// kernel that does 10 GFLOP/s, slower than any GPU's worst.
const ALLOWANCE_SECONDS: f64 = 10.0;
const SLOWEST_RATE: f64 = 1e10;

/// How long it gets once a best is known: a fault in the driver takes seconds to be reported, and
/// nothing that is 500 times slower than the best is worth waiting for.
const KNOWN_ALLOWANCE_SECONDS: f64 = 5.0;
const HOPELESS_FACTOR: f64 = 500.0;

/// How long making operands and references may take, beside the time of a slow kernel.
const PREPARE_SECONDS: f64 = 60.0;

/// Fresh workers in a row that may fail to make ready before the device is given up.
const MAX_ATTEMPTS: usize = 3;

/// An executor with operands, references and timing buffers for one problem.
pub(super) struct GpuEvaluator<'a> {
    pub(super) executor: &'a mut dyn Executor,
    pub(super) problem: Problem,
    pub(super) validator: Validator,
    pub(super) stopwatch: Stopwatch,
    validation_image: Arc<[u8]>,
    seed: u64,
    restarts: usize,
    shared: Arc<GpuLease>,
    /// Given back with the evaluator.
    _memory: MemoryReservation,
}

/// Candidates that are loaded, with the scratch memory that they take turns in. Each in memory of its own would be
/// compared by where that lies: on an H200 six copies of a kernel for 1x1x1048576, with 1 KB of sums, took 5.69 to
/// 5.72 µs in three places and 5.83 to 5.86 in three others, and all took 5.69 to 5.72 in one place.
pub(super) struct Mounted {
    loaded: Vec<(LoadedModule, LaunchPlan)>,
    workspaces: Vec<GuardedBuffer>,
    problem: Problem,
}

impl Mounted {
    pub(super) fn workspaces(&self) -> &[GuardedBuffer] {
        &self.workspaces
    }

    /// What the driver says of the kernels of the first.
    fn facts(&self) -> &[KernelFacts] {
        self.loaded.first().map_or(&[], |(loaded, _)| &loaded.kernels)
    }

    /// The work of one product by the candidate at `place`: none where there is no such place. A plan whose
    /// arguments have no value was refused when mounting.
    pub(super) fn work(
        &self,
        place: usize,
        operands: OperandAddresses,
        scalars: Scalars,
    ) -> Vec<Work> {
        let workspaces: Vec<u64> = self.workspaces.iter().map(|zone| zone.address).collect();
        let launches = self.loaded.get(place).and_then(|(loaded, plan)| {
            bind(plan, loaded.module, &self.problem, operands, &workspaces, scalars).ok()
        });
        launches.unwrap_or_default().into_iter().map(Work::Kernel).collect()
    }
}

impl<'a> GpuEvaluator<'a> {
    /// Makes the device ready, in its turn.
    pub(super) fn prepare(
        gpu: &'a mut Gpu,
        problem: Problem,
        compiler: &dyn Compile,
        regime: Regime,
        seed: u64,
    ) -> Result<Self, TuneError> {
        let (shared, device) = (Arc::clone(&gpu.shared), gpu.executor.device().clone());
        let validation_image = compiler
            .compile(&CompileRequest {
                source: KERNELS.into(),
                name: "validate/kernels.cu".to_owned(),
                options: compile_options(&problem),
            })?
            .image;
        let timing = Stopwatch::footprint(&problem, &device, regime.cache);
        let needed = Validator::footprint(&problem) + timing;
        // Finalists are tried on one more problem of about this size at a time.
        let memory = shared.lend(needed + Validator::footprint(&problem), device.memory_bytes);
        let turn = shared.turn(LeasePriority::Shortly);
        gpu.wake(&problem)?;
        let executor = gpu.executor.as_mut();
        let free = executor.free_memory()?;
        if needed > free {
            return Err(TuneError::Memory { problem: problem.to_string(), needed, free });
        }
        let (validator, stopwatch) = ready(executor, &problem, &validation_image, seed, regime)?;
        drop(turn);
        Ok(Self {
            executor,
            problem,
            validator,
            stopwatch,
            validation_image,
            seed,
            restarts: 0,
            shared,
            _memory: memory,
        })
    }

    /// Replaces the worker and makes the device ready again.
    pub(super) fn restart(&mut self) -> Result<(), WorkerError> {
        self.restarts += 1;
        let mut attempt = 1;
        loop {
            let ready = self.executor.restart().and_then(|()| {
                let regime = self.stopwatch.regime();
                ready(self.executor, &self.problem, &self.validation_image, self.seed, regime)
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

    /// Validates a candidate and races it. A time that is too good to be believed at once is looked
    /// at again from the beginning.
    fn try_evaluate(
        &mut self,
        candidate: &Candidate,
        race: &Race,
        during: &mut &'static str,
    ) -> Result<Outcome, WorkerError> {
        let mut racer = RacingCandidate::new();
        loop {
            *during = "loading";
            let (problem, image) = (self.problem, &candidate.compiled.image);
            let mounted = self.mount(&[(image, &candidate.plan)], &problem)?;
            *during = "validating";
            let subject = ValidationSubject {
                work: &|operands, scalars| mounted.work(0, operands, scalars),
                workspaces: &mounted.workspaces,
            };
            let validation = match self.validator.validate(self.executor, &subject)? {
                Ok(validation) => validation,
                Err(mismatch) => {
                    self.unmount(mounted)?;
                    return Ok(Outcome::Correctness(mismatch));
                }
            };
            *during = "timing";
            let work = |operands| mounted.work(0, operands, Scalars::PLAIN);
            let (step, launches_per_sample) =
                self.stopwatch.race(self.executor, &work, &mut racer, race)?;
            *during = "unloading";
            let resources = self.resources(candidate, mounted.facts());
            self.unmount(mounted)?;
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
                        regime: self.stopwatch.regime(),
                        timing: Timing::Measured,
                        sm_clock_mhz: None,
                    };
                    return Ok(Outcome::Correct { validation, measurement, resources });
                }
            }
        }
    }

    /// A validator for a problem, this one's or another of the same dtype, with other values: which
    /// ones, `values` says. It ends with the worker.
    pub(super) fn other_validator(
        &mut self,
        problem: &Problem,
        values: u64,
    ) -> Result<Validator, WorkerError> {
        self.executor.set_deadline(prepare_seconds(problem));
        let seed = self.seed.wrapping_add(values);
        Validator::prepare(self.executor, &self.validation_image, problem, seed)
    }

    /// Gives each deed that follows as long as an unknown kernel for `problem` may take.
    pub(super) fn expect(&mut self, problem: &Problem) {
        self.executor.set_deadline(deadline_seconds(problem, None));
    }

    /// Loads candidates that are launched for `problem`, and allocates their workspaces: as large as the largest
    /// that any has at that place.
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
            let probe = OperandAddresses { a: 0, b: 0, c: 0 };
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

    pub(super) fn unmount(&mut self, mounted: Mounted) -> Result<(), WorkerError> {
        for zone in mounted.workspaces {
            zone.free(self.executor)?;
        }
        for (loaded, _) in mounted.loaded {
            self.executor.unload(loaded.module)?;
        }
        Ok(())
    }

    fn free(self) -> Result<(), WorkerError> {
        self.stopwatch.release(self.executor)?;
        self.validator.release(self.executor)
    }

    fn resources(&self, candidate: &Candidate, facts: &[KernelFacts]) -> Resources {
        let device = self.executor.device();
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
}

impl Evaluator for GpuEvaluator<'_> {
    fn evaluate(&mut self, candidate: &Candidate, race: &Race) -> Result<Evaluated, TuneError> {
        let shared = Arc::clone(&self.shared);
        let _turn = shared.turn(LeasePriority::Shortly);
        self.executor.set_deadline(deadline_seconds(&self.problem, race.best()));
        let mut during = "loading";
        let result = self.try_evaluate(candidate, race, &mut during);
        let error = match result {
            Ok(outcome) => return Ok(Evaluated { outcome, restarted: None }),
            Err(error) => error,
        };
        let mut restarted = None;
        if error.ends_worker() {
            self.restart()?;
            restarted = Some(error.to_string());
        }
        Ok(Evaluated { outcome: outcome_of(error, during), restarted })
    }

    fn decide(
        mut self: Box<Self>,
        kept: Vec<Kept>,
        sanitizer: Option<&Sanitizer>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Decided, TuneError> {
        let shared = Arc::clone(&self.shared);
        let _turn = shared.turn(LeasePriority::Long);
        let decided = final_round::decide(&mut self, kept, sanitizer, on_event)?;
        self.free()?;
        Ok(decided)
    }

    fn restarts(&self) -> usize {
        self.restarts
    }

    fn release(self: Box<Self>) -> Result<(), TuneError> {
        let shared = Arc::clone(&self.shared);
        let _turn = shared.turn(LeasePriority::Shortly);
        Ok(self.free()?)
    }
}

/// What a candidate gets that broke off.
pub(super) fn outcome_of(error: WorkerError, during: &str) -> Outcome {
    match error {
        WorkerError::TimedOut { seconds } => Outcome::Timeout { seconds },
        error => Outcome::Runtime(Fault { during: during.to_owned(), message: error.to_string() }),
    }
}

fn ready(
    executor: &mut dyn Executor,
    problem: &Problem,
    image: &[u8],
    seed: u64,
    regime: Regime,
) -> Result<(Validator, Stopwatch), WorkerError> {
    executor.set_deadline(prepare_seconds(problem));
    let validator = Validator::prepare(executor, image, problem, seed)?;
    let stopwatch = Stopwatch::prepare(executor, &validator, problem, regime)?;
    Ok((validator, stopwatch))
}

fn prepare_seconds(problem: &Problem) -> f64 {
    PREPARE_SECONDS + patience_seconds(problem)
}

/// How long a kernel for a problem may take about which nothing is known.
pub(super) fn patience_seconds(problem: &Problem) -> f64 {
    problem.operations() / SLOWEST_RATE
}

fn deadline_seconds(problem: &Problem, best: Option<Micros>) -> f64 {
    match best {
        Some(best) => KNOWN_ALLOWANCE_SECONDS + HOPELESS_FACTOR * best.0 / 1e6,
        None => ALLOWANCE_SECONDS + patience_seconds(problem),
    }
}
