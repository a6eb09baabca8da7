//! Tuning of one problem from beginning to end: search spaces, search loop, final round.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use super::cpu_evaluator::CpuEvaluator;
use super::error::TuneError;
use super::evaluator::Evaluator;
use super::evaluator_pool::{EvaluatorMaker, EvaluatorPool};
use super::event::TuneEvent;
use super::finalist::{FinalRanking, RejectedFinalist};
use super::gpu_evaluator::GpuEvaluator;
use super::journal::{Entry, Journal};
use super::kit::Kit;
use super::machine::{LeasedGpu, Machine};
use super::memory::within_memory;
use super::prepare::{Spaces, spaces};
use super::ranking::Standing;
use super::renderer::Renderer;
use super::search_loop::{PendingCompile, SearchLoop, seconds};
use super::settings::Settings;
use super::summary::{Phases, Summary};
use super::warm_start::Hints;
use crate::compile::{Compile, CompilePool, CompileThreads};
use crate::model::{Device, Problem};

/// Candidates that [`pilot`] evaluates: the families' defaults and those with the lowest predicted times. For 20 layers of
/// a language model the best of them is 0.15 % slower than the winner.
const PILOT_CANDIDATES: usize = 24;

/// Finds the fastest correct kernel for a problem. `hints` are its warm starts. When `stop` is set, the search ends and
/// the final decides with what it has.
///
/// # Errors
/// See [`TuneError`]; a failed candidate is an outcome, and no error.
pub fn tune(
    problem: &Problem,
    hints: &Hints,
    kit: &mut Kit,
    settings: &Settings,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(TuneEvent<'_>),
) -> Result<Summary, TuneError> {
    let context = SearchContext::prepare((problem, hints), kit, (settings, stop), on_event)?;
    let (began, settings) = (context.began, &context.settings);
    let prepared = began.elapsed();
    let threads = kit.threads.shared();
    let SearchOutcome { mut search, evaluators, renderer, pool: _pool } =
        run_search(&context, threads, kit, on_event)?;
    let searched = began.elapsed();
    on_event(TuneEvent::Searched);

    // The first evaluator decides, so that all finalists run on one device.
    let restarts = evaluators.iter().map(|evaluator| evaluator.restarts()).sum();
    let mut decided = FinalRanking::default();
    for (place, evaluator) in evaluators.into_iter().enumerate() {
        if place > 0 {
            evaluator.release()?;
            continue;
        }
        let mut finalists = std::mem::take(&mut search.stats.finalists);
        for finalist in &mut finalists {
            let Standing { family, configuration, .. } = &finalist.standing;
            finalist.neighbours = renderer.neighbours(family, configuration);
        }
        decided = evaluator.decide(finalists, settings.final_options(), stop, on_event)?;
    }
    for rejected in decided.rejected {
        search.stats.reject(&rejected);
        let RejectedFinalist { kernel, family, configuration: parameters, outcome } = rejected;
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

/// Evaluates the first candidates of a search for their timings, which correct the predictions for related problems. It
/// decides nothing; the journal, where there is one, keeps the outcomes.
///
/// # Errors
/// As [`tune`].
pub fn pilot(
    problem: &Problem,
    hints: &Hints,
    kit: &mut Kit,
    settings: &Settings,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(TuneEvent<'_>),
) -> Result<(), TuneError> {
    let most = settings.most(&kit.machine.device()).min(PILOT_CANDIDATES);
    let settings = &Settings { max_configs: Some(most), ..settings.clone() };
    let context = SearchContext::prepare((problem, hints), kit, (settings, stop), on_event)?;
    // The other lanes wait for the timings.
    let threads = kit.threads.alone();
    let SearchOutcome { evaluators, .. } = run_search(&context, threads, kit, on_event)?;
    evaluators.into_iter().try_for_each(|evaluator| evaluator.release())
}

/// A search: its problem, its spaces and its settings.
struct SearchContext<'a> {
    problem: &'a Problem,
    device: Device,
    spaces: Spaces,
    hints: &'a Hints,
    settings: Settings,
    began: Instant,
    stop: &'a AtomicBool,
}

impl<'a> SearchContext<'a> {
    /// Lists the search spaces and forecasts them, with the cache policy that the memory allows.
    fn prepare(
        (problem, hints): (&'a Problem, &'a Hints),
        kit: &mut Kit,
        (settings, stop): (&Settings, &'a AtomicBool),
        on_event: &mut dyn FnMut(TuneEvent<'_>),
    ) -> Result<Self, TuneError> {
        let (began, device) = (Instant::now(), kit.machine.device());
        let settings = within_memory(settings, problem, &mut kit.machine, on_event)?;
        let mut spaces = spaces(&kit.families, &kit.templates, problem, &device, hints)?;
        spaces.forecast(&kit.families, problem, &device, hints);
        Ok(Self { problem, device, spaces, hints, settings, began, stop })
    }
}

/// A search that is over.
struct SearchOutcome<'a> {
    search: SearchLoop<'a>,
    evaluators: Vec<Box<dyn Evaluator + 'a>>,
    renderer: Renderer<'a>,
    /// Dropping it waits for running compiles, which may take seconds: done after the final.
    pool: CompilePool<PendingCompile>,
}

/// Runs the search loop, and evaluates the record of the problem where the search did not propose it.
fn run_search<'a>(
    context: &'a SearchContext<'a>,
    threads: CompileThreads,
    kit: &'a mut Kit,
    on_event: &mut dyn FnMut(TuneEvent<'_>),
) -> Result<SearchOutcome<'a>, TuneError> {
    let SearchContext { problem, device, spaces, hints, settings, began, stop } = context;
    let search_spaces = spaces.search_spaces(hints, settings.fresh);
    let hinted = search_spaces.iter().map(|space| space.hints.len()).sum();
    let journal = Journal::of(settings, problem, device)?;
    let mut search =
        SearchLoop::new((problem, device), spaces, hints, (settings, *began, stop), journal);
    on_event(TuneEvent::Started {
        problem,
        spaces,
        candidates: search.most(),
        patience: settings.patience(device),
        journal: search.journal.path(),
        known: search.journal.len(),
        hints: hinted,
    });
    let Kit { families, templates, compiler, machine, predictor, .. } = kit;
    let compiler: &Arc<dyn Compile> = compiler;
    let renderer = Renderer { problem, families, templates, device, predictor };
    let mut pool = CompilePool::new(Arc::clone(compiler), threads);
    let makers = makers(problem, machine, compiler.as_ref(), settings, &search.interrupted);
    let evaluators = thread::scope(|scope| {
        let mut evaluators = EvaluatorPool::start(scope, makers);
        let proposed = search.run(search_spaces, &mut evaluators, &renderer, &pool, on_event)?;
        search.evaluate_record(proposed, &mut evaluators, &renderer, &pool, on_event)?;
        evaluators.end()
    })?;
    pool.forget();
    Ok(SearchOutcome { search, evaluators, renderer, pool })
}

/// The functions that prepare an evaluator on each device of the machine.
fn makers<'a>(
    problem: &Problem,
    machine: &'a mut Machine,
    compiler: &'a dyn Compile,
    settings: &Settings,
    interrupted: &Arc<AtomicBool>,
) -> Vec<EvaluatorMaker<'a>> {
    let (problem, regime, seed) = (*problem, settings.regime, settings.seed);
    let on_gpu = |gpu: &'a mut LeasedGpu| -> EvaluatorMaker<'a> {
        Box::new(move || {
            let evaluator = GpuEvaluator::prepare(gpu, problem, compiler, regime, seed)?;
            Ok(Box::new(evaluator) as Box<dyn Evaluator>)
        })
    };
    match machine {
        Machine::Gpus(gpus) => gpus.iter_mut().map(on_gpu).collect(),
        Machine::Host => {
            let interrupted = Arc::clone(interrupted);
            vec![Box::new(move || {
                let evaluator = CpuEvaluator::prepare(problem, Device::cpu(), seed, interrupted)?;
                Ok(Box::new(evaluator) as Box<dyn Evaluator>)
            })]
        }
    }
}
