//! Final round: finalists and libraries are measured in turn on one device, and the fastest finalist wins.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use super::candidate::CompiledCandidate;
use super::error::TuneError;
use super::event::TuneEvent;
use super::finalist::{FINALISTS, FinalOptions, FinalRanking, Finalist, RejectedFinalist};
use super::finalist_checks::check_finalists;
use super::prepared_gpu::PreparedGpu;
use super::ranking::{BaselineTime, Certainty, FinalistRounds, Standing, median};
use super::sanitize::{Sanitized, Sanitizer};
use crate::gpu::{LibraryAlgorithm, LibraryOperands};
use crate::measure::{
    ConditionsRange, Entrant, Final, FinalResult, FinalRules, FinalStanding, TieRule, WorkFor,
    run_final,
};
use crate::model::{EpilogueOp, LaunchPlan, Micros, Outcome, floor};
use crate::validate::ValidationSubject;
use crate::worker::{
    LibraryRoutine, OfferedRoutine, OperandAddresses, Scalars, WorkItem, WorkerError,
};

/// Heuristics of cuBLASLt that are tried; the fastest one takes part.
const HEURISTICS: usize = 24;

/// Samples of a heuristic before the final, if its first one is within `NEAR` of the best: a first sample is off by 1 %
/// in one of ten cases.
const SAMPLES: usize = 3;
const NEAR: f64 = 1.05;

/// A library routine that takes part.
struct LibraryEntrant {
    routine: LibraryRoutine,
    name: String,
    algorithm: Option<LibraryAlgorithm>,
}

impl LibraryEntrant {
    fn work(&self, operands: OperandAddresses, scalars: Scalars) -> Vec<WorkItem> {
        let OperandAddresses { a, b, c, epilogue } = operands;
        let operands = LibraryOperands { a, b, c, bias: epilogue.of(EpilogueOp::Bias) };
        let scalars = [scalars.alpha, scalars.beta];
        vec![WorkItem::Baseline { routine: self.routine, operands, scalars }]
    }
}

/// Decides among finalists. All entrants were validated, so that only a faulty device breaks the round; then the
/// finalists' own samples decide.
pub(super) fn decide(
    gpu: &mut PreparedGpu<'_>,
    candidates: Vec<Finalist>,
    options: FinalOptions<'_>,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(TuneEvent<'_>),
) -> Result<FinalRanking, TuneError> {
    let mut decided = FinalRanking::default();
    if stop.load(Ordering::Relaxed) {
        // Whoever sent the signal does not wait for a round.
        decided.ranking = candidates.into_iter().map(|finalist| finalist.standing).collect();
        return Ok(decided);
    }
    let (mut finalists, others) =
        choose(gpu, candidates, options.sanitizer, &mut decided, on_event)?;
    if !finalists.is_empty()
        && let Err(error) =
            hold_final(gpu, &mut finalists, &mut decided, (options.ties, stop), on_event)
    {
        on_event(TuneEvent::Note(format!(
            "the final round broke off ({error}); earlier samples decide"
        )));
        if error.ends_worker() {
            gpu.restart()?;
        }
    }
    let ranking = finalists.into_iter().chain(others);
    decided.ranking = ranking.map(|finalist| finalist.standing).collect();
    Ok(decided)
}

