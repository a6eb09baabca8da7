//! Checking without timing: configurations of families are rendered, compiled to PTX, executed on this host with every check
//! on, and validated. It needs no GPU. Operands are packed first, and then stored with their rows apart, where the
//! configuration serves that. A configuration that is legal for several problems is compiled once where its source is the same.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;

use super::cpu_evaluator::{failed, parse};
use super::error::TuneError;
use super::failed::{FailedCandidate, failed_compile, failed_render, located, located_render};
use crate::compile::{Compile, CompileRequest};
use crate::cpu::{CountingMode, GlobalMemory, PtxModule};
use crate::model::{
    Configuration, Device, Fault, GemmType, LocatedFailure, Mismatch, Outcome, Problem,
    ProblemPattern, Storage,
};
use crate::render::{Templates, render_stored};
use crate::space::{Extents, Family, LegalSpace, Legality};
use crate::validate::{HostFailure, HostValidator};

/// How many configurations of a family are checked for a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// All that are legal.
    All,
    /// The family's default, and others at random up to this number.
    Of(usize),
}

/// What to check.
#[derive(Debug, Clone)]
pub struct CheckPlan<'a> {
    /// The families.
    pub families: &'a [Family],
    /// Their templates.
    pub templates: &'a Templates,
    /// The problems.
    pub problems: &'a [Problem],
    /// The device that configurations are legal for and rendered for: [`Device::cpu`] or a variant of it.
    pub device: &'a Device,
    /// How many configurations of each family.
    pub sample: Sample,
    /// Seeds sample and operands.
    pub seed: u64,
    /// Threads that compile and execute.
    pub jobs: NonZeroUsize,
}

/// The results of a family's configurations for a problem.
#[derive(Debug, Clone)]
pub struct CheckResult {
    /// The family.
    pub family: String,
    /// The problem.
    pub problem: Problem,
    /// Legal configurations; none where the family does not serve the problem.
    pub legal: usize,
    /// How many were executed and are correct.
    pub passed: usize,
    /// How many of these serve rows that are apart, and are correct on them too.
    pub padded: usize,
    /// Those that failed, and how.
    pub failures: Vec<FailedCandidate>,
}

/// Something that happened while checking.
#[derive(Debug)]
pub enum CheckEvent<'a> {
    /// The sample is drawn.
    Started {
        /// Executions that will be made.
        executions: usize,
    },
    /// A configuration was executed for a problem.
    Executed {
        /// How many were so far.
        count: usize,
        /// The family.
        family: &'a str,
        /// The problem.
        problem: &'a Problem,
        /// The configuration.
        configuration: &'a Configuration,
        /// What went wrong, where something did.
        failure: Option<&'a FailedCandidate>,
    },
}

/// A configuration and the problems that it is checked for. In the end they are of one pattern: others have sources of
/// their own.
struct CheckJob<'a> {
    family: &'a Family,
    configuration: Configuration,
    /// The place of each problem, and the place of its result.
    problems: Vec<(usize, usize)>,
}

impl<'a> CheckJob<'a> {
    /// A job for each pattern of its problems.
    fn by_pattern(self, problems: &[Problem]) -> impl Iterator<Item = Self> + use<'a> {
        let mut jobs: IndexMap<ProblemPattern, Self> = IndexMap::new();
        for place in &self.problems {
            let configuration = || self.configuration.clone();
            let new = || Self { configuration: configuration(), problems: Vec::new(), ..self };
            let job = jobs.entry(problems[place.0].pattern()).or_insert_with(new);
            job.problems.push(*place);
        }
        jobs.into_values()
    }

    fn failed(&self, outcome: Outcome, failure: LocatedFailure) -> FailedCandidate {
        FailedCandidate { configuration: self.configuration.clone(), outcome, failure }
    }
}

/// The result of one execution: the job, the place of the result, and what went wrong.
type CheckReport = (usize, usize, Result<Correct, FailedCandidate>);

/// What a correct configuration was executed on.
struct Correct {
    /// Whether on rows that are apart too.
    padded: bool,
}

