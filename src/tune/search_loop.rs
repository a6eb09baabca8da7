//! Search loop: renders and compiles the candidates that a strategy proposes, evaluates them, and reports the outcomes
//! back.
//!
//! Compiling and evaluating overlap. Only as many candidates are under way as keep the compiler threads busy. Outcomes are
//! reported in the order of the proposals, whichever compiled first, so that the compiler's speed does not change what the
//! strategy proposes next.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::select;

use super::candidate::{CompiledCandidate, Evaluated};
use super::effort::{GainChance, Rest, SearchEnd, StopRule};
use super::error::TuneError;
use super::evaluator_pool::{EvaluationReport, EvaluatorPool};
use super::event::TuneEvent;
use super::failed::{failed_compile, failed_render, located_render, overlapping};
use super::finalist::Admission;
use super::journal::{Entry, Journal};
use super::kernel_id::KernelId;
use super::prepare::Spaces;
use super::renderer::Renderer;
use super::settings::Settings;
use super::stats::{EvaluatedCandidate, SearchStats};
use super::summary::Phases;
use super::warm_start::Hints;
use crate::compile::compiler::ImageOrigin;
use crate::compile::{CompileError, CompilePool, CompileRequest, CompileResult};
use crate::model::{
    Configuration, Device, LaunchPlan, LocatedFailure, Measurement, Micros, Outcome, Problem, floor,
};
use crate::render::{RenderError, render};
use crate::search::{Pick, SearchSpace, Strategy};

/// How often the loop checks whether it should stop while it waits for the compiler.
const POLL: Duration = Duration::from_millis(50);

/// Gains whose chances every search states, besides that of its stopping rule.
const GAINS: [f64; 3] = [0.005, 0.01, 0.03];

/// A candidate that is being compiled.
pub(super) struct PendingCompile {
    /// How many were proposed before it.
    number: usize,
    pick: Pick,
    configuration: Configuration,
    plan: LaunchPlan,
    /// See [`CompiledCandidate::predicted`].
    predicted: Option<Micros>,
    /// The identity of its source: a source that does not compile never does.
    source: KernelId,
}

/// A compiled candidate that waits for an evaluator or is on one.
pub(super) struct PendingEvaluation {
    number: usize,
    pick: Pick,
    configuration: Configuration,
    kernel: KernelId,
}

/// The state of one search.
pub(super) struct SearchLoop<'a> {
    spaces: &'a Spaces,
    /// The record of the problem.
    record: Option<Pick>,
    is_record_evaluated: bool,
    settings: &'a Settings,
    began: Instant,
    stop: &'a AtomicBool,
    /// Ends an evaluation on the host once set; follows `stop`.
    pub(super) interrupted: Arc<AtomicBool>,
    most: usize,
    patience: Option<Duration>,
    pub(super) journal: Journal,
    pub(super) stats: SearchStats,
    pub(super) phases: Phases,
    /// Outcomes that were not reported to the strategy yet, by the number of the candidate.
    unreported: BTreeMap<usize, (Pick, Option<Micros>)>,
    /// Compiled candidates that wait for an evaluator.
    queue: VecDeque<(PendingEvaluation, CompiledCandidate)>,
    /// Kernels that wait for an evaluator or are on one.
    begun: HashSet<KernelId>,
    /// Compiled candidates whose kernel is being evaluated for another.
    twins: Vec<(PendingEvaluation, CompiledCandidate)>,
    /// The end by the stopping rule, once that is satisfied.
    satisfied: Option<SearchEnd>,
    /// Why the search ended, and its estimate of the configurations that it did not evaluate.
    pub(super) end: SearchEnd,
    pub(super) rest: Rest,
}

