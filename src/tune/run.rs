//! One problem from beginning to end: what is to be searched and on what, the search, the final.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use super::bench::{Bench, Decided, Refuted};
use super::crew::Crew;
use super::hints::Hints;
use super::host_bench::HostBench;
use super::journal::{Entry, Journal};
use super::prepare::spaces;
use super::pursuit::{Pursuit, seconds};
use super::renderer::Renderer;
use super::workbench::Workbench;
use super::{Event, Kit, Machine, Phases, Settings, Summary, TuneError};
use crate::compile::{Compile, CompilePool};
use crate::model::{Device, Problem};

/// Finds the fastest correct kernel for a problem, of which `hints` are known. When `stop` is set,
/// the search ends and is decided with what it has.
///
/// # Errors
/// See [`TuneError`]; no candidate's failure is one.
pub fn tune(
    problem: &Problem,
    hints: &Hints,
    kit: &mut Kit,
    settings: &Settings,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Summary, TuneError> {
    let began = Instant::now();
    let device = kit.machine.device();
    let mut spaces = spaces(&kit.families, &kit.templates, problem, &device, hints)?;
    spaces.forecast(&kit.families, problem, &device, hints);
    let mut benches = benches(problem, &mut kit.machine, kit.compiler.as_ref(), settings)?;
    let prepared = began.elapsed();

    let territories = spaces.territories(hints, settings.fresh);
    let hinted = territories.iter().map(|territory| territory.hints.len()).sum();
    let journal = Journal::of(settings, problem, &device)?;
    let mut search =
        Pursuit::new((problem, &device), &spaces, hints, (settings, began, stop), journal);
    on_event(Event::Started {
        problem,
        spaces: &spaces,
        candidates: search.most(),
        patience: settings.patience(&device),
        journal: search.journal.path(),
        known: search.journal.len(),
        hints: hinted,
    });
    let renderer =
        Renderer { problem, families: &kit.families, templates: &kit.templates, device: &device };
    let pool = CompilePool::new(Arc::clone(&kit.compiler), kit.threads.clone());
    let screening = benches.as_mut_slice();
    thread::scope(|scope| {
        let mut crew = Crew::start(scope, screening);
        let asked = search.run(territories, &mut crew, &renderer, &pool, on_event)?;
        search.meet_record(asked, &mut crew, &renderer, &pool, on_event)
    })?;
    // What compiles is not waited for until the end: the slowest takes seconds.
    pool.forget();
    let searched = began.elapsed();
    on_event(Event::Searched);

    // All have seen the same problem; one decides, so that the finalists meet on one device.
    let restarts = benches.iter().map(|bench| bench.restarts()).sum();
    let mut decided = Decided::default();
    for (place, mut bench) in benches.into_iter().enumerate() {
        if place == 0 {
            let mut kept = std::mem::take(&mut search.tally.kept);
            for kept in &mut kept {
                kept.elsewhere = renderer.elsewhere(&kept.standing);
            }
            decided = bench.decide(kept, settings.sanitizer.as_ref(), on_event)?;
        }
        bench.release()?;
    }
    for refuted in decided.refuted {
        search.tally.refute(&refuted);
        let Refuted { kernel, family, configuration: parameters, outcome } = refuted;
        let after_s = Some(seconds(began));
        search.journal.append(Entry { kernel, family, parameters, after_s, outcome })?;
    }
    Ok(Summary {
        problem: *problem,
        ranking: decided.ranking,
        baselines: decided.baselines,
        library_version: decided.library_version,
        certainty: decided.certainty,
        landmarks: search.tally.landmarks(),
        times: search.tally.times,
        coverage: search.tally.coverage,
        phases: Phases {
            prepare: prepared,
            search: searched - prepared,
            contest: began.elapsed() - searched,
            ..search.phases
        },
        restarts,
        end: search.end,
        rest: search.rest,
    })
}

/// Every device of the machine, made ready for the problem at the same time.
fn benches<'a>(
    problem: &Problem,
    machine: &'a mut Machine,
    compiler: &dyn Compile,
    settings: &Settings,
) -> Result<Vec<Box<dyn Bench + 'a>>, TuneError> {
    let gpus = match machine {
        Machine::Gpus(gpus) => gpus,
        Machine::Host => {
            let bench = HostBench::prepare(*problem, Device::cpu(), settings.seed)?;
            return Ok(vec![Box::new(bench)]);
        }
    };
    thread::scope(|scope| {
        let prepared: Vec<_> = gpus
            .iter_mut()
            .map(|gpu| {
                let (regime, seed) = (settings.regime, settings.seed);
                scope.spawn(move || Workbench::prepare(gpu, *problem, compiler, regime, seed))
            })
            .collect();
        let joined = prepared.into_iter().map(|thread| {
            let bench = thread.join().unwrap_or(Err(TuneError::Panicked))?;
            Ok(Box::new(bench) as Box<dyn Bench + 'a>)
        });
        joined.collect()
    })
}
