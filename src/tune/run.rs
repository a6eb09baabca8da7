//! The loop: the strategy's candidates go through renderer and compiler pool to the device, and
//! their outcomes back to the strategy. Compiling and evaluating overlap; nothing piles up, for
//! only as many candidates are under way as keep the pool busy. Outcomes are told in the order in
//! which candidates were asked for, whichever compiled first, so that the compiler's speed does
//! not change what is asked next.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::select;

use super::bench::{Bench, Candidate, Decided, Elsewhere, Evaluated, Refuted, Standing};
use super::crew::{Crew, Report};
use super::host_bench::HostBench;
use super::journal::{Entry, Journal, KernelId};
use super::prepare::{Spaces, spaces};
use super::tally::{Known, Tally};
use super::workbench::Workbench;
use super::{Event, Kit, Machine, Phases, Settings, Summary, TuneError};
use crate::compile::compiler::Origin;
use crate::compile::{Compile, CompileError, CompilePool, CompileRequest, CompileResult};
use crate::model::{
    Configuration, Device, LaunchPlan, Measurement, Micros, Outcome, Problem, floor,
};
use crate::render::render;
use crate::search::{Pick, strategy};

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

/// A compiled candidate on its way to a bench.
struct Ready {
    turn: usize,
    pick: Pick,
    configuration: Configuration,
    kernel: KernelId,
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
    let mut benches = benches(problem, &mut kit.machine, kit.compiler.as_ref(), settings)?;
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
        answers: BTreeMap::new(),
        queue: VecDeque::new(),
        begun: HashSet::new(),
        twins: Vec::new(),
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
    let pool = CompilePool::new(Arc::clone(&kit.compiler), kit.threads.clone());
    let screening = benches.as_mut_slice();
    thread::scope(|scope| {
        let mut crew = Crew::start(scope, screening);
        search.run(&mut crew, &renderer, &pool, on_event)
    })?;
    drop(pool);
    let searched = began.elapsed();

    // All have seen the same problem; one decides, so that the finalists meet on one device.
    let restarts = benches.iter().map(|bench| bench.restarts()).sum();
    let mut decided = Decided::default();
    for (place, mut bench) in benches.into_iter().enumerate() {
        if place == 0 {
            let mut kept = std::mem::take(&mut search.tally.kept);
            for kept in &mut kept {
                kept.elsewhere = renderer.elsewhere(&kept.standing);
            }
            decided = bench.decide(kept, on_event)?;
        }
        bench.release()?;
    }
    for refuted in decided.refuted {
        search.tally.refute(&refuted);
        let Refuted { kernel, family, configuration: parameters, outcome } = refuted;
        search.journal.append(Entry { kernel, family, parameters, outcome })?;
    }
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

/// Every device of the machine, made ready for the problem at the same time.
fn benches<'a>(
    problem: &Problem,
    machine: &'a mut Machine,
    compiler: &dyn Compile,
    settings: &Settings,
) -> Result<Vec<Box<dyn Bench + 'a>>, TuneError> {
    let executors = match machine {
        Machine::Gpus(executors) => executors,
        Machine::Host => {
            let bench = HostBench::prepare(*problem, Device::cpu(), settings.seed)?;
            return Ok(vec![Box::new(bench)]);
        }
    };
    thread::scope(|scope| {
        let prepared: Vec<_> = executors
            .iter_mut()
            .map(|executor| {
                let executor = executor.as_mut();
                let (regime, seed) = (settings.regime, settings.seed);
                scope.spawn(move || Workbench::prepare(executor, *problem, compiler, regime, seed))
            })
            .collect();
        let joined = prepared.into_iter().map(|thread| {
            let bench = thread.join().unwrap_or(Err(TuneError::Panicked))?;
            Ok(Box::new(bench) as Box<dyn Bench + 'a>)
        });
        joined.collect()
    })
}

/// What rendering needs.
struct Renderer<'a> {
    problem: &'a Problem,
    families: &'a [crate::space::Family],
    templates: &'a crate::render::Templates,
    device: &'a crate::model::Device,
}

impl Renderer<'_> {
    /// The problems one larger or smaller in a dimension that a candidate's source serves as well:
    /// where another would be rendered, this one claims nothing.
    fn elsewhere(&self, standing: &Standing) -> Vec<Elsewhere> {
        let family = self.families.iter().find(|family| family.name == standing.family);
        let Some(family) = family else { return Vec::new() };
        let configuration = &standing.configuration;
        let render = |problem: &Problem| {
            render(family, self.templates, configuration, problem, self.device).ok()
        };
        let Some(own) = render(self.problem) else { return Vec::new() };
        let legal = |problem: &Problem| {
            family.refusal(problem, self.device).is_none()
                && matches!(family.violated(configuration, problem, self.device), Ok(None))
        };
        let neighbours = self.problem.neighbours().into_iter().filter(legal);
        let rendered = neighbours.filter_map(|problem| Some((problem, render(&problem)?)));
        rendered
            .filter(|(_, rendered)| rendered.source == own.source)
            .map(|(problem, rendered)| Elsewhere { problem, plan: rendered.plan })
            .collect()
    }
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
    /// Times that the strategy was not told yet, by turn.
    answers: BTreeMap<usize, (Pick, Option<Micros>)>,
    /// Compiled candidates that wait for a bench.
    queue: VecDeque<(Ready, Candidate)>,
    /// Kernels that wait for a bench or are on one.
    begun: HashSet<KernelId>,
    /// Compiled candidates whose kernel is being evaluated for another.
    twins: Vec<(Ready, Candidate)>,
    ended_early: bool,
}

