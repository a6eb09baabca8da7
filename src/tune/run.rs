//! The loop: the strategy's candidates go through renderer and compiler pool to the device, and
//! their outcomes back to the strategy. Compiling and evaluating overlap; nothing piles up, for
//! only as many candidates are under way as keep the pool busy. Outcomes are told in the order in
//! which candidates were asked for, whichever compiled first, so that the compiler's speed does
//! not change what is asked next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::bench::{Bench, Candidate, Evaluated, Kept, Standing};
use super::host_bench::HostBench;
use super::prepare::{Spaces, spaces};
use super::workbench::Workbench;
use super::{Coverage, Event, Kit, Machine, Phases, Settings, Summary, TuneError, median};
use crate::compile::compiler::Origin;
use crate::compile::{Compile, CompileError, CompilePool, CompileRequest, CompileResult};
use crate::model::{Configuration, LaunchPlan, Micros, Outcome, Problem};
use crate::render::render;
use crate::search::{Pick, strategy};

/// How often the loop looks whether it should stop while it waits for the compiler.
const POLL: Duration = Duration::from_millis(50);

/// Correct candidates whose compiled form is kept: finalists, and the table a person sees.
const KEPT: usize = 10;

/// Failures of each family that a summary keeps.
const KEPT_FAILURES: usize = 10;

/// A candidate on its way through the compiler.
struct UnderWay {
    /// How many were asked for before it.
    turn: usize,
    pick: Pick,
    configuration: Configuration,
    plan: LaunchPlan,
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

    let mut search =
        Search::new(&kit.families, &spaces, settings, settings.most(&device), began, stop);
    on_event(Event::Started { problem, spaces: &spaces, candidates: search.most });
    let renderer =
        Renderer { problem, families: &kit.families, templates: &kit.templates, device: &device };
    search.run(bench.as_mut(), &renderer, &kit.compiler, on_event)?;
    let searched = began.elapsed();

