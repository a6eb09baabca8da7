//! CPU evaluator: executes candidates as PTX on the `cpu` device and validates them. Times are
//! modelled from the executed instructions, and predicted by the learned model of the assumed GPU where there is one.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::candidate::{CompiledCandidate, Evaluated};
use super::error::TuneError;
use super::evaluator::Evaluator;
use super::event::TuneEvent;
use super::finalist::{FinalOptions, FinalRanking, Finalist};
use crate::cpu::{CountingMode, Counts, GlobalMemory, LaunchError, PtxModule};
use crate::measure::Race;
use crate::model::{Device, Fault, Measurement, Outcome, Problem, Regime, Resources, Timing};
use crate::predict::{ExecutedLaunch, LaunchLoad, executed_time};
use crate::validate::{HostFailure, HostValidator};

/// Operands in host memory, and the device that times are modelled for.
pub(super) struct CpuEvaluator {
    problem: Problem,
    device: Device,
    validator: HostValidator,
}

impl CpuEvaluator {
    /// Makes the operands.
    pub(super) fn prepare(
        problem: Problem,
        device: Device,
        seed: u64,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Self, TuneError> {
        let needed = HostValidator::footprint(&problem);
        if let Some(free) = GlobalMemory::host_available()
            && needed > free
        {
            return Err(TuneError::Memory { problem: problem.to_string(), needed, free });
        }
        let validator =
            HostValidator::prepare(&problem, &device, seed)?.interrupted_by(interrupted);
        Ok(Self { problem, device, validator })
    }

    /// The outcome of a candidate; an error where the run was interrupted.
    fn outcome(
        &self,
        candidate: &CompiledCandidate,
    ) -> Result<Result<Outcome, Outcome>, TuneError> {
        let program = match parse(&candidate.compiled.image) {
            Ok(program) => program,
            Err(outcome) => return Ok(Err(outcome)),
        };
        let validated = self.validator.validate(&program, &candidate.plan, CountingMode::On);
        let executed = match validated {
            Ok(executed) => executed,
            Err(HostFailure::Launch(LaunchError::Interrupted)) => {
                return Err(TuneError::Interrupted);
            }
            Err(failure) => return Ok(Err(failed(failure))),
        };
        let launches = launches(candidate, &program, &executed.counts);
        let loads: Vec<LaunchLoad> = launches.iter().map(ExecutedLaunch::load).collect();
        let time = executed_time(&loads, &self.problem, &self.device, candidate.predicted);
        Ok(Ok(Outcome::Correct {
            validation: executed.validation,
            measurement: Measurement {
                samples: vec![time],
                launches_per_sample: 1,
                regime: Regime::default(),
                timing: Timing::Modelled,
                sm_clock_mhz: None,
            },
            resources: resources(candidate, &launches, &self.device),
        }))
    }
}

/// The program of a compiled candidate, or the outcome of one that does not parse.
pub(super) fn parse(image: &[u8]) -> Result<PtxModule, Outcome> {
    PtxModule::parse(&String::from_utf8_lossy(image)).map_err(|error| {
        Outcome::Runtime(Fault { during: "loading".to_owned(), message: error.to_string() })
    })
}

/// The outcome of a candidate that failed on the host.
pub(super) fn failed(failure: HostFailure) -> Outcome {
    match failure {
        HostFailure::Wrong(mismatch) => Outcome::Correctness(*mismatch),
        other => {
            Outcome::Runtime(Fault { during: "executing".to_owned(), message: other.to_string() })
        }
    }
}

impl Evaluator for CpuEvaluator {
    fn evaluate(
        &mut self,
        candidate: &CompiledCandidate,
        _race: &Race,
    ) -> Result<Evaluated, TuneError> {
        let outcome = match self.outcome(candidate)? {
            Ok(outcome) | Err(outcome) => outcome,
        };
        Ok(Evaluated { outcome, restarted: None })
    }

    /// Ranks by the modelled times, which have no noise. No library takes part.
    fn decide(
        self: Box<Self>,
        finalists: Vec<Finalist>,
        _options: FinalOptions<'_>,
        _stop: &AtomicBool,
        _on_event: &mut dyn FnMut(TuneEvent<'_>),
    ) -> Result<FinalRanking, TuneError> {
        let ranking = finalists.into_iter().map(|finalist| finalist.standing).collect();
        Ok(FinalRanking { ranking, ..FinalRanking::default() })
    }

    fn restarts(&self) -> usize {
        0
    }

    fn release(self: Box<Self>) -> Result<(), TuneError> {
        Ok(())
    }
}

/// The launches of a plan with their counts and resources.
fn launches<'a>(
    candidate: &'a CompiledCandidate,
    program: &PtxModule,
    counts: &'a [Counts],
) -> Vec<ExecutedLaunch<'a>> {
    let launches = candidate.plan.kernels.iter().zip(counts).filter_map(|(launch, counts)| {
        let facts = program.kernel(&launch.entry)?.facts();
        let assembled = candidate.compiled.resources.get(&launch.entry);
        Some(ExecutedLaunch {
            launch,
            counts,
            registers: assembled.map_or(facts.live_registers, |figures| figures.registers.into()),
            shared_bytes: facts.static_shared_bytes + u64::from(launch.dynamic_shared_bytes),
        })
    });
    launches.collect()
}

fn resources(
    candidate: &CompiledCandidate,
    launches: &[ExecutedLaunch<'_>],
    device: &Device,
) -> Resources {
    let most = |of: fn(&ExecutedLaunch<'_>) -> u64| {
        launches.iter().map(of).max().and_then(|most| u32::try_from(most).ok()).unwrap_or(0)
    };
    let spills = candidate.compiled.resources.values().map(|figures| figures.spill_bytes());
    Resources {
        registers: most(|launch| launch.registers),
        spill_bytes: spills.max().unwrap_or(0),
        shared_bytes: most(|launch| launch.shared_bytes),
        occupancy: launches.iter().map(|launch| launch.occupancy(device).share).reduce(f64::min),
    }
}