impl Search<'_> {
    fn run(
        &mut self,
        crew: &mut Crew<Ready>,
        renderer: &Renderer<'_>,
        pool: &CompilePool<UnderWay>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), TuneError> {
        let mut strategy = strategy(self.spaces.territories(), self.most, self.settings.seed);
        // Some compile for ten times as long as most; the pool has work while one of those is
        // waited for.
        let most_untold = 4 * pool.threads();
        let (mut asked, mut told) = (0, 0);
        loop {
            while asked - told < most_untold && !self.should_stop() {
                let Some(pick) = strategy.ask() else { break };
                match self.render(pick, asked, renderer, on_event) {
                    Some((under_way, request)) => pool.submit(under_way, request),
                    None => {
                        self.answers.insert(asked, (pick, None));
                    }
                }
                asked += 1;
            }
            // One answer, then the next question: always with the same number of answers behind.
            if let Some((pick, time)) = self.answers.remove(&told) {
                strategy.tell(pick, time);
                told += 1;
                continue;
            }
            // What a bench has begun is waited for, also when time is up.
            if !crew.is_busy() && (asked == told || self.should_stop()) {
                break;
            }
            select! {
                recv(pool.results()) -> result => if let Ok((under_way, result)) = result {
                    self.phases.compiled += 1;
                    on_event(Event::Compiled { count: self.phases.compiled });
                    self.compiled(under_way, result, on_event)?;
                },
                recv(crew.reports()) -> report => if let Ok(report) = report {
                    crew.received(&report);
                    self.evaluated(report, on_event)?;
                },
                default(POLL) => {}
            }
            while crew.is_free()
                && !self.should_stop()
                && let Some((ready, candidate)) = self.queue.pop_front()
            {
                crew.order(ready, candidate, &self.tally.race);
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
        if self.tally.coverage[pick.family].is_given_up() {
            return None;
        }
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

    /// Takes what came out of the compiler: to the queue with it, unless its outcome is known.
    fn compiled(
        &mut self,
        under_way: UnderWay,
        result: CompileResult,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), TuneError> {
        let UnderWay { turn, pick, configuration, plan, source } = under_way;
        let log = match result {
            // Without its compiler a run is over; everything else is the candidate's own failure.
            Err(CompileError::Environment(error)) => {
                return Err(CompileError::Environment(error).into());
            }
            Err(CompileError::Source { log }) => log,
            Err(error @ CompileError::Panicked { .. }) => error.to_string(),
            Ok(compiled) => {
                self.phases.compiling += compiled.elapsed;
                self.phases.from_cache += usize::from(compiled.origin == Origin::Cache);
                let kernel = KernelId::of(&compiled.image, &plan);
                let candidate = Candidate { plan, compiled };
                let ready = Ready { turn, pick, configuration, kernel };
                if self.journal.known(&ready.kernel).is_some() {
                    self.conclude(ready, Some(candidate), true, on_event);
                } else if self.begun.insert(ready.kernel.clone()) {
                    self.queue.push_back((ready, candidate));
                } else {
                    self.twins.push((ready, candidate));
                }
                return Ok(());
            }
        };
        let ready = Ready { turn, pick, configuration, kernel: source };
        self.write(&ready, Outcome::Compile { log })?;
        self.conclude(ready, None, false, on_event);
        Ok(())
    }

    /// Takes what a bench found, and answers for all that are the same kernel.
    fn evaluated(
        &mut self,
        report: Report<Ready>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), TuneError> {
        let Report { tag: ready, candidate, evaluated, .. } = report;
        let Evaluated { outcome, restarted } = evaluated?;
        let coverage = &mut self.tally.coverage[ready.pick.family];
        if let Some(reason) = &restarted {
            coverage.restarts += 1;
            on_event(Event::Restarted { reason });
        }
        self.write(&ready, outcome)?;
        let (kernel, family) = (ready.kernel.clone(), ready.pick.family);
        self.conclude(ready, Some(candidate), false, on_event);
        let coverage = &self.tally.coverage[family];
        if restarted.is_some() && coverage.is_given_up() {
            on_event(Event::GivenUp { coverage });
        }
        let twins: Vec<_> = self.twins.extract_if(.., |(twin, _)| twin.kernel == kernel).collect();
        for (twin, candidate) in twins {
            self.conclude(twin, Some(candidate), true, on_event);
        }
        Ok(())
    }

    fn write(&mut self, ready: &Ready, outcome: Outcome) -> Result<(), TuneError> {
        let family = self.spaces.families[ready.pick.family].name.clone();
        let (kernel, parameters) = (ready.kernel.clone(), ready.configuration.clone());
        Ok(self.journal.append(Entry { kernel, family, parameters, outcome })?)
    }

    /// Counts an outcome that the journal has, and keeps the answer for the strategy.
    fn conclude(
        &mut self,
        ready: Ready,
        candidate: Option<Candidate>,
        recalled: bool,
        on_event: &mut dyn FnMut(Event<'_>),
    ) {
        let Ready { turn, pick, configuration, kernel } = ready;
        let Some(entry) = self.journal.known(&kernel) else { return };
        let (family, configuration) = (pick.family, &configuration);
        let known = Known { family, configuration, outcome: &entry.outcome, recalled };
        self.tally.take(&known, on_event);
        if let Some(candidate) = candidate {
            let default = self.spaces.families[pick.family].default.as_ref();
            let is_default = default == Some(configuration);
            self.tally.keep(&known, is_default, kernel, candidate);
        }
        let time = known.outcome.measurement().map(Measurement::median);
        self.answers.insert(turn, (pick, time));
    }
}
