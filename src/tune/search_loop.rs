//! The loop: the strategy's candidates go through renderer and compiler pool to the device, and
//! their outcomes back to the strategy. Compiling and evaluating overlap; nothing piles up, for
//! only as many candidates are under way as keep the pool busy. Outcomes are told in the order in
//! which candidates were asked for, whichever compiled first, so that the compiler's speed does
//! not change what is asked next.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::select;

use super::effort::{Rest, SearchEnd, StopRule};
use super::evaluator::{Candidate, Claim, Evaluated};
use super::evaluator_pool::{EvaluatorPool, Report};
use super::journal::{Entry, Journal, KernelId};
use super::prepare::Spaces;
use super::renderer::Renderer;
use super::stats::{EvaluatedCandidate, SearchStats};
use super::warm_start::Hints;
use super::{Event, Phases, Settings, TuneError};
use crate::compile::compiler::ImageOrigin;
use crate::compile::{CompileError, CompilePool, CompileRequest, CompileResult};
use crate::model::{
    Configuration, Device, LaunchPlan, Measurement, Micros, Outcome, Problem, floor,
};
use crate::render::render;
use crate::search::{Pick, SearchSpace, Strategy};

/// How often the loop looks whether it should stop while it waits for the compiler.
const POLL: Duration = Duration::from_millis(50);

/// What counts as better in what a search says in the end, where it ended by no rule.
const WITHIN: f64 = 0.01;

/// A candidate on its way through the compiler.
pub(super) struct UnderWay {
    /// How many were asked for before it.
    turn: usize,
    pick: Pick,
    configuration: Configuration,
    plan: LaunchPlan,
    /// What identifies its source: a source that does not compile never does.
    source: KernelId,
}

/// A compiled candidate on its way to a evaluator.
pub(super) struct Ready {
    turn: usize,
    pick: Pick,
    configuration: Configuration,
    kernel: KernelId,
}

/// The state of one search.
pub(super) struct SearchLoop<'a> {
    spaces: &'a Spaces,
    /// The record of the problem, and whether its outcome is known.
    record: Option<Pick>,
    is_record_met: bool,
    settings: &'a Settings,
    began: Instant,
    stop: &'a AtomicBool,
    most: usize,
    patience: Option<Duration>,
    pub(super) journal: Journal,
    pub(super) stats: SearchStats,
    pub(super) phases: Phases,
    /// Times that the strategy was not told yet, by turn.
    answers: BTreeMap<usize, (Pick, Option<Micros>)>,
    /// Compiled candidates that wait for a evaluator.
    queue: VecDeque<(Ready, Candidate)>,
    /// Kernels that wait for a evaluator or are on one.
    begun: HashSet<KernelId>,
    /// Compiled candidates whose kernel is being evaluated for another.
    twins: Vec<(Ready, Candidate)>,
    /// The rule that is satisfied by now, if one is.
    settled: Option<StopRule>,
    /// Why it ended, and what it says of the rest.
    pub(super) end: SearchEnd,
    pub(super) rest: Rest,
}

impl<'a> SearchLoop<'a> {
    /// A search at its beginning.
    pub(super) fn new(
        (problem, device): (&Problem, &Device),
        spaces: &'a Spaces,
        hints: &Hints,
        (settings, began, stop): (&'a Settings, Instant, &'a AtomicBool),
        journal: Journal,
    ) -> Self {
        let most = spaces.legal().min(settings.most(device));
        let within = settings.rule().map_or(WITHIN, |rule| rule.within);
        Self {
            spaces,
            record: spaces.record(hints),
            is_record_met: false,
            settings,
            began,
            stop,
            most,
            patience: settings.patience(device),
            journal,
            stats: SearchStats::new(spaces, hints, floor(problem, device), most),
            phases: Phases::default(),
            answers: BTreeMap::new(),
            queue: VecDeque::new(),
            begun: HashSet::new(),
            twins: Vec::new(),
            settled: None,
            end: SearchEnd::Everything,
            rest: Rest { within, chance: None, least: None },
        }
    }

    /// Most candidates that it evaluates.
    pub(super) fn most(&self) -> usize {
        self.most
    }
}