/// The candidates that take part, and the others. The fastest that pass the checks take part, and those that are
/// admitted for another reason. `candidates` are in order of their times.
fn choose(
    gpu: &mut PreparedGpu<'_>,
    candidates: Vec<Finalist>,
    sanitizer: Option<&Sanitizer>,
    decided: &mut FinalRanking,
    on_event: &mut dyn FnMut(TuneEvent<'_>),
) -> Result<(Vec<Finalist>, Vec<Finalist>), TuneError> {
    let (mut finalists, mut others) = (Vec::new(), candidates);
    let best = others.first().map_or(f64::INFINITY, |best| median(&best.standing.measurement));
    loop {
        let mut places = FINALISTS.saturating_sub(finalists.len());
        let takes_part = |candidate: &mut Finalist| {
            let fast = places > 0;
            places = places.saturating_sub(1);
            fast || candidate.admission.admits(median(&candidate.standing.measurement) / best)
        };
        let mut chosen: Vec<Finalist> = others.extract_if(.., takes_part).collect();
        if chosen.is_empty() {
            finalists.sort_by(|a: &Finalist, b: &Finalist| {
                median(&a.standing.measurement).total_cmp(&median(&b.standing.measurement))
            });
            return Ok((finalists, others));
        }
        let mut failed = check_finalists(gpu, &mut chosen, on_event)?;
        if let Some(sanitizer) = sanitizer {
            sanitise(gpu, sanitizer, &mut chosen, &mut failed, on_event);
        }
        for (finalist, failed) in chosen.into_iter().zip(failed) {
            let Some(outcome) = failed else {
                finalists.push(finalist);
                continue;
            };
            let Standing { family, configuration, .. } = finalist.standing;
            let why = outcome.failure().unwrap_or_default();
            on_event(TuneEvent::Note(format!(
                "{family} {configuration} is rejected from the final: {why}"
            )));
            decided.rejected.push(RejectedFinalist {
                kernel: finalist.kernel,
                family,
                configuration,
                outcome,
            });
        }
    }
}

/// Runs finalists that did not fail yet under the sanitizer.
fn sanitise(
    gpu: &PreparedGpu<'_>,
    sanitizer: &Sanitizer,
    chosen: &mut [Finalist],
    failed: &mut [Option<Outcome>],
    on_event: &mut dyn FnMut(TuneEvent<'_>),
) {
    let left: Vec<usize> = (0..chosen.len()).filter(|place| failed[*place].is_none()).collect();
    on_event(TuneEvent::Note(format!("{} finalists run under compute-sanitizer", left.len())));
    let candidates: Vec<&CompiledCandidate> =
        left.iter().map(|place| &chosen[*place].candidate).collect();
    let verdicts = sanitizer.examine(&*gpu.executor, &gpu.problem, &candidates);
    for (place, verdict) in left.into_iter().zip(verdicts) {
        let standing = &mut chosen[place].standing;
        match verdict {
            Sanitized::Clean => standing.also.push(Sanitizer::passed()),
            Sanitized::Found(outcome) => failed[place] = Some(outcome),
            Sanitized::NotRun(why) => on_event(TuneEvent::Note(format!(
                "{} {} could not run under compute-sanitizer: {why}",
                standing.family, standing.configuration
            ))),
        }
    }
}

/// The order that breaks ties, which depends on no time: registers of a block, its shared memory, then the name.
type TieBreak = (u64, u32, String);

fn tie_break(standing: &Standing) -> TieBreak {
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
    gpu: &mut PreparedGpu<'_>,
    finalists: &mut Vec<Finalist>,
    decided: &mut FinalRanking,
    (ties, stop): (TieRule, &AtomicBool),
    on_event: &mut dyn FnMut(TuneEvent<'_>),
) -> Result<(), WorkerError> {
    let problem = gpu.problem;
    gpu.validate_on(&problem, 0)?;
    gpu.allow_kernel(&problem, None);
    let libraries = libraries(gpu, decided, on_event)?;
    let candidates = finalists.iter().map(|finalist| &finalist.candidate);
    let loads: Vec<(&[u8], &LaunchPlan)> =
        candidates.map(|candidate| (&*candidate.compiled.image, &candidate.plan)).collect();
    let mounted = gpu.mount(&loads, &problem)?;
    on_event(TuneEvent::FinalRound { entrants: finalists.len() + libraries.len() });
    let candidates = (0..finalists.len()).map(|place| {
        let mounted = &mounted;
        Box::new(move |operands| mounted.work(place, operands, Scalars::PLAIN)) as BoxedWork<'_>
    });
    let others = libraries.iter().map(|library| {
        Box::new(|operands| library.work(operands, Scalars::PLAIN)) as BoxedWork<'_>
    });
    let boxes: Vec<BoxedWork<'_>> = candidates.chain(others).collect();
    let work: Vec<WorkFor<'_>> = boxes.iter().map(AsRef::as_ref).collect();
    let keys = finalists.iter().map(|finalist| Entrant::Candidate(tie_break(&finalist.standing)));
    let entrants = keys.chain(libraries.iter().map(|_| Entrant::Baseline)).collect();
    let floor = floor(&gpu.problem, gpu.executor.device());
    let mut round = Final::new(entrants, FinalRules { floor, ties, ..FinalRules::default() });
    let held = run_final(gpu.executor, &gpu.stopwatch, &work, &mut round, stop)?;
    drop(boxes);
    let mut measurements = held.measurements.into_iter();
    gpu.unmount(mounted)?;
    for (finalist, measurement) in finalists.iter_mut().zip(measurements.by_ref()) {
        // A final that broke off in its first round has no samples to go by.
        if !measurement.samples.is_empty() {
            finalist.standing.measurement = measurement;
            finalist.standing.contested = true;
        }
    }
    let timed = libraries.into_iter().zip(measurements);
    let mut baselines: Vec<(usize, BaselineTime)> = timed
        .map(|(LibraryEntrant { name, algorithm, .. }, measurement)| BaselineTime {
            name,
            algorithm,
            measurement,
        })
        .zip(finalists.len()..)
        .filter(|(library, _)| !library.measurement.samples.is_empty())
        .map(|(library, entrant)| (entrant, library))
        .collect();
    if let Some(verdict) = round.result() {
        let taint = round.disturbances().first().map(ToString::to_string);
        decided.certainty = Some(certainty(&verdict, finalists, taint, held.conditions));
        let place = |entrant: usize| verdict.order.iter().position(|p| p.entrant == entrant);
        let mut placed: Vec<(Option<usize>, Finalist)> =
            finalists.drain(..).enumerate().map(|(at, finalist)| (place(at), finalist)).collect();
        placed.sort_by_key(|(place, _)| *place);
        finalists.extend(placed.into_iter().map(|(_, finalist)| finalist));
        // Medians do not compare libraries that left after different rounds.
        baselines.sort_by_key(|(entrant, _)| place(*entrant));
    }
    decided.baselines = baselines.into_iter().map(|(_, library)| library).collect();
    Ok(())
}

/// The confidence of the round, with names in place of numbers.
fn certainty(
    FinalResult { order, confidence }: &FinalResult,
    finalists: &[Finalist],
    taint: Option<String>,
    conditions: ConditionsRange,
) -> Certainty {
    let name = |entrant: usize| {
        let standing = finalists.get(entrant).map(|finalist| &finalist.standing)?;
        Some((standing.family.clone(), standing.configuration.clone()))
    };
    let runner_up = confidence.runner_up.as_ref().and_then(|place| {
        let (family, configuration) = name(place.entrant)?;
        Some((family, configuration, place.margin))
    });
    // By their keys, so that the file is enough to decide again.
    let mut by_key: Vec<&FinalStanding> =
        order.iter().filter(|place| place.entrant < finalists.len()).collect();
    by_key.sort_by_cached_key(|place| tie_break(&finalists[place.entrant].standing));
    let rounds_of = |place: &FinalStanding| {
        let (family, configuration) = name(place.entrant)?;
        Some(FinalistRounds { family, configuration, log_ratios: place.log_ratios.clone() })
    };
    Certainty {
        finalists: by_key.into_iter().filter_map(rounds_of).collect(),
        runner_up,
        rounds: confidence.rounds,
        tainted_rounds: confidence.disturbed_rounds,
        taint,
        tie_set: confidence.tie_set.iter().filter_map(|entrant| name(*entrant)).collect(),
        ended: confidence.ended,
        conditions,
    }
}

type BoxedWork<'a> = Box<dyn Fn(OperandAddresses) -> Vec<WorkItem> + 'a>;

/// cuBLAS, and the fastest of cuBLASLt's heuristics that gives right results.
fn libraries(
    gpu: &mut PreparedGpu<'_>,
    decided: &mut FinalRanking,
    on_event: &mut dyn FnMut(TuneEvent<'_>),
) -> Result<Vec<LibraryEntrant>, WorkerError> {
    let offered = gpu.executor.baselines(&gpu.problem, HEURISTICS)?;
    decided.library_version = offered.version;
    if let Some(note) = offered.note {
        on_event(TuneEvent::Note(format!("not compared with libraries: {note}")));
    }
    if !offered.cleared.is_empty() {
        on_event(TuneEvent::Note(format!(
            "libraries run without {}, which changes their arithmetic",
            offered.cleared.join(" and ")
        )));
    }
    let is_own = |routine: &LibraryRoutine| *routine == LibraryRoutine::Cublas;
    let heuristics = offered.routines.iter().filter(|one| !is_own(&one.routine)).count();
    let mut left_out = |name: &str, why: &dyn fmt::Display| {
        on_event(TuneEvent::Note(format!("{name} is left out: {why}")));
    };
    let (mut taking_part, mut timed) = (Vec::new(), Vec::new());
    for OfferedRoutine { routine, name, algorithm } in offered.routines {
        let library = LibraryEntrant { routine, name, algorithm };
        if is_own(&routine) {
            match wrong(gpu, &library)? {
                Some(why) => left_out(&library.name, &why),
                None => taking_part.push(library),
            }
            continue;
        }
        match sample(gpu, &library, 1) {
            Ok(time) => timed.push((time, library)),
            Err(error) if error.ends_worker() => return Err(error),
            Err(error) => left_out(&library.name, &error),
        }
    }
    let best = timed.iter().map(|(time, _)| time.0).fold(f64::INFINITY, f64::min);
    for (time, library) in timed.iter_mut().filter(|(time, _)| time.0 <= NEAR * best) {
        *time = sample(gpu, library, SAMPLES)?;
    }
    timed.sort_by(|a, b| a.0.0.total_cmp(&b.0.0));
    // Validation takes as long as timing: only routines that may take part are validated.
    for (_, mut library) in timed {
        match wrong(gpu, &library)? {
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

/// The time of a routine: the median of so many samples.
fn sample(
    gpu: &mut PreparedGpu<'_>,
    library: &LibraryEntrant,
    samples: usize,
) -> Result<Micros, WorkerError> {
    let work = |operands| library.work(operands, Scalars::PLAIN);
    gpu.stopwatch.probe_median(gpu.executor, &work, samples)
}

/// Why a routine's result is wrong; `None` for a correct one. A library that computes another product is no baseline.
fn wrong(
    gpu: &mut PreparedGpu<'_>,
    library: &LibraryEntrant,
) -> Result<Option<String>, WorkerError> {
    let work = |operands, scalars| library.work(operands, scalars);
    let subject = ValidationSubject { work: &work, workspaces: &[] };
    match gpu.validator.validate(gpu.executor, &subject) {
        Ok(Ok(_)) => Ok(None),
        Ok(Err(mismatch)) => Ok(Some(mismatch.to_string())),
        Err(error) if error.ends_worker() => Err(error),
        Err(error) => Ok(Some(error.to_string())),
    }
}
