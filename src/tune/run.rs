//! One problem from beginning to end: what is to be searched and on what, the search, the final.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use super::cpu_evaluator::CpuEvaluator;
use super::evaluator::{Decided, Evaluator, Refuted};
use super::evaluator_pool::{EvaluatorPool, Maker};
use super::gpu_evaluator::GpuEvaluator;
use super::journal::{Entry, Journal};
use super::machine::Gpu;
use super::prepare::{Spaces, spaces};
use super::renderer::Renderer;
use super::search_loop::{SearchLoop, UnderWay, seconds};
use super::warm_start::Hints;
use super::{Event, Kit, Machine, Phases, Settings, Summary, TuneError};
use crate::compile::{Compile, CompilePool, CompileThreads};
use crate::model::{Device, Problem};

/// Questions that [`sound`] asks: those of which most is expected, and the families' defaults. Of 20 layers of a
/// language model the best of so many takes 0.15 % longer than the best that was found.
const PILOT_CANDIDATES: usize = 24;

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
    let (began, device) = (Instant::now(), kit.machine.device());
    let mut spaces = spaces(&kit.families, &kit.templates, problem, &device, hints)?;
    spaces.forecast(&kit.families, problem, &device, hints);
    let prepared = began.elapsed();
    let threads = kit.threads.shared();
    let course =
        Course { problem, device: &device, spaces: &spaces, hints, settings, threads, began, stop };
    let Found { mut search, evaluators, renderer, pool: _pool } = find(course, kit, on_event)?;
    let searched = began.elapsed();
    on_event(Event::Searched);

    // All have seen the same problem; one decides, so that the finalists meet on one device.
    let restarts = evaluators.iter().map(|evaluator| evaluator.restarts()).sum();
    let mut decided = Decided::default();
    for (place, evaluator) in evaluators.into_iter().enumerate() {
        if place > 0 {
            evaluator.release()?;
            continue;
        }
        let mut kept = std::mem::take(&mut search.stats.kept);
        for kept in &mut kept {
            kept.elsewhere = renderer.elsewhere(&kept.standing);
        }
        decided = evaluator.decide(kept, settings.sanitizer.as_ref(), on_event)?;
    }
    for refuted in decided.refuted {
        search.stats.refute(&refuted);
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
        landmarks: search.stats.landmarks(),
        times: search.stats.times,
        coverage: search.stats.coverage,
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

/// Asks the first questions of a search, for what they tell of a problem and of its kin, and decides nothing:
/// the journal, where there is one, has the outcomes.
///
/// # Errors
/// As [`tune`].
pub fn pilot(
    problem: &Problem,
    hints: &Hints,
    kit: &mut Kit,
    settings: &Settings,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<(), TuneError> {
    let (began, device) = (Instant::now(), kit.machine.device());
    let most = settings.most(&device).min(PILOT_CANDIDATES);
    let settings = &Settings { max_configs: Some(most), ..settings.clone() };
    let mut spaces = spaces(&kit.families, &kit.templates, problem, &device, hints)?;
    spaces.forecast(&kit.families, problem, &device, hints);
    // The others wait for what is told.
    let threads = kit.threads.alone();
    let course =
        Course { problem, device: &device, spaces: &spaces, hints, settings, threads, began, stop };
    let Found { evaluators, .. } = find(course, kit, on_event)?;
    evaluators.into_iter().try_for_each(|evaluator| evaluator.release())
}

/// What is searched, and how.
struct Course<'a> {
    problem: &'a Problem,
    device: &'a Device,
    spaces: &'a Spaces,
    hints: &'a Hints,
    settings: &'a Settings,
    threads: CompileThreads,
    began: Instant,
    stop: &'a AtomicBool,
}

/// A search that is over.
struct Found<'a> {
    search: SearchLoop<'a>,
    evaluators: Vec<Box<dyn Evaluator + 'a>>,
    renderer: Renderer<'a>,
    /// Waits for what compiles still when it is dropped, which may take seconds: after the final.
    pool: CompilePool<UnderWay>,
}

/// Searches, and meets the record.
fn find<'a>(
    course: Course<'a>,
    kit: &'a mut Kit,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Found<'a>, TuneError> {
    let Course { problem, device, spaces, hints, settings, threads, began, stop } = course;
    let search_spaces = spaces.search_spaces(hints, settings.fresh);
    let hinted = search_spaces.iter().map(|territory| territory.hints.len()).sum();
    let journal = Journal::of(settings, problem, device)?;
    let mut search =
        SearchLoop::new((problem, device), spaces, hints, (settings, began, stop), journal);
    on_event(Event::Started {
        problem,
        spaces,
        candidates: search.most(),
        patience: settings.patience(device),
        journal: search.journal.path(),
        known: search.journal.len(),
        hints: hinted,
    });
    let Kit { families, templates, compiler, machine, .. } = kit;
    let compiler: &Arc<dyn Compile> = compiler;
    let renderer = Renderer { problem, families, templates, device };
    let mut pool = CompilePool::new(Arc::clone(compiler), threads);
    let makers = makers(problem, machine, compiler.as_ref(), settings);
    let evaluators = thread::scope(|scope| {
        let mut pool_of_evaluators = EvaluatorPool::start(scope, makers);
        let asked =
            search.run(search_spaces, &mut pool_of_evaluators, &renderer, &pool, on_event)?;
        search.meet_record(asked, &mut pool_of_evaluators, &renderer, &pool, on_event)?;
        pool_of_evaluators.end()
    })?;
    pool.forget();
    Ok(Found { search, evaluators, renderer, pool })
}

/// What makes each device of the machine ready for the problem.
fn makers<'a>(
    problem: &Problem,
    machine: &'a mut Machine,
    compiler: &'a dyn Compile,
    settings: &Settings,
) -> Vec<Maker<'a>> {
    let (problem, regime, seed) = (*problem, settings.regime, settings.seed);
    let on_gpu = |gpu: &'a mut Gpu| -> Maker<'a> {
        Box::new(move || {
            let evaluator = GpuEvaluator::prepare(gpu, problem, compiler, regime, seed)?;
            Ok(Box::new(evaluator) as Box<dyn Evaluator>)
        })
    };
    match machine {
        Machine::Gpus(gpus) => gpus.iter_mut().map(on_gpu).collect(),
        Machine::Host => vec![Box::new(move || {
            let evaluator = CpuEvaluator::prepare(problem, Device::cpu(), seed)?;
            Ok(Box::new(evaluator) as Box<dyn Evaluator>)
        })],
    }
}