impl SearchLoop<'_> {
    /// Searches until nothing is left to ask or time is up; gives how many candidates were asked
    /// for.
    pub(super) fn run(
        &mut self,
        search_spaces: Vec<SearchSpace>,
        pool_of_evaluators: &mut EvaluatorPool<'_, '_, Ready>,
        renderer: &Renderer<'_>,
        pool: &CompilePool<UnderWay>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<usize, TuneError> {
        let mut strategy = self.settings.search.begin(search_spaces, self.settings.seed);
        let (mut asked, mut told) = (0, 0);
        loop {
            // Some compile for ten times as long as most; the pool has work while one of those is
            // waited for.
            let jobs = pool.threads();
            let (most_untold, batch) = ((4 * jobs).max(8), (jobs * 3 / 4).max(4));
            let wanted = self.wanted(strategy.as_ref());
            while asked - told + batch <= most_untold
                && asked - told < wanted
                && !self.should_stop()
            {
                let most = batch.min(wanted - (asked - told)).min(self.most - asked);
                let picks = strategy.propose(most);
                if picks.is_empty() {
                    break;
                }
                for pick in picks {
                    match self.render(pick, asked, renderer, on_event) {
                        Some((under_way, request)) => pool.submit(under_way, request),
                        None => {
                            self.answers.insert(asked, (pick, None));
                        }
                    }
                    asked += 1;
                }
            }
            // One answer, then the next question: always with the same number of answers behind.
            if let Some((pick, time)) = self.answers.remove(&told) {
                strategy.observe(pick, time);
                told += 1;
                self.settle(strategy.as_ref(), asked - told);
                continue;
            }
            // What a evaluator has begun is waited for, also when time is up.
            if !pool_of_evaluators.is_busy() && (asked == told || self.should_stop()) {
                break;
            }
            self.wait(pool_of_evaluators, pool, on_event)?;
            while pool_of_evaluators.is_free()
                && !self.should_stop()
                && let Some((ready, candidate)) = self.queue.pop_front()
            {
                pool_of_evaluators.order(ready, candidate, &self.stats.race);
            }
        }
        self.end = self.why_it_ended();
        self.rest.chance = strategy.chance_of_better(self.rest.within);
        self.rest.least = strategy.least_predicted();
        Ok(asked)
    }

    /// Answers after which the search ends if none of them is better: more are not worth asking for yet.
    fn wanted(&self, strategy: &dyn Strategy) -> usize {
        let rule = self.settings.rule();
        let answers = rule.and_then(|rule| strategy.answers_until(rule.within, rule.chance));
        answers.map_or(usize::MAX, |answers| answers.max(1))
    }

    /// Looks whether the rule is satisfied that the search ends by, and how much is left to do if
    /// nothing better is found. `untold` are under way.
    fn settle(&mut self, strategy: &dyn Strategy, untold: usize) {
        let mut left = self.most.saturating_sub(self.stats.count);
        if let Some(rule) = self.settings.rule() {
            let StopRule { within, chance } = rule;
            if strategy.chance_of_better(within).is_some_and(|left| left < chance) {
                self.settled = Some(rule);
            }
            if let Some(answers) = strategy.answers_until(within, chance) {
                left = left.min(answers.max(untold));
            }
        }
        self.stats.left = left;
    }

    fn why_it_ended(&self) -> SearchEnd {
        if self.stop.load(Ordering::Relaxed) {
            SearchEnd::Interrupted
        } else if self.stats.count >= self.spaces.legal() {
            SearchEnd::Everything
        } else if let Some(rule) = self.settled {
            SearchEnd::Unlikely(rule)
        } else if self.stats.count < self.most && self.is_out_of_time() {
            SearchEnd::OutOfTime
        } else {
            SearchEnd::Most
        }
    }

    /// Evaluates the record of the problem where the search did not come upon it, so that it takes
    /// part in the final: what is found is compared with what was. What else is under way is left.
    pub(super) fn meet_record(
        &mut self,
        turn: usize,
        pool_of_evaluators: &mut EvaluatorPool<'_, '_, Ready>,
        renderer: &Renderer<'_>,
        pool: &CompilePool<UnderWay>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), TuneError> {
        let stop = self.stop;
        let stops = || stop.load(Ordering::Relaxed);
        let unmet = self.record.filter(|_| !self.is_record_met && !stops());
        let Some(pick) = unmet else { return Ok(()) };
        self.drop_queue();
        if let Some((under_way, request)) = self.render(pick, turn, renderer, on_event) {
            pool.submit(under_way, request);
            while pool_of_evaluators.is_busy() || !(self.is_record_met || stops()) {
                self.wait(pool_of_evaluators, pool, on_event)?;
                let own = self.queue.iter().position(|(ready, _)| ready.turn == turn);
                if let Some((ready, candidate)) = own.and_then(|place| self.queue.remove(place)) {
                    pool_of_evaluators.order(ready, candidate, &self.stats.race);
                }
                self.drop_queue();
            }
        }
        Ok(())
    }

    /// Forgets the compiled candidates that wait for a evaluator.
    fn drop_queue(&mut self) {
        for (ready, _) in self.queue.drain(..) {
            self.begun.remove(&ready.kernel);
        }
    }

    /// Waits a little for the compiler or a evaluator, and takes what comes.
    fn wait(
        &mut self,
        pool_of_evaluators: &mut EvaluatorPool<'_, '_, Ready>,
        pool: &CompilePool<UnderWay>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), TuneError> {
        select! {
            recv(pool.results()) -> result => if let Ok((under_way, result)) = result {
                self.phases.compiled += 1;
                on_event(Event::Compiled { count: self.phases.compiled });
                self.compiled(under_way, result, on_event)?;
            },
            recv(pool_of_evaluators.reports()) -> report => if let Ok(report) = report {
                pool_of_evaluators.received(&report);
                self.evaluated(report, on_event)?;
            },
            default(POLL) => {}
        }
        Ok(())
    }

    fn is_out_of_time(&self) -> bool {
        self.patience.is_some_and(|patience| self.began.elapsed() >= patience)
    }

    fn should_stop(&self) -> bool {
        self.settled.is_some() || self.is_out_of_time() || self.stop.load(Ordering::Relaxed)
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
        if self.stats.coverage[pick.family].is_given_up() {
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
                        let request = CompileRequest::kernel(&family.name, rendered.source);
                        let plan = rendered.plan;
                        return Some((
                            UnderWay { turn, pick, configuration, plan, source },
                            request,
                        ));
                    }
                }
            }
        };
        self.is_record_met |= self.record == Some(pick);
        let (family, configuration) = (pick.family, &configuration);
        let known = EvaluatedCandidate { family, configuration, outcome: &outcome, recalled };
        self.stats.take(&known, on_event);
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
                self.phases.from_cache += usize::from(compiled.origin == ImageOrigin::Cache);
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

    /// Takes what a evaluator found, and answers for all that are the same kernel.
    fn evaluated(
        &mut self,
        report: Report<Ready>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), TuneError> {
        let Report { tag: ready, candidate, evaluated, .. } = report;
        let Evaluated { outcome, restarted } = evaluated?;
        let coverage = &mut self.stats.coverage[ready.pick.family];
        if let Some(reason) = &restarted {
            coverage.restarts += 1;
            on_event(Event::Restarted { reason });
        }
        self.write(&ready, outcome)?;
        let (kernel, family) = (ready.kernel.clone(), ready.pick.family);
        self.conclude(ready, Some(candidate), false, on_event);
        let coverage = &self.stats.coverage[family];
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
        let after_s = Some(seconds(self.began));
        Ok(self.journal.append(Entry { kernel, family, parameters, after_s, outcome })?)
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
        self.is_record_met |= self.record == Some(pick);
        let (family, configuration) = (pick.family, &configuration);
        let known = EvaluatedCandidate { family, configuration, outcome: &entry.outcome, recalled };
        self.stats.take(&known, on_event);
        if let Some(candidate) = candidate {
            let default = self.spaces.families[pick.family].default.as_ref();
            let claim = if self.record == Some(pick) {
                Claim::Certain
            } else if default == Some(configuration) {
                Claim::Default
            } else {
                Claim::Speed
            };
            self.stats.keep(&known, claim, kernel, candidate);
        }
        let time = known.outcome.measurement().map(Measurement::median);
        self.answers.insert(turn, (pick, time));
    }
}

/// Seconds since then, to a millisecond.
pub(super) fn seconds(began: Instant) -> f64 {
    began.elapsed().as_millis() as f64 / 1e3
}