impl<'a> SearchLoop<'a> {
    /// A search that has not begun.
    pub(super) fn new(
        (problem, device): (&Problem, &Device),
        spaces: &'a Spaces,
        hints: &Hints,
        (settings, began, stop): (&'a Settings, Instant, &'a AtomicBool),
        journal: Journal,
    ) -> Self {
        let most = spaces.legal().min(settings.most(device));
        Self {
            spaces,
            record: spaces.record(hints),
            is_record_evaluated: false,
            settings,
            began,
            stop,
            interrupted: Arc::default(),
            most,
            patience: settings.patience(device),
            journal,
            stats: SearchStats::new(spaces, hints, floor(problem, device), most),
            phases: Phases::default(),
            unreported: BTreeMap::new(),
            queue: VecDeque::new(),
            begun: HashSet::new(),
            twins: Vec::new(),
            satisfied: None,
            end: SearchEnd::Everything,
            rest: Rest { chances: Vec::new(), least: None },
        }
    }

    /// Most candidates that it evaluates.
    pub(super) fn most(&self) -> usize {
        self.most
    }
}

impl SearchLoop<'_> {
    /// Searches until nothing is left to propose, the stopping rule is satisfied or time is up. Gives the number of
    /// proposed candidates.
    pub(super) fn run(
        &mut self,
        search_spaces: Vec<SearchSpace>,
        evaluators: &mut EvaluatorPool<'_, '_, PendingEvaluation>,
        renderer: &Renderer<'_>,
        pool: &CompilePool<PendingCompile>,
        on_event: &mut dyn FnMut(TuneEvent<'_>),
    ) -> Result<usize, TuneError> {
        let mut strategy = self.settings.search.begin(search_spaces, self.settings.seed);
        let (mut proposed, mut reported) = (0, 0);
        loop {
            // Some candidates compile for ten times as long as most: the other threads need work meanwhile.
            let jobs = pool.threads();
            let (most_pending, batch) = ((4 * jobs).max(8), (jobs * 3 / 4).max(4));
            let wanted = self.wanted(strategy.as_ref());
            while proposed - reported + batch <= most_pending
                && proposed - reported < wanted
                && !self.should_stop()
            {
                let most = batch.min(wanted - (proposed - reported)).min(self.most - proposed);
                let picks = strategy.propose(most);
                if picks.is_empty() {
                    break;
                }
                for pick in picks {
                    // Templates may render for long.
                    if self.should_stop() {
                        break;
                    }
                    match self.render(pick, proposed, renderer, on_event) {
                        Some((pending, request)) => pool.submit(pending, request),
                        None => {
                            self.unreported.insert(proposed, (pick, None));
                        }
                    }
                    proposed += 1;
                }
            }
            // One outcome is reported before the next proposal, so that each proposal follows the same number of outcomes.
            if let Some((pick, time)) = self.unreported.remove(&reported) {
                strategy.observe(pick, time);
                reported += 1;
                self.apply_rule(strategy.as_ref(), proposed - reported);
                continue;
            }
            // Evaluations that have begun are waited for, also when time is up.
            if !evaluators.is_busy() && (proposed == reported || self.should_stop()) {
                break;
            }
            self.wait(evaluators, (renderer, pool), on_event)?;
            while evaluators.is_free()
                && !self.should_stop()
                && let Some((pending, candidate)) = self.queue.pop_front()
            {
                evaluators.request(pending, candidate, &self.stats.race);
            }
        }
        self.end = self.why_it_ended();
        self.rest = self.rest_of(strategy.as_ref());
        Ok(proposed)
    }

    /// What the strategy says of the configurations that were not evaluated.
    fn rest_of(&self, strategy: &dyn Strategy) -> Rest {
        let own = self.settings.rule().map(|rule| rule.within);
        let others = GAINS.into_iter().filter(|gain| own != Some(*gain));
        let chance =
            |within| strategy.chance_of_better(within).map(|chance| GainChance { within, chance });
        let chances = own.into_iter().chain(others).filter_map(chance).collect();
        Rest { chances, least: strategy.least_predicted() }
    }

    /// Outcomes after which the search ends if none of them is better: more are not proposed yet.
    fn wanted(&self, strategy: &dyn Strategy) -> usize {
        let rule = self.settings.rule();
        let answers = rule.and_then(|rule| strategy.answers_until(rule.within, rule.chance));
        answers.map_or(usize::MAX, |answers| answers.max(1))
    }

    /// Checks whether the stopping rule is satisfied, and estimates how many candidates follow if nothing better is found.
    /// `pending` are under way.
    fn apply_rule(&mut self, strategy: &dyn Strategy, pending: usize) {
        let mut left = self.most.saturating_sub(self.stats.count);
        if let Some(rule) = self.settings.rule() {
            let StopRule { within, chance } = rule;
            if let Some(answers) = strategy.answers_until(within, chance) {
                if answers == 0 {
                    self.satisfied = Some(SearchEnd::Unlikely(rule));
                }
                left = left.min(answers.max(pending));
            }
        }
        self.stats.left = left;
    }

    fn why_it_ended(&self) -> SearchEnd {
        if self.stop.load(Ordering::Relaxed) {
            SearchEnd::Interrupted
        } else if self.stats.count >= self.spaces.legal() {
            SearchEnd::Everything
        } else if let Some(end) = self.satisfied {
            end
        } else if self.stats.count < self.most && self.is_out_of_time() {
            SearchEnd::OutOfTime
        } else {
            SearchEnd::Most
        }
    }

    /// Evaluates the record of the problem where the search did not propose it, so that it takes part in the final.
    /// Other pending candidates are dropped.
    pub(super) fn evaluate_record(
        &mut self,
        number: usize,
        evaluators: &mut EvaluatorPool<'_, '_, PendingEvaluation>,
        renderer: &Renderer<'_>,
        pool: &CompilePool<PendingCompile>,
        on_event: &mut dyn FnMut(TuneEvent<'_>),
    ) -> Result<(), TuneError> {
        let stop = self.stop;
        let stops = || stop.load(Ordering::Relaxed);
        let record = self.record.filter(|_| !self.is_record_evaluated && !stops());
        let Some(pick) = record else { return Ok(()) };
        self.drop_queue();
        if let Some((pending, request)) = self.render(pick, number, renderer, on_event) {
            pool.submit(pending, request);
            while evaluators.is_busy() || !(self.is_record_evaluated || stops()) {
                self.wait(evaluators, (renderer, pool), on_event)?;
                let own = self.queue.iter().position(|(pending, _)| pending.number == number);
                if let Some((pending, candidate)) = own.and_then(|place| self.queue.remove(place)) {
                    evaluators.request(pending, candidate, &self.stats.race);
                }
                self.drop_queue();
            }
        }
        Ok(())
    }

    /// Drops the compiled candidates that wait for an evaluator.
    fn drop_queue(&mut self) {
        for (pending, _) in self.queue.drain(..) {
            self.begun.remove(&pending.kernel);
        }
    }

    /// Waits a little for the compiler or an evaluator, and takes one result.
    fn wait(
        &mut self,
        evaluators: &mut EvaluatorPool<'_, '_, PendingEvaluation>,
        (renderer, pool): (&Renderer<'_>, &CompilePool<PendingCompile>),
        on_event: &mut dyn FnMut(TuneEvent<'_>),
    ) -> Result<(), TuneError> {
        if self.stop.load(Ordering::Relaxed) {
            self.interrupted.store(true, Ordering::Relaxed);
        }
        select! {
            recv(pool.results()) -> result => if let Ok((pending, result)) = result {
                self.phases.compiled += 1;
                on_event(TuneEvent::Compiled { count: self.phases.compiled });
                self.take_compiled(pending, result, renderer, on_event)?;
            },
            recv(evaluators.reports()) -> report => if let Ok(report) = report {
                evaluators.received(&report);
                self.take_evaluated(report, renderer, on_event)?;
            },
            default(POLL) => {}
        }
        Ok(())
    }

    fn is_out_of_time(&self) -> bool {
        self.patience.is_some_and(|patience| self.began.elapsed() >= patience)
    }

    fn should_stop(&self) -> bool {
        self.satisfied.is_some() || self.is_out_of_time() || self.stop.load(Ordering::Relaxed)
    }

    /// Renders a pick for the compiler. Gives nothing where its outcome is known without compiling.
    fn render(
        &mut self,
        pick: Pick,
        number: usize,
        renderer: &Renderer<'_>,
        on_event: &mut dyn FnMut(TuneEvent<'_>),
    ) -> Option<(PendingCompile, CompileRequest)> {
        let entry = &self.spaces.families[pick.family];
        if self.stats.coverage[pick.family].is_given_up() {
            return None;
        }
        let configuration = entry.space.get(pick.rank).unwrap_or_default();
        let family = &renderer.families[entry.family];
        let rendered =
            render(family, renderer.templates, &configuration, renderer.problem, renderer.device);
        let (outcome, failure, recalled) = match rendered {
            Err(RenderError::Cancelled) => return None,
            Err(error) => {
                let coverage = &mut self.stats.coverage[pick.family];
                coverage.restarts += usize::from(matches!(error, RenderError::TimedOut { .. }));
                let failure = Some(located_render(&error));
                (failed_render(error), failure, false)
            }
            Ok(rendered) => {
                let source = KernelId::of_source(&rendered.source);
                match self.journal.known(&source) {
                    Some(entry) => {
                        let outcome = entry.outcome.clone();
                        let failure = renderer.located(&family.name, &configuration, &outcome);
                        (outcome, failure, true)
                    }
                    None => {
                        let request = CompileRequest::kernel(&family.name, rendered.source);
                        let predicted = renderer.predicted(family, &configuration);
                        let plan = rendered.plan;
                        let pending =
                            PendingCompile { number, pick, configuration, plan, predicted, source };
                        return Some((pending, request));
                    }
                }
            }
        };
        self.is_record_evaluated |= self.record == Some(pick);
        let (family, configuration) = (pick.family, &configuration);
        let outcome = &outcome;
        let known = EvaluatedCandidate { family, configuration, outcome, failure, recalled };
        self.stats.take(&known, on_event);
        None
    }

    /// Takes a result of the compiler, and queues the candidate unless its outcome is known.
    fn take_compiled(
        &mut self,
        pending: PendingCompile,
        result: CompileResult,
        renderer: &Renderer<'_>,
        on_event: &mut dyn FnMut(TuneEvent<'_>),
    ) -> Result<(), TuneError> {
        let PendingCompile { number, pick, configuration, plan, predicted, source } = pending;
        let outcome = match result.and_then(overlapping) {
            // Without a compiler the run is over. Any other error is the candidate's outcome.
            Err(error) if error.ends_run() => return Err(error.into()),
            // The search is over.
            Err(CompileError::Cancelled) => return Ok(()),
            // Not journalled: a later run may allow more time.
            Err(error @ CompileError::TimedOut { .. }) => {
                self.stats.coverage[pick.family].restarts += 1;
                self.is_record_evaluated |= self.record == Some(pick);
                let (family, outcome) = (pick.family, &failed_compile(error));
                let (configuration, recalled) = (&configuration, false);
                let failure = outcome.failure().map(LocatedFailure::plain);
                let known =
                    EvaluatedCandidate { family, configuration, outcome, failure, recalled };
                self.stats.take(&known, on_event);
                self.unreported.insert(number, (pick, None));
                return Ok(());
            }
            Err(error) => failed_compile(error),
            Ok(compiled) => {
                self.phases.compiling += compiled.elapsed;
                self.phases.from_cache += usize::from(compiled.origin == ImageOrigin::Cache);
                let kernel = KernelId::of(&compiled.image, &plan);
                let candidate = CompiledCandidate { plan, compiled, predicted };
                let pending = PendingEvaluation { number, pick, configuration, kernel };
                if self.journal.known(&pending.kernel).is_some() {
                    self.conclude(pending, Some(candidate), true, renderer, on_event);
                } else if self.begun.insert(pending.kernel.clone()) {
                    self.queue.push_back((pending, candidate));
                } else {
                    self.twins.push((pending, candidate));
                }
                return Ok(());
            }
        };
        let pending = PendingEvaluation { number, pick, configuration, kernel: source };
        self.write(&pending, outcome)?;
        self.conclude(pending, None, false, renderer, on_event);
        Ok(())
    }

    /// Takes the report of an evaluator, for all candidates with the same kernel.
    fn take_evaluated(
        &mut self,
        report: EvaluationReport<PendingEvaluation>,
        renderer: &Renderer<'_>,
        on_event: &mut dyn FnMut(TuneEvent<'_>),
    ) -> Result<(), TuneError> {
        let EvaluationReport { tag: pending, candidate, evaluated, .. } = report;
        let Evaluated { outcome, restarted } = match evaluated {
            // The search is over.
            Err(TuneError::Interrupted) => return Ok(()),
            evaluated => evaluated?,
        };
        let coverage = &mut self.stats.coverage[pending.pick.family];
        if let Some(reason) = &restarted {
            coverage.restarts += 1;
            on_event(TuneEvent::Restarted { reason });
        }
        self.write(&pending, outcome)?;
        let (kernel, family) = (pending.kernel.clone(), pending.pick.family);
        self.conclude(pending, Some(candidate), false, renderer, on_event);
        let coverage = &self.stats.coverage[family];
        if restarted.is_some() && coverage.is_given_up() {
            on_event(TuneEvent::GivenUp { coverage });
        }
        let twins: Vec<_> = self.twins.extract_if(.., |(twin, _)| twin.kernel == kernel).collect();
        for (twin, candidate) in twins {
            self.conclude(twin, Some(candidate), true, renderer, on_event);
        }
        Ok(())
    }

    /// Writes an outcome to the journal.
    fn write(&mut self, pending: &PendingEvaluation, outcome: Outcome) -> Result<(), TuneError> {
        let family = self.spaces.families[pending.pick.family].name.clone();
        let (kernel, parameters) = (pending.kernel.clone(), pending.configuration.clone());
        let after_s = Some(seconds(self.began));
        Ok(self.journal.append(Entry { kernel, family, parameters, after_s, outcome })?)
    }

    /// Counts an outcome that the journal has, and keeps it for the strategy.
    fn conclude(
        &mut self,
        pending: PendingEvaluation,
        candidate: Option<CompiledCandidate>,
        recalled: bool,
        renderer: &Renderer<'_>,
        on_event: &mut dyn FnMut(TuneEvent<'_>),
    ) {
        let PendingEvaluation { number, pick, configuration, kernel } = pending;
        let Some(entry) = self.journal.known(&kernel) else { return };
        self.is_record_evaluated |= self.record == Some(pick);
        let (family, configuration) = (pick.family, &configuration);
        let outcome = &entry.outcome;
        let name = &self.spaces.families[family].name;
        let failure = renderer.located(name, configuration, outcome);
        let known = EvaluatedCandidate { family, configuration, outcome, failure, recalled };
        self.stats.take(&known, on_event);
        if let Some(candidate) = candidate {
            let default = self.spaces.families[pick.family].default.as_ref();
            let admission = if self.record == Some(pick) {
                Admission::Always
            } else if default == Some(configuration) {
                Admission::Default
            } else {
                Admission::Speed
            };
            self.stats.keep(&known, admission, kernel, candidate);
        }
        let time = known.outcome.measurement().map(Measurement::median);
        self.unreported.insert(number, (pick, time));
    }
}

/// Seconds since `began`, to a millisecond.
pub(super) fn seconds(began: Instant) -> f64 {
    began.elapsed().as_millis() as f64 / 1e3
}