/// Checks a sample of each family for each problem. Gives one result for every pair, families in order. When `stop` is
/// set, it ends with the executions so far.
///
/// # Errors
/// See [`TuneError`]; a configuration that fails is a result, and no error.
pub fn check(
    checks: &CheckPlan<'_>,
    compiler: &dyn Compile,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(CheckEvent<'_>),
) -> Result<Vec<CheckResult>, TuneError> {
    // Operands are stored in up to three ways.
    let needed = checks.problems.iter().map(HostValidator::footprint).sum::<u64>() * 3;
    if let (Some(free), Some(first)) = (GlobalMemory::host_available(), checks.problems.first())
        && needed > free
    {
        let problem = format!("{first} with the other problems");
        return Err(TuneError::Memory { problem, needed, free });
    }
    let (jobs, mut results) = sample(checks)?;
    on_event(CheckEvent::Started { executions: jobs.iter().map(|job| job.problems.len()).sum() });
    let operands: Vec<Vec<StoredOperands>> =
        checks.problems.iter().map(StoredOperands::of).collect();
    let worker = CheckWorker { checks, compiler, operands: &operands };
    let next = AtomicUsize::new(0);
    let (sender, reports) = mpsc::channel();
    let mut broken = None;
    std::thread::scope(|scope| {
        for _ in 0..checks.jobs.get().min(jobs.len()) {
            let sender = sender.clone();
            scope.spawn(|| {
                let sender = sender;
                while !stop.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { break };
                    let sent = worker.execute(job, &mut |place, result| {
                        sender.send(Ok((at, place, result))).is_ok()
                    });
                    if let Err(error) = sent {
                        // The receiver is there as long as any thread runs.
                        let _ = sender.send(Err(error));
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut failures = Vec::new();
        let mut count = 0;
        for report in reports {
            let (job, place, result): CheckReport = match report {
                Ok(report) => report,
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    broken = Some(error);
                    continue;
                }
            };
            count += 1;
            let (at, job, checked) = (job, &jobs[job], &mut results[place]);
            on_event(CheckEvent::Executed {
                count,
                family: &job.family.name,
                problem: &checked.problem,
                configuration: &job.configuration,
                failure: result.as_ref().err(),
            });
            match result {
                Ok(Correct { padded }) => {
                    checked.passed += 1;
                    checked.padded += usize::from(padded);
                }
                Err(failed) => failures.push((at, place, failed)),
            }
        }
        // In the order of the sample, whichever thread was first.
        failures.sort_by_key(|(job, _, _)| *job);
        for (_, place, failed) in failures {
            results[place].failures.push(failed);
        }
    });
    match broken {
        Some(error) => Err(error),
        None => Ok(results),
    }
}

/// Draws the sample. A configuration that was drawn for one problem is taken for the next one too, where it is legal.
fn sample<'a>(checks: &CheckPlan<'a>) -> Result<(Vec<CheckJob<'a>>, Vec<CheckResult>), TuneError> {
    let device = checks.device;
    let (mut jobs, mut results) = (Vec::new(), Vec::new());
    for family in checks.families {
        checks.templates.check(family)?;
        let mut drawn: IndexMap<String, CheckJob<'a>> = IndexMap::new();
        for (at, problem) in checks.problems.iter().enumerate() {
            let place = results.len();
            let mut checked = CheckResult {
                family: family.name.clone(),
                problem: *problem,
                legal: 0,
                passed: 0,
                padded: 0,
                failures: Vec::new(),
            };
            if family.refusal(problem, device).is_none() {
                let space = LegalSpace::of(family, problem, device)?;
                checked.legal = space.len();
                let default = family
                    .default_for(problem, device)
                    .map_err(|error| TuneError::Space(error.into()))?;
                for configuration in draw(checks, &space, default, &drawn) {
                    let entry = drawn.entry(configuration.to_string());
                    let new = || CheckJob { family, configuration, problems: Vec::new() };
                    entry.or_insert_with(new).problems.push((at, place));
                }
            }
            results.push(checked);
        }
        jobs.extend(drawn.into_values().flat_map(|job| job.by_pattern(checks.problems)));
    }
    Ok((jobs, results))
}

/// The configurations of a space that are checked.
fn draw(
    checks: &CheckPlan<'_>,
    space: &LegalSpace,
    default: Option<Configuration>,
    drawn: &IndexMap<String, CheckJob<'_>>,
) -> Vec<Configuration> {
    let wanted = match checks.sample {
        Sample::All => return (0..space.len()).filter_map(|rank| space.get(rank)).collect(),
        Sample::Of(wanted) => wanted.min(space.len()),
    };
    let mut ranks: IndexMap<usize, ()> = IndexMap::new();
    let known = drawn.values().map(|job| &job.configuration);
    for configuration in default.iter().chain(known) {
        if ranks.len() < wanted
            && let Some(rank) = space.rank(configuration)
        {
            ranks.insert(rank, ());
        }
    }
    let mut random = fastrand::Rng::with_seed(checks.seed);
    while ranks.len() < wanted {
        ranks.insert(random.usize(..space.len()), ());
    }
    ranks.into_keys().filter_map(|rank| space.get(rank)).collect()
}

/// Operands of a problem as they are stored, made when they are first needed.
struct StoredOperands {
    storage: Storage,
    validator: OnceLock<Result<HostValidator, HostFailure>>,
}

impl StoredOperands {
    /// Packed, and then with rows that are longer than what they hold: by one element, at addresses that are aligned to an
    /// element; and up to a multiple of 16 bytes.
    fn of(problem: &Problem) -> Vec<Self> {
        let packed = Storage::packed(problem);
        let GemmType { a, b, d, .. } = problem.types;
        let bytes = [a, b, d].map(|dtype| dtype.bytes());
        let longer = |by: &dyn Fn(u64) -> u64, alignment| {
            let Storage { lda, ldb, ldc, .. } = packed;
            Storage { lda: by(lda), ldb: by(ldb), ldc: by(ldc), alignment }
        };
        let least = bytes.into_iter().max().unwrap_or(1);
        let vector = VECTOR_BYTES / bytes.into_iter().min().unwrap_or(1);
        let by_one = longer(&|row| row + 1, least);
        let by_vectors = longer(&|row| (row + 1).next_multiple_of(vector), Storage::ALLOCATED);
        [packed, by_one, by_vectors]
            .map(|storage| Self { storage, validator: OnceLock::new() })
            .into()
    }

    /// A failure that says how the operands are stored, where they are not packed.
    fn named(&self, problem: &Problem, failure: Outcome) -> Outcome {
        let Storage { lda, ldb, ldc, alignment } = self.storage;
        if self.storage == Storage::packed(problem) {
            return failure;
        }
        let stored =
            format!("lda {lda}, ldb {ldb}, ldc {ldc}, addresses aligned to {alignment} bytes");
        match failure {
            Outcome::Correctness(mismatch) => {
                let check = format!("{stored}: {}", mismatch.check);
                Outcome::Correctness(Mismatch { check, ..mismatch })
            }
            Outcome::Runtime(fault) => {
                let during = format!("{} with {stored}", fault.during);
                Outcome::Runtime(Fault { during, ..fault })
            }
            other => other,
        }
    }
}

/// Bytes of the widest vector access of a thread; TMA takes rows of multiples of as many.
const VECTOR_BYTES: u64 = 16;

/// The sources of a job that were compiled, and what came of them. Its problems mostly share one where they are packed, and
/// another where rows are apart.
type Programs = HashMap<Arc<str>, Result<PtxModule, Outcome>>;

/// The state that the threads share.
struct CheckWorker<'a> {
    checks: &'a CheckPlan<'a>,
    compiler: &'a dyn Compile,
    /// Those of each problem.
    operands: &'a [Vec<StoredOperands>],
}

impl CheckWorker<'_> {
    /// Executes a configuration for all its problems. `report` returns whether to continue.
    ///
    /// # Errors
    /// Only where the compiler or the host cannot be used.
    fn execute(
        &self,
        job: &CheckJob<'_>,
        report: &mut dyn FnMut(usize, Result<Correct, FailedCandidate>) -> bool,
    ) -> Result<(), TuneError> {
        let mut programs = Programs::new();
        for (problem_at, place) in &job.problems {
            let problem = &self.checks.problems[*problem_at];
            let legality =
                Legality::of(job.family, &job.configuration, problem, self.checks.device);
            let permits = |storage: &Storage| {
                let extents = Extents::new(problem, storage);
                legality.as_ref().is_some_and(|one| one.permits(job.family, &extents))
            };
            let mut all = self.operands[*problem_at].iter();
            let packed = all.next();
            // The first one that it serves is the harder one.
            let apart = all.find(|operands| permits(&operands.storage));
            let mut result = Ok(());
            for operands in packed.into_iter().chain(apart) {
                result = self.execute_stored(job, problem, operands, &mut programs)?;
                if result.is_err() {
                    break;
                }
            }
            if !report(*place, result.map(|()| Correct { padded: apart.is_some() })) {
                break;
            }
        }
        Ok(())
    }

    /// Executes a configuration for a problem as it is stored.
    fn execute_stored(
        &self,
        job: &CheckJob<'_>,
        problem: &Problem,
        operands: &StoredOperands,
        programs: &mut Programs,
    ) -> Result<Result<(), FailedCandidate>, TuneError> {
        let CheckPlan { device, templates, seed, .. } = *self.checks;
        let storage = &operands.storage;
        let prepare = || HostValidator::prepare_stored(problem, storage, device, seed);
        let validator =
            operands.validator.get_or_init(prepare).as_ref().map_err(HostFailure::clone)?;
        let (family, configuration) = (job.family, &job.configuration);
        let rendered = render_stored(family, templates, configuration, problem, storage, device);
        let rendered = match rendered {
            Err(error) => {
                let failure = located_render(&error);
                return Ok(Err(job.failed(failed_render(error), failure)));
            }
            Ok(rendered) => rendered,
        };
        let source: Arc<str> = rendered.source.into();
        let program = match programs.entry(source) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let program = self.compile(&family.name, new.key())?;
                new.insert(program)
            }
        };
        let result = program.as_ref().map_err(Outcome::clone).and_then(|program| {
            validator
                .validate(program, &rendered.plan, CountingMode::Off)
                .map(|_| ())
                .map_err(|failure| operands.named(problem, failed(failure)))
        });
        Ok(result.map_err(|outcome| {
            let candidate = (family, configuration);
            let failure = located(&outcome, candidate, (problem, device), templates);
            job.failed(outcome, failure.unwrap_or_default())
        }))
    }

    fn compile(
        &self,
        family: &str,
        source: &Arc<str>,
    ) -> Result<Result<PtxModule, Outcome>, TuneError> {
        let request = CompileRequest::kernel(family, Arc::clone(source));
        match self.compiler.compile(&request) {
            Ok(compiled) => Ok(parse(&compiled.image)),
            Err(error) if error.ends_run() => Err(error.into()),
            Err(error) => Ok(Err(failed_compile(error))),
        }
    }
}
