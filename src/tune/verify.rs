//! A recorded winner timed again, in a final of its own with its runner-up and the libraries. What
//! was recorded of its time has no part in it; who asks compares.

use super::cpu_evaluator::CpuEvaluator;
use super::evaluator::{BaselineTime, Candidate, Evaluator, Standing};
use super::gpu_evaluator::GpuEvaluator;
use super::lineup::{LineUp, line_up};
use super::{Event, Kit, Machine, TuneError, median};
use crate::compile::{CompileError, CompileRequest};
use crate::measure::{Margin, Race};
use crate::model::{Configuration, Device, Micros, Outcome, Problem, Regime, Timing, floor};
use crate::render::render;

/// The confidence of intervals: that of the finals whose margins are on record.
pub(super) const CONFIDENCE: f64 = 0.96;

/// A family's name and a configuration of it.
pub type Named<'a> = (&'a str, &'a Configuration);

/// A winner timed again.
#[derive(Debug, Clone)]
pub struct Retimed {
    /// The winner, or why it is none.
    pub winner: Result<Standing, String>,
    /// The runner-up, or why it is none; `None` where nobody was asked for.
    pub runner_up: Option<Result<Standing, String>>,
    /// By how much the runner-up is slower than the winner; none where either is missing, or where
    /// the final broke off before its first rounds.
    pub margin: Option<Margin>,
    /// The libraries, fastest first, each with how much slower it is than the winner.
    pub libraries: Vec<(BaselineTime, Option<Margin>)>,
    /// Rounds that the winner was sampled in.
    pub rounds: usize,
    /// Rounds that were taken and thrown away.
    pub tainted_rounds: usize,
}

/// Renders, compiles, validates and times a winner and its runner-up anew, in a regime.
///
/// # Errors
/// See [`TuneError`]: where nothing can be timed at all. A kernel that is not legal any more, does
/// not compile or is wrong is no error, but what comes of it.
pub fn retime(
    problem: &Problem,
    winner: Named<'_>,
    runner_up: Option<Named<'_>>,
    kit: &mut Kit,
    (regime, seed): (Regime, u64),
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Retimed, TuneError> {
    let named: Vec<Named<'_>> = std::iter::once(winner).chain(runner_up).collect();
    let LineUp { standings, libraries, tainted_rounds } =
        line_up(problem, &named, kit, (regime, seed), on_event)?;
    let mut standings = standings.into_iter();
    let winner = standings.next().unwrap_or_else(|| Err("there is no winner".to_owned()));
    let runner_up = standings.next();
    let over = |other: &Standing| compare(&winner, other);
    let margin = runner_up.as_ref().and_then(|result| result.as_ref().ok()).and_then(over);
    let libraries = libraries.into_iter().map(|library| {
        let own = winner.as_ref().ok().filter(|winner| winner.contested);
        let margin = own.map(|winner| {
            let samples = &library.measurement.samples;
            Margin::between(samples, &winner.measurement.samples, CONFIDENCE)
        });
        (library, margin)
    });
    let libraries = libraries.collect();
    let sampled = winner.as_ref().ok().filter(|winner| winner.contested);
    Ok(Retimed {
        rounds: sampled.map_or(0, |winner| winner.measurement.samples.len()),
        tainted_rounds,
        margin,
        libraries,
        winner,
        runner_up,
    })
}

/// Times kernels for a problem, each by itself: its median, or why it has none.
///
/// # Errors
/// As [`retime`].
pub fn time_each(
    problem: &Problem,
    kernels: &[Named<'_>],
    kit: &mut Kit,
    (regime, seed): (Regime, u64),
) -> Result<Vec<Result<Micros, String>>, TuneError> {
    let device = kit.machine.device();
    let mut candidates = Vec::new();
    for named in kernels {
        candidates.push(candidate(problem, *named, kit, &device)?);
    }
    // All are kept in mind: none is dropped because others are faster.
    let race = Race::new(kernels.len(), floor(problem, &device));
    let mut evaluator = evaluator(problem, kit, (regime, seed))?;
    let mut times = Vec::new();
    for ((family, configuration), candidate) in kernels.iter().zip(candidates) {
        times.push(match candidate {
            Err(why) => Err(why),
            Ok(candidate) => {
                let evaluated = evaluator.evaluate(&candidate, &race)?;
                let standing = standing(family, configuration, &candidate, evaluated.outcome);
                standing.map(|standing| Micros(median(&standing.measurement)))
            }
        });
    }
    evaluator.release()?;
    Ok(times)
}

/// What evaluates candidates for a problem.
pub(super) fn evaluator<'k>(
    problem: &Problem,
    kit: &'k mut Kit,
    (regime, seed): (Regime, u64),
) -> Result<Box<dyn Evaluator + 'k>, TuneError> {
    let device = kit.machine.device();
    Ok(match &mut kit.machine {
        Machine::Host => Box::new(CpuEvaluator::prepare(*problem, device, seed)?),
        Machine::Gpus(gpus) => match gpus.first_mut() {
            Some(first) => {
                let compiler = kit.compiler.as_ref();
                Box::new(GpuEvaluator::prepare(first, *problem, compiler, regime, seed)?)
            }
            None => Box::new(CpuEvaluator::prepare(*problem, device, seed)?),
        },
    })
}

