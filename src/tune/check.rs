//! Checking without timing: configurations of families are rendered, compiled to PTX, executed on this host with every check
//! on, and validated. It needs no GPU. A configuration that is legal for several problems is compiled once where its source
//! is the same.

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
use crate::model::{Configuration, Device, LocatedFailure, Outcome, Problem};
use crate::render::{Templates, render};
use crate::space::{Family, LegalSpace};
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

/// A configuration and the problems that it is checked for.
struct CheckJob<'a> {
    family: &'a Family,
    configuration: Configuration,
    /// The place of each problem, and the place of its result.
    problems: Vec<(usize, usize)>,
}

impl CheckJob<'_> {
    fn failed(&self, outcome: Outcome, failure: LocatedFailure) -> FailedCandidate {
        FailedCandidate { configuration: self.configuration.clone(), outcome, failure }
    }
}

/// The result of one execution: the job, the place of the result, and what went wrong.
type CheckReport = (usize, usize, Result<(), FailedCandidate>);

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
    let needed = checks.problems.iter().map(HostValidator::footprint).sum();
    if let (Some(free), Some(first)) = (GlobalMemory::host_available(), checks.problems.first())
        && needed > free
    {
        let problem = format!("{first} with the other problems");
        return Err(TuneError::Memory { problem, needed, free });
    }
    let (jobs, mut results) = sample(checks)?;
    on_event(CheckEvent::Started { executions: jobs.iter().map(|job| job.problems.len()).sum() });
    let validators: Vec<OnceLock<Result<HostValidator, HostFailure>>> =
        checks.problems.iter().map(|_| OnceLock::new()).collect();
    let worker = CheckWorker { checks, compiler, validators: &validators };
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
                Ok(()) => checked.passed += 1,
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
        jobs.extend(drawn.into_values());
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

/// The state that the threads share.
struct CheckWorker<'a> {
    checks: &'a CheckPlan<'a>,
    compiler: &'a dyn Compile,
    validators: &'a [OnceLock<Result<HostValidator, HostFailure>>],
}

impl CheckWorker<'_> {
    /// Executes a configuration for all its problems. `report` returns whether to continue.
    ///
    /// # Errors
    /// Only where the compiler or the host cannot be used.
    fn execute(
        &self,
        job: &CheckJob<'_>,
        report: &mut dyn FnMut(usize, Result<(), FailedCandidate>) -> bool,
    ) -> Result<(), TuneError> {
        // Problems of one layout mostly share their source.
        let mut last: Option<(Arc<str>, Result<PtxModule, Outcome>)> = None;
        for (problem_at, place) in &job.problems {
            let problem = &self.checks.problems[*problem_at];
            let device = self.checks.device;
            let prepare = || HostValidator::prepare(problem, device, self.checks.seed);
            let validator = self.validators[*problem_at].get_or_init(prepare);
            let validator = validator.as_ref().map_err(|failure| failure.clone())?;
            let templates = self.checks.templates;
            let rendered = render(job.family, templates, &job.configuration, problem, device);
            let result = match rendered {
                Err(error) => {
                    let failure = located_render(&error);
                    Err(job.failed(failed_render(error), failure))
                }
                Ok(rendered) => {
                    let source: Arc<str> = rendered.source.into();
                    let known = last.take().filter(|(known, _)| *known == source);
                    let (_, program) = last.insert(match known {
                        Some(known) => known,
                        None => {
                            let program = self.compile(&job.family.name, &source)?;
                            (source, program)
                        }
                    });
                    let result = program.as_ref().map_err(Outcome::clone).and_then(|program| {
                        validator
                            .validate(program, &rendered.plan, CountingMode::Off)
                            .map(|_| ())
                            .map_err(failed)
                    });
                    result.map_err(|outcome| {
                        let candidate = (job.family, &job.configuration);
                        let failure = located(&outcome, candidate, (problem, device), templates);
                        job.failed(outcome, failure.unwrap_or_default())
                    })
                }
            };
            if !report(*place, result) {
                break;
            }
        }
        Ok(())
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
