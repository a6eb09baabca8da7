//! The end of a search: the finalists and the libraries take turns on the device, and the fastest
//! of the finalists wins.

use std::fmt;

use super::evaluator::{BaselineTime, Candidate, Certainty, Decided, Kept, Refuted, Standing};
use super::finalist_checks::check_finalist;
use super::gpu_evaluator::GpuEvaluator;
use super::sanitize::{Sanitized, Sanitizer};
use super::{Event, TuneError, median};
use crate::measure::{ConditionsRange, Confidence, Entrant, Final, FinalRules, WorkFor, run_final};
use crate::model::{LaunchPlan, Micros, Outcome, floor};
use crate::validate::ValidationSubject;
use crate::worker::{OperandAddresses, Scalars, Work, WorkerError};

/// Candidates that take part. A judgement: the README's transcript has eight within 0.4 % of the
/// winner, so that a sixth could have won, by as little.
pub(super) const FINALISTS: usize = 5;

/// Heuristics that cuBLASLt is asked for; the fastest takes part.
const HEURISTICS: usize = 24;

/// Times by which a heuristic is judged before the final, if its first is within this of the best: first looks are
/// off by 1 % in one of ten cases.
const LOOKS: usize = 3;
const NEAR: f64 = 1.05;

/// A library routine that takes part.
struct Library {
    index: usize,
    name: String,
}

impl Library {
    fn work(&self, operands: OperandAddresses, scalars: Scalars) -> Vec<Work> {
        let OperandAddresses { a, b, c } = operands;
        let Scalars { alpha, beta } = scalars;
        vec![Work::Baseline { index: self.index, a, b, c, alpha, beta }]
    }
}

