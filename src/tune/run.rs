//! The loop: the strategy's candidates go through renderer and compiler pool to the device, and
//! their outcomes back to the strategy. Compiling and evaluating overlap; nothing piles up, for
//! only as many candidates are under way as keep the pool busy. Outcomes are told in the order in
//! which candidates were asked for, whichever compiled first, so that the compiler's speed does
//! not change what is asked next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::bench::{Bench, Candidate, Evaluated};
use super::host_bench::HostBench;
use super::journal::{Entry, Journal, KernelId};
use super::prepare::{Spaces, spaces};
use super::tally::{Known, Tally};
use super::workbench::Workbench;
use super::{Event, Kit, Machine, Phases, Settings, Summary, TuneError};
use crate::compile::compiler::Origin;
use crate::compile::{
    Compile, CompileError, CompilePool, CompileRequest, CompileResult, Fingerprint,
};
use crate::model::{Configuration, LaunchPlan, Measurement, Micros, Outcome, Problem, floor};
use crate::render::render;
use crate::search::Pick;

/// How often the loop looks whether it should stop while it waits for the compiler.
const POLL: Duration = Duration::from_millis(50);

/// A candidate on its way through the compiler.
struct UnderWay {
    /// How many were asked for before it.
    turn: usize,
    pick: Pick,
    configuration: Configuration,
    plan: LaunchPlan,
    /// What identifies its source: a source that does not compile never does.
    source: KernelId,
}

/// Finds the fastest correct kernel for a problem. When `stop` is set, the search ends and is
/// decided with what it has.
///
/// # Errors
/// See [`TuneError`]; no candidate's failure is one.
pub fn tune(
    problem: &Problem,
    kit: &mut Kit,
    settings: &Settings,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Summary, TuneError> {
    let began = Instant::now();
    let device = kit.machine.device();
    let spaces = spaces(&kit.families, &kit.templates, problem, &device)?;
    let mut bench: Box<dyn Bench + '_> = match &mut kit.machine {
        Machine::Gpu(executor) => {
            let compiler = kit.compiler.as_ref();
            let executor = executor.as_mut();
            Box::new(Workbench::prepare(executor, *problem, compiler, settings.seed)?)
        }
        Machine::Host => Box::new(HostBench::prepare(*problem, device.clone(), settings.seed)?),
    };
    let prepared = began.elapsed();

    let mut search = Search {
        spaces: &spaces,
        settings,
        began,
        stop,
        most: spaces.legal().min(settings.most(&device)),
        patience: settings.patience(&device),
        journal: Journal::of(settings, problem, &device)?,
        tally: Tally::new(&spaces, floor(problem, &device)),
        phases: Phases::default(),
        ended_early: false,
    };
    on_event(Event::Started {
        problem,
        spaces: &spaces,
        candidates: search.most,
        journal: search.journal.path(),
        known: search.journal.len(),
    });
    let renderer =
        Renderer { problem, families: &kit.families, templates: &kit.templates, device: &device };
    search.run(bench.as_mut(), &renderer, &kit.compiler, on_event)?;
    let searched = began.elapsed();

    let decided = bench.decide(search.tally.kept, on_event)?;
    let restarts = bench.restarts();
    bench.release()?;
    Ok(Summary {
        problem: *problem,
        ranking: decided.ranking,
        baselines: decided.baselines,
        library_version: decided.library_version,
        certainty: decided.certainty,
        coverage: search.tally.coverage,
        phases: Phases {
            prepare: prepared,
            search: searched - prepared,
            contest: began.elapsed() - searched,
            ..search.phases
        },
        restarts,
        ended_early: search.ended_early,
        interim: search.ended_early && stop.load(Ordering::Relaxed),
    })
}

/// What rendering needs.
struct Renderer<'a> {
    problem: &'a Problem,
    families: &'a [crate::space::Family],
    templates: &'a crate::render::Templates,
    device: &'a crate::model::Device,
}

/// The state of one search.
struct Search<'a> {
    spaces: &'a Spaces,
    settings: &'a Settings,
    began: Instant,
    stop: &'a AtomicBool,
    most: usize,
    patience: Option<Duration>,
    journal: Journal,
    tally: Tally,
    phases: Phases,
    ended_early: bool,
}