/// By how much `other` is slower than the winner. Measured times compare round by round; modelled
/// ones, which have no rounds, as they are.
fn compare(winner: &Result<Standing, String>, other: &Standing) -> Option<Margin> {
    let winner = winner.as_ref().ok()?;
    let (own, its) = (&winner.measurement, &other.measurement);
    if own.timing == Timing::Modelled {
        let percent = 100.0 * (median(its) / median(own) - 1.0);
        return Some(Margin { percent, low: percent, high: percent });
    }
    let contested = winner.contested && other.contested;
    contested.then(|| Margin::between(&its.samples, &own.samples, CONFIDENCE))
}

/// A compiled candidate, or why there is none.
pub(super) fn candidate(
    problem: &Problem,
    (family, configuration): Named<'_>,
    kit: &Kit,
    device: &Device,
) -> Result<Result<Candidate, String>, TuneError> {
    let Some(family) = kit.families.iter().find(|known| known.name == family) else {
        return Ok(Err(format!("no family is named `{family}`")));
    };
    if let Some(refusal) = family.refusal(problem, device) {
        return Ok(Err(format!("`{}` {refusal}", family.name)));
    }
    match family.forbidden(configuration, problem, device) {
        Ok(None) => {}
        Ok(Some(constraint)) => {
            return Ok(Err(format!(
                "it is not legal any more: `{}` ({})",
                constraint.text, constraint.because
            )));
        }
        Err(error) => return Ok(Err(error.summary())),
    }
    let rendered = match render(family, &kit.templates, configuration, problem, device) {
        Ok(rendered) => rendered,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let request = CompileRequest::kernel(&family.name, rendered.source);
    match kit.compiler.compile(&request) {
        Ok(compiled) => Ok(Ok(Candidate { plan: rendered.plan, compiled })),
        Err(error @ CompileError::Environment(_)) => Err(error.into()),
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// A correct candidate's standing, or what is wrong with it.
pub(super) fn standing(
    family: &str,
    configuration: &Configuration,
    candidate: &Candidate,
    outcome: Outcome,
) -> Result<Standing, String> {
    let failure = outcome.failure();
    let Outcome::Correct { validation, measurement, resources } = outcome else {
        return Err(failure.unwrap_or_else(|| "it is not correct".to_owned()));
    };
    Ok(Standing {
        family: family.to_owned(),
        configuration: configuration.clone(),
        plan: candidate.plan.clone(),
        validation,
        also: Vec::new(),
        measurement,
        resources,
        contested: false,
    })
}
