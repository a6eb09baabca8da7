//! The end of a search: the finalists and the libraries take turns on the device, and the fastest
//! of the finalists wins.

use super::bench::{BaselineTime, Decided, Kept};
use super::workbench::{Mounted, Workbench};
use super::{Event, TuneError, median};
use crate::measure::{Contestant, contest};
use crate::model::Micros;
use crate::validate::Subject;
use crate::worker::{Operands, Scalars, Work, WorkerError};

/// Candidates that take part. A judgement: the README's transcript has eight within 0.4 % of the
/// winner, so that a sixth could have won, by as little.
const FINALISTS: usize = 5;

/// Samples of each contestant.
const ROUNDS: usize = 40;

/// Heuristics that cuBLASLt is asked for; the fastest takes part.
const HEURISTICS: usize = 24;

/// A library routine that takes part.
struct Library {
    index: usize,
    name: String,
}

impl Library {
    fn work(&self, operands: Operands, scalars: Scalars) -> Vec<Work> {
        let Operands { a, b, c } = operands;
        let Scalars { alpha, beta } = scalars;
        vec![Work::Baseline { index: self.index, a, b, c, alpha, beta }]
    }
}

/// Holds the contest. Where it breaks (all who take part were validated, so only a device that
/// misbehaves breaks it) the candidates' own samples decide.
pub(super) fn decide(
    bench: &mut Workbench<'_>,
    mut kept: Vec<Kept>,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Decided, TuneError> {
    let mut decided =
        Decided { ranking: Vec::new(), baselines: Vec::new(), library_version: String::new() };
    if !kept.is_empty()
        && let Err(error) = hold(bench, &mut kept, &mut decided, on_event)
    {
        on_event(Event::Note(format!("the contest broke off ({error}); samples decide")));
        if error.ends_worker() {
            bench.restart()?;
        }
    }
    decided.ranking = kept.into_iter().map(|kept| kept.standing).collect();
    decided.ranking.sort_by(|a, b| {
        b.contested
            .cmp(&a.contested)
            .then(median(&a.measurement).total_cmp(&median(&b.measurement)))
    });
    decided.baselines.sort_by(|a, b| median(&a.measurement).total_cmp(&median(&b.measurement)));
    Ok(decided)
}

fn hold(
    bench: &mut Workbench<'_>,
    kept: &mut [Kept],
    decided: &mut Decided,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<(), WorkerError> {
    let libraries = libraries(bench, decided, on_event)?;
    let mut mounted: Vec<Mounted> = Vec::new();
    for finalist in kept.iter().take(FINALISTS) {
        mounted.push(bench.mount(&finalist.candidate)?.0);
    }
    on_event(Event::Contest { contestants: mounted.len() + libraries.len() });
    let finalists = mounted.iter().map(|mounted| {
        Box::new(|operands| mounted.work(operands, Scalars::PLAIN)) as BoxedWork<'_>
    });
    let others = libraries.iter().map(|library| {
        Box::new(|operands| library.work(operands, Scalars::PLAIN)) as BoxedWork<'_>
    });
    let work: Vec<BoxedWork<'_>> = finalists.chain(others).collect();
    let contestants: Vec<Contestant<'_>> =
        work.iter().map(|work| Contestant { work: work.as_ref() }).collect();
    let measurements = contest(bench.executor, &bench.stopwatch, &contestants, ROUNDS)?;
    drop(work);
    for mounted in mounted {
        bench.unmount(mounted)?;
    }
    let mut measurements = measurements.into_iter();
    for (finalist, measurement) in kept.iter_mut().take(FINALISTS).zip(measurements.by_ref()) {
        finalist.standing.measurement = measurement;
        finalist.standing.contested = true;
    }
    decided.baselines = libraries
        .into_iter()
        .zip(measurements)
        .map(|(library, measurement)| BaselineTime { name: library.name, measurement })
        .collect();
    Ok(())
}

type BoxedWork<'a> = Box<dyn Fn(Operands) -> Vec<Work> + 'a>;

/// cuBLAS, and the fastest of cuBLASLt's heuristics, as far as they give right results.
fn libraries(
    bench: &mut Workbench<'_>,
    decided: &mut Decided,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<Library>, WorkerError> {
    let offered = bench.executor.baselines(&bench.problem, HEURISTICS)?;
    decided.library_version = offered.version;
    if let Some(note) = offered.note {
        on_event(Event::Note(format!("not compared with cuBLAS: {note}")));
    }
    let heuristics = offered.names.len().saturating_sub(1);
    let mut fastest: Option<(Library, Micros)> = None;
    let mut taking_part = Vec::new();
    for (index, name) in offered.names.into_iter().enumerate() {
        let mut library = Library { index, name };
        if let Some(why) = wrong(bench, &library)? {
            on_event(Event::Note(format!("{} is left out: {why}", library.name)));
            continue;
        }
        if index == 0 {
            taking_part.push(library);
            continue;
        }
        let work = |operands| library.work(operands, Scalars::PLAIN);
        let time = bench.stopwatch.time_one(bench.executor, &work)?;
        if fastest.as_ref().is_none_or(|(_, best)| time < *best) {
            library.name = format!("cuBLASLt, best of {heuristics} ({})", library.name);
            fastest = Some((library, time));
        }
    }
    taking_part.extend(fastest.map(|(library, _)| library));
    Ok(taking_part)
}

/// Why a routine's result is wrong; `None` for a right one. A library that computed another
/// product than asked for would be no baseline.
fn wrong(bench: &mut Workbench<'_>, library: &Library) -> Result<Option<String>, WorkerError> {
    let work = |operands, scalars| library.work(operands, scalars);
    let subject = Subject { work: &work, workspaces: &[] };
    match bench.validator.validate(bench.executor, &subject) {
        Ok(Ok(_)) => Ok(None),
        Ok(Err(mismatch)) => Ok(Some(mismatch.to_string())),
        Err(error) if error.ends_worker() => Err(error),
        Err(error) => Ok(Some(error.to_string())),
    }
}