/// Holds the contest. Where it breaks (all who take part were validated, so only a device that
/// misbehaves breaks it) the candidates' own samples decide.
pub(super) fn decide(
    evaluator: &mut GpuEvaluator<'_>,
    kept: Vec<Kept>,
    sanitizer: Option<&Sanitizer>,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Decided, TuneError> {
    let mut decided = Decided::default();
    let (mut finalists, others) = choose(evaluator, kept, sanitizer, &mut decided, on_event)?;
    if !finalists.is_empty()
        && let Err(error) = hold_final(evaluator, &mut finalists, &mut decided, on_event)
    {
        on_event(Event::Note(format!("the contest broke off ({error}); samples decide")));
        if error.ends_worker() {
            evaluator.restart()?;
        }
    }
    let ranking = finalists.into_iter().chain(others);
    decided.ranking = ranking.map(|kept| kept.standing).collect();
    decided.baselines.sort_by(|a, b| median(&a.measurement).total_cmp(&median(&b.measurement)));
    Ok(decided)
}

/// The candidates that take part, and the others: the fastest that stand scrutiny, and those with a
/// claim that do. `kept` has the fastest first.
fn choose(
    evaluator: &mut GpuEvaluator<'_>,
    kept: Vec<Kept>,
    sanitizer: Option<&Sanitizer>,
    decided: &mut Decided,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<(Vec<Kept>, Vec<Kept>), TuneError> {
    let (mut finalists, mut others) = (Vec::new(), kept);
    let best = others.first().map_or(f64::INFINITY, |best| median(&best.standing.measurement));
    loop {
        let mut places = FINALISTS.saturating_sub(finalists.len());
        let takes_part = |kept: &mut Kept| {
            let fast = places > 0;
            places = places.saturating_sub(1);
            fast || kept.claim.holds(median(&kept.standing.measurement) / best)
        };
        let mut chosen: Vec<Kept> = others.extract_if(.., takes_part).collect();
        if chosen.is_empty() {
            finalists.sort_by(|a: &Kept, b: &Kept| {
                median(&a.standing.measurement).total_cmp(&median(&b.standing.measurement))
            });
            return Ok((finalists, others));
        }
        let mut failed = check_finalist(evaluator, &mut chosen, on_event)?;
        if let Some(sanitizer) = sanitizer {
            sanitise(evaluator, sanitizer, &mut chosen, &mut failed, on_event);
        }
        for (kept, failed) in chosen.into_iter().zip(failed) {
            let Some(outcome) = failed else {
                finalists.push(kept);
                continue;
            };
            let Standing { family, configuration, .. } = kept.standing;
            let why = outcome.failure().unwrap_or_default();
            on_event(Event::Note(format!("{family} {configuration} is out of the final: {why}")));
            decided.refuted.push(Refuted { kernel: kept.kernel, family, configuration, outcome });
        }
    }
}

/// Puts those that did not fail yet through the sanitizer.
fn sanitise(
    evaluator: &GpuEvaluator<'_>,
    sanitizer: &Sanitizer,
    chosen: &mut [Kept],
    failed: &mut [Option<Outcome>],
    on_event: &mut dyn FnMut(Event<'_>),
) {
    let left: Vec<usize> = (0..chosen.len()).filter(|place| failed[*place].is_none()).collect();
    on_event(Event::Note(format!("{} finalists run under compute-sanitizer", left.len())));
    let candidates: Vec<&Candidate> = left.iter().map(|place| &chosen[*place].candidate).collect();
    let verdicts = sanitizer.examine(&*evaluator.executor, &evaluator.problem, &candidates);
    for (place, verdict) in left.into_iter().zip(verdicts) {
        let standing = &mut chosen[place].standing;
        match verdict {
            Sanitized::Clean => standing.also.push(Sanitizer::passed()),
            Sanitized::Found(outcome) => failed[place] = Some(outcome),
            Sanitized::Untried(why) => on_event(Event::Note(format!(
                "{} {} was not tried by compute-sanitizer: {why}",
                standing.family, standing.configuration
            ))),
        }
    }
}

/// What ties are broken by, which names no time: the registers of a block, its shared memory, and
/// in the end the name.
type Modesty = (u64, u32, String);

fn modesty(standing: &Standing) -> Modesty {
    let threads = standing.plan.kernels.iter().map(|kernel| kernel.block.iter().product::<u32>());
    let registers = u64::from(standing.resources.registers);
    (
        registers * u64::from(threads.max().unwrap_or(0)),
        standing.resources.shared_bytes,
        format!("{} {}", standing.family, standing.configuration),
    )
}

/// Holds the final, and puts the finalists into its order.
fn hold_final(
    evaluator: &mut GpuEvaluator<'_>,
    finalists: &mut Vec<Kept>,
    decided: &mut Decided,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<(), WorkerError> {
    let libraries = libraries(evaluator, decided, on_event)?;
    let problem = evaluator.problem;
    let candidates = finalists.iter().map(|finalist| &finalist.candidate);
    let loads: Vec<(&[u8], &LaunchPlan)> =
        candidates.map(|candidate| (&*candidate.compiled.image, &candidate.plan)).collect();
    let mounted = evaluator.mount(&loads, &problem)?;
    on_event(Event::Contest { contestants: finalists.len() + libraries.len() });
    let candidates = (0..finalists.len()).map(|place| {
        let mounted = &mounted;
        Box::new(move |operands| mounted.work(place, operands, Scalars::PLAIN)) as BoxedWork<'_>
    });
    let others = libraries.iter().map(|library| {
        Box::new(|operands| library.work(operands, Scalars::PLAIN)) as BoxedWork<'_>
    });
    let boxes: Vec<BoxedWork<'_>> = candidates.chain(others).collect();
    let work: Vec<WorkFor<'_>> = boxes.iter().map(AsRef::as_ref).collect();
    let keys = finalists.iter().map(|kept| Entrant::Candidate(modesty(&kept.standing)));
    let entrants = keys.chain(libraries.iter().map(|_| Entrant::Baseline)).collect();
    let floor = floor(&evaluator.problem, evaluator.executor.device());
    let mut contest = Final::new(entrants, FinalRules { floor, ..FinalRules::default() });
    let held = run_final(evaluator.executor, &evaluator.stopwatch, &work, &mut contest)?;
    drop(boxes);
    let mut measurements = held.measurements.into_iter();
    evaluator.unmount(mounted)?;
    for (finalist, measurement) in finalists.iter_mut().zip(measurements.by_ref()) {
        // A final that broke off in its first round has no samples to go by.
        if !measurement.samples.is_empty() {
            finalist.standing.measurement = measurement;
            finalist.standing.contested = true;
        }
    }
    let timed = libraries.into_iter().zip(measurements);
    decided.baselines = timed
        .filter(|(_, measurement)| !measurement.samples.is_empty())
        .map(|(library, measurement)| BaselineTime { name: library.name, measurement })
        .collect();
    if let Some(verdict) = contest.result() {
        let taint = contest.disturbances().first().map(ToString::to_string);
        decided.certainty = Some(certainty(&verdict.confidence, finalists, taint, held.conditions));
        let place = |entrant: usize| verdict.order.iter().position(|p| p.entrant == entrant);
        let mut placed: Vec<(Option<usize>, Kept)> =
            finalists.drain(..).enumerate().map(|(at, kept)| (place(at), kept)).collect();
        placed.sort_by_key(|(place, _)| *place);
        finalists.extend(placed.into_iter().map(|(_, kept)| kept));
    }
    Ok(())
}

/// The final's confidence, with names for numbers.
fn certainty(
    confidence: &Confidence,
    finalists: &[Kept],
    taint: Option<String>,
    conditions: ConditionsRange,
) -> Certainty {
    let name = |entrant: usize| {
        let standing = finalists.get(entrant).map(|kept| &kept.standing)?;
        Some((standing.family.clone(), standing.configuration.clone()))
    };
    let runner_up = confidence.runner_up.as_ref().and_then(|place| {
        let (family, configuration) = name(place.entrant)?;
        Some((family, configuration, place.margin))
    });
    Certainty {
        runner_up,
        rounds: confidence.rounds,
        tainted_rounds: confidence.disturbed_rounds,
        taint,
        tie_set: confidence.tie_set.iter().filter_map(|entrant| name(*entrant)).collect(),
        ended: confidence.ended,
        conditions,
    }
}

type BoxedWork<'a> = Box<dyn Fn(OperandAddresses) -> Vec<Work> + 'a>;

/// cuBLAS, and the fastest of cuBLASLt's heuristics that gives right results.
fn libraries(
    evaluator: &mut GpuEvaluator<'_>,
    decided: &mut Decided,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<Library>, WorkerError> {
    let offered = evaluator.executor.baselines(&evaluator.problem, HEURISTICS)?;
    decided.library_version = offered.version;
    if let Some(note) = offered.note {
        on_event(Event::Note(format!("not compared with cuBLAS: {note}")));
    }
    let heuristics = offered.names.len().saturating_sub(1);
    let mut left_out = |name: &str, why: &dyn fmt::Display| {
        on_event(Event::Note(format!("{name} is left out: {why}")));
    };
    let (mut taking_part, mut timed) = (Vec::new(), Vec::new());
    for (index, name) in offered.names.into_iter().enumerate() {
        let library = Library { index, name };
        if index == 0 {
            match wrong(evaluator, &library)? {
                Some(why) => left_out(&library.name, &why),
                None => taking_part.push(library),
            }
            continue;
        }
        match look(evaluator, &library, 1) {
            Ok(time) => timed.push((time, library)),
            Err(error) if error.ends_worker() => return Err(error),
            Err(error) => left_out(&library.name, &error),
        }
    }
    let best = timed.iter().map(|(time, _)| time.0).fold(f64::INFINITY, f64::min);
    for (time, library) in timed.iter_mut().filter(|(time, _)| time.0 <= NEAR * best) {
        *time = look(evaluator, library, LOOKS)?;
    }
    timed.sort_by(|a, b| a.0.0.total_cmp(&b.0.0));
    // Validating takes as long as timing: only what may take part is.
    for (_, mut library) in timed {
        match wrong(evaluator, &library)? {
            Some(why) => left_out(&library.name, &why),
            None => {
                library.name = format!("cuBLASLt, best of {heuristics} ({})", library.name);
                taking_part.push(library);
                break;
            }
        }
    }
    Ok(taking_part)
}

/// What a routine takes, by the middle of so many times.
fn look(
    evaluator: &mut GpuEvaluator<'_>,
    library: &Library,
    looks: usize,
) -> Result<Micros, WorkerError> {
    let work = |operands| library.work(operands, Scalars::PLAIN);
    evaluator.stopwatch.probe_median(evaluator.executor, &work, looks)
}

/// Why a routine's result is wrong; `None` for a right one. A library that computed another
/// product than asked for would be no baseline.
fn wrong(
    evaluator: &mut GpuEvaluator<'_>,
    library: &Library,
) -> Result<Option<String>, WorkerError> {
    let work = |operands, scalars| library.work(operands, scalars);
    let subject = ValidationSubject { work: &work, workspaces: &[] };
    match evaluator.validator.validate(evaluator.executor, &subject) {
        Ok(Ok(_)) => Ok(None),
        Ok(Err(mismatch)) => Ok(Some(mismatch.to_string())),
        Err(error) if error.ends_worker() => Err(error),
        Err(error) => Ok(Some(error.to_string())),
    }
}