    let decided = bench.decide(search.kept, on_event)?;
    let restarts = bench.restarts();
    bench.release()?;
    Ok(Summary {
        problem: *problem,
        ranking: decided.ranking,
        baselines: decided.baselines,
        library_version: decided.library_version,
        coverage: search.coverage,
        phases: Phases {
            prepare: prepared,
            search: searched - prepared,
            contest: began.elapsed() - searched,
            ..search.phases
        },
        restarts,
        ended_early: search.ended_early,
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
    count: usize,
    best: Option<Micros>,
    kept: Vec<Kept>,
    coverage: Vec<Coverage>,
    phases: Phases,
    ended_early: bool,
}

impl<'a> Search<'a> {
    fn new(
        families: &[crate::space::Family],
        spaces: &'a Spaces,
        settings: &'a Settings,
        most: usize,
        began: Instant,
        stop: &'a AtomicBool,
    ) -> Self {
        let coverage = spaces
            .families
            .iter()
            .map(|entry| Coverage {
                family: families[entry.family].name.clone(),
                raw: entry.space.raw,
                legal: entry.space.len(),
                ..Coverage::default()
            })
            .collect();
        Self {
            spaces,
            settings,
            began,
            stop,
            most: spaces.legal().min(most),
            count: 0,
            best: None,
            kept: Vec::new(),
            coverage,
            phases: Phases::default(),
            ended_early: false,
        }
    }

    fn run(
        &mut self,
        bench: &mut dyn Bench,
        renderer: &Renderer<'_>,
        compiler: &Arc<dyn Compile>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), TuneError> {
        let mut strategy = strategy(self.spaces.territories(), self.most, self.settings.seed);
        let pool: CompilePool<UnderWay> =
            CompilePool::new(Arc::clone(compiler), self.settings.jobs)?;
        // Some compile for ten times as long as most; the pool has work while one of those is
        // waited for.
        let most_untold = 4 * self.settings.jobs.get();
        let (mut asked, mut told) = (0, 0);
        let mut answers: BTreeMap<usize, (Pick, Option<Micros>)> = BTreeMap::new();
        loop {
            while asked - told < most_untold && !self.should_stop() {
                let Some(pick) = strategy.ask() else { break };
                match self.render(pick, asked, renderer) {
                    Ok((under_way, request)) => pool.submit(under_way, request),
                    Err((configuration, log)) => {
                        self.take(pick, &configuration, &Outcome::Compile { log }, on_event);
                        answers.insert(asked, (pick, None));
                    }
                }
                asked += 1;
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
        self.ended_early = self.count < self.most && self.should_stop();
        Ok(())
    }

    fn should_stop(&self) -> bool {
        let out_of_time = self.settings.budget.is_some_and(|budget| self.began.elapsed() >= budget);
        out_of_time || self.stop.load(Ordering::Relaxed)
    }

    fn render(
        &self,
        pick: Pick,
        turn: usize,
        renderer: &Renderer<'_>,
    ) -> Result<(UnderWay, CompileRequest), (Configuration, String)> {
        let entry = &self.spaces.families[pick.family];
        let configuration = entry.space.get(pick.rank).unwrap_or_default();
        let family = &renderer.families[entry.family];
        match render(family, renderer.templates, &configuration, renderer.problem, renderer.device)
        {
            Ok(rendered) => {
                let request = CompileRequest {
                    source: rendered.source.into(),
                    name: format!("{}.cu", family.name),
                    options: Vec::new(),
                };
                Ok((UnderWay { turn, pick, configuration, plan: rendered.plan }, request))
            }
            Err(error) => Err((configuration, error.to_string())),
        }
    }

    /// Evaluates what came out of the compiler; gives the time of a correct candidate.
    fn evaluate(
        &mut self,
        bench: &mut dyn Bench,
        under_way: UnderWay,
        result: CompileResult,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<Micros>, TuneError> {
        let UnderWay { pick, configuration, plan, .. } = under_way;
        let compiled = match result {
            Ok(compiled) => compiled,
            // Without its compiler a run is over; everything else is the candidate's own failure.
            Err(CompileError::Environment(error)) => {
                return Err(CompileError::Environment(error).into());
            }
            Err(CompileError::Source { log }) => {
                self.take(pick, &configuration, &Outcome::Compile { log }, on_event);
                return Ok(None);
            }
            Err(error @ CompileError::Panicked { .. }) => {
                let outcome = Outcome::Compile { log: error.to_string() };
                self.take(pick, &configuration, &outcome, on_event);
                return Ok(None);
            }
        };
        self.phases.compiling += compiled.elapsed;
        self.phases.from_cache += usize::from(compiled.origin == Origin::Cache);
        let candidate = Candidate { plan, compiled };
        let Evaluated { outcome, restarted } = bench.evaluate(&candidate, self.best)?;
        if let Some(reason) = restarted {
            on_event(Event::Restarted { reason: &reason });
        }
        self.take(pick, &configuration, &outcome, on_event);
        let Outcome::Correct { validation, measurement, resources } = outcome else {
            return Ok(None);
        };
        let time = measurement.median();
        let family = self.coverage[pick.family].family.clone();
        self.kept.push(Kept {
            standing: Standing {
                family,
                configuration,
                plan: candidate.plan.clone(),
                validation,
                measurement,
                resources,
                contested: false,
            },
            candidate,
        });
        self.kept.sort_by(|a, b| {
            median(&a.standing.measurement).total_cmp(&median(&b.standing.measurement))
        });
        self.kept.truncate(KEPT);
        Ok(Some(time))
    }

    /// Counts an outcome and tells of it.
    fn take(
        &mut self,
        pick: Pick,
        configuration: &Configuration,
        outcome: &Outcome,
        on_event: &mut dyn FnMut(Event<'_>),
    ) {
        self.count += 1;
        let coverage = &mut self.coverage[pick.family];
        *coverage.outcomes.entry(outcome.kind()).or_default() += 1;
        if let Some(measurement) = outcome.measurement() {
            let time = measurement.median();
            let faster = |best: Option<Micros>| best.is_none_or(|best| time < best);
            if faster(coverage.best) {
                coverage.best = Some(time);
            }
            if faster(self.best) {
                self.best = Some(time);
            }
        }
        if outcome.measurement().is_none() && coverage.failures.len() < KEPT_FAILURES {
            coverage.failures.push((configuration.clone(), outcome.clone()));
        }
        on_event(Event::Evaluated {
            count: self.count,
            family: &self.coverage[pick.family].family,
            configuration,
            outcome,
            best: self.best,
        });
    }
}