impl Search<'_> {
    fn run(
        &mut self,
        bench: &mut dyn Bench,
        renderer: &Renderer<'_>,
        compiler: &Arc<dyn Compile>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), TuneError> {
        let territories = self.spaces.territories();
        let mut strategy = self.settings.search.begin(territories, self.settings.seed);
        let pool: CompilePool<UnderWay> =
            CompilePool::new(Arc::clone(compiler), self.settings.jobs)?;
        // Some compile for ten times as long as most; the pool has work while one of those is
        // waited for.
        let jobs = self.settings.jobs.get();
        let (most_untold, batch) = ((4 * jobs).max(8), (jobs * 3 / 4).max(4));
        let (mut asked, mut told) = (0, 0);
        let mut answers: BTreeMap<usize, (Pick, Option<Micros>)> = BTreeMap::new();
        loop {
            while asked - told + batch <= most_untold && !self.should_stop() {
                let picks = strategy.ask(batch.min(self.most - asked));
                if picks.is_empty() {
                    break;
                }
                for pick in picks {
                    match self.render(pick, asked, renderer, on_event) {
                        Some((under_way, request)) => pool.submit(under_way, request),
                        None => {
                            answers.insert(asked, (pick, None));
                        }
                    }
                    asked += 1;
                }
            }
            // One answer, then the next question: always with the same number of answers behind.
            if let Some((pick, time)) = answers.remove(&told) {
                strategy.tell(pick, time);
                told += 1;
                continue;
            }
            if asked == told || self.should_stop() {
                break;
            }
            if let Some((under_way, result)) = pool.recv_timeout(POLL) {
                self.phases.compiled += 1;
                on_event(Event::Compiled { count: self.phases.compiled });
                let (turn, pick) = (under_way.turn, under_way.pick);
                let time = self.evaluate(bench, under_way, result, on_event)?;
                answers.insert(turn, (pick, time));
            }
        }
        self.ended_early = self.tally.count < self.most && self.should_stop();
        Ok(())
    }

    fn should_stop(&self) -> bool {
        let out_of_time = self.patience.is_some_and(|patience| self.began.elapsed() >= patience);
        out_of_time || self.stop.load(Ordering::Relaxed)
    }

    /// What is to be compiled for a pick; nothing where it is known to fail before.
    fn render(
        &mut self,
        pick: Pick,
        turn: usize,
        renderer: &Renderer<'_>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Option<(UnderWay, CompileRequest)> {
        let entry = &self.spaces.families[pick.family];
        let configuration = entry.space.get(pick.rank).unwrap_or_default();
        let family = &renderer.families[entry.family];
        let rendered =
            render(family, renderer.templates, &configuration, renderer.problem, renderer.device);
        let (outcome, recalled) = match rendered {
            Err(error) => (Outcome::Compile { log: error.to_string() }, false),
            Ok(rendered) => {
                let source = KernelId::of_source(&rendered.source);
                match self.journal.known(&source) {
                    Some(entry) => (entry.outcome.clone(), true),
                    None => {
                        let request = CompileRequest {
                            source: rendered.source.into(),
                            name: format!("{}.cu", family.name),
                            options: Vec::new(),
                        };
                        let plan = rendered.plan;
                        return Some((
                            UnderWay { turn, pick, configuration, plan, source },
                            request,
                        ));
                    }
                }
            }
        };
        let (family, configuration) = (pick.family, &configuration);
        let known = Known { family, configuration, outcome: &outcome, recalled };
        self.tally.take(&known, on_event);
        None
    }

    /// Evaluates what came out of the compiler; gives the time of a correct candidate.
    fn evaluate(
        &mut self,
        bench: &mut dyn Bench,
        under_way: UnderWay,
        result: CompileResult,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<Micros>, TuneError> {
        let UnderWay { pick, configuration, plan, source, .. } = under_way;
        let (kernel, evaluated, candidate) = match result {
            // Without its compiler a run is over; everything else is the candidate's own failure.
            Err(CompileError::Environment(error)) => {
                return Err(CompileError::Environment(error).into());
            }
            Err(CompileError::Source { log }) => {
                (source, Some(Outcome::Compile { log }.into()), None)
            }
            Err(error @ CompileError::Panicked { .. }) => {
                (source, Some(Outcome::Compile { log: error.to_string() }.into()), None)
            }
            Ok(compiled) => {
                self.phases.compiling += compiled.elapsed;
                self.phases.from_cache += usize::from(compiled.origin == Origin::Cache);
                let kernel = KernelId::of(&Fingerprint::of(&compiled.image), &plan);
                let candidate = Candidate { plan, compiled };
                let evaluated = match self.journal.known(&kernel) {
                    Some(_) => None,
                    None => Some(bench.evaluate(&candidate, &self.tally.race)?),
                };
                (kernel, evaluated, Some(candidate))
            }
        };
        let recalled = evaluated.is_none();
        if let Some(Evaluated { outcome, restarted }) = evaluated {
            if let Some(reason) = restarted {
                on_event(Event::Restarted { reason: &reason });
            }
            let family = self.spaces.families[pick.family].name.clone();
            let (kernel, parameters) = (kernel.clone(), configuration.clone());
            self.journal.append(Entry { kernel, family, parameters, outcome })?;
        }
        let Some(entry) = self.journal.known(&kernel) else { return Ok(None) };
        let (family, configuration) = (pick.family, &configuration);
        let known = Known { family, configuration, outcome: &entry.outcome, recalled };
        self.tally.take(&known, on_event);
        if let Some(candidate) = candidate {
            let default = self.spaces.families[pick.family].default.as_ref();
            let is_default = default == Some(configuration);
            self.tally.keep(&known, is_default, kernel, candidate);
        }
        Ok(known.outcome.measurement().map(Measurement::median))
    }
}
