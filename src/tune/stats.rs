//! What became of the candidates of a run so far: counts by family, the best, and the few that may
//! win.

use super::evaluator::{Candidate, Claim, Kept, Refuted, Standing};
use super::final_round::FINALISTS;
use super::journal::KernelId;
use super::prepare::Spaces;
use super::warm_start::Hints;
use super::{Coverage, Event, median};
use crate::measure::{MIN_SAMPLES, Race};
use crate::model::{Configuration, Micros, Outcome, OutcomeKind};
use crate::predict::Landmark;

/// Correct candidates whose compiled form is kept: finalists, and the table a person sees.
const KEPT: usize = 10;

/// Failures of each family that a summary keeps.
const KEPT_FAILURES: usize = 10;

/// A candidate whose outcome is known.
pub(super) struct EvaluatedCandidate<'a> {
    /// The place of its family among those that serve the problem.
    pub(super) family: usize,
    pub(super) configuration: &'a Configuration,
    pub(super) outcome: &'a Outcome,
    /// Whether it was known before: the same kernel was evaluated for another candidate, or by an
    /// earlier run.
    pub(super) recalled: bool,
}

/// The outcomes of a run.
pub(super) struct SearchStats {
    pub(super) count: usize,
    /// How many are expected to follow.
    pub(super) left: usize,
    pub(super) best: Option<Micros>,
    pub(super) race: Race,
    pub(super) kept: Vec<Kept>,
    pub(super) coverage: Vec<Coverage>,
    landmarks: Vec<Candidature>,
    /// What each correct candidate took.
    pub(super) times: Vec<(String, Configuration, Micros)>,
}

/// What is measured for many problems, and becomes a landmark once it has a time.
struct Candidature {
    /// The place of its family among those that serve the problem.
    family: usize,
    configuration: Configuration,
    name: String,
    time: Option<Micros>,
}

impl SearchStats {
    pub(super) fn new(spaces: &Spaces, hints: &Hints, floor: Micros, most: usize) -> Self {
        let coverage = spaces.families.iter().map(|entry| Coverage {
            family: entry.name.clone(),
            raw: entry.space.raw,
            legal: entry.space.len(),
            pruned: entry.space.pruned.clone(),
            ..Coverage::default()
        });
        let landmarks = spaces.landmarks(hints).into_iter();
        let landmarks = landmarks.map(|(family, configuration)| {
            let entry = &spaces.families[family];
            let parameters = entry.space.parameters().iter().map(|(name, values)| (name, values));
            let name = configuration.short_name(&entry.name, parameters);
            Candidature { family, configuration, name, time: None }
        });
        Self {
            count: 0,
            left: most,
            best: None,
            race: Race::new(FINALISTS, floor),
            kept: Vec::new(),
            coverage: coverage.collect(),
            landmarks: landmarks.collect(),
            times: Vec::new(),
        }
    }

    /// What is measured for many problems and has a time.
    pub(super) fn landmarks(&self) -> Vec<Landmark> {
        let timed = self.landmarks.iter().filter_map(|known| {
            Some(Landmark {
                family: self.coverage[known.family].family.clone(),
                configuration: known.configuration.clone(),
                name: known.name.clone(),
                time: known.time?,
            })
        });
        timed.collect()
    }

    /// Counts an outcome and tells of it.
    pub(super) fn take(
        &mut self,
        known: &EvaluatedCandidate<'_>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) {
        let EvaluatedCandidate { family, configuration, outcome, recalled } = *known;
        self.count += 1;
        self.left = self.left.saturating_sub(1);
        let coverage = &mut self.coverage[family];
        *coverage.outcomes.entry(outcome.kind()).or_default() += 1;
        coverage.recalled += usize::from(recalled);
        if let Some(measurement) = outcome.measurement() {
            // Those that were dropped at once have fewer samples.
            if measurement.samples.len() >= MIN_SAMPLES {
                self.race.admit(&measurement.samples);
            }
            let time = measurement.median();
            self.times.push((coverage.family.clone(), configuration.clone(), time));
            let is_this = |known: &&mut Candidature| {
                known.family == family && known.configuration == *configuration
            };
            if let Some(known) = self.landmarks.iter_mut().find(is_this) {
                known.time = Some(time);
            }
            let faster = |best: Option<Micros>| best.is_none_or(|best| time < best);
            if faster(coverage.best) {
                coverage.best = Some(time);
            }
            if faster(self.best) {
                self.best = Some(time);
            }
        } else if coverage.failures.len() < KEPT_FAILURES {
            coverage.failures.push((configuration.clone(), outcome.clone()));
        }
        on_event(Event::Evaluated {
            count: self.count,
            family: &self.coverage[family].family,
            configuration,
            outcome,
            recalled,
            best: self.best,
            left: self.left,
        });
    }

    /// Takes back that a candidate was correct.
    pub(super) fn refute(&mut self, refuted: &Refuted) {
        let known = self.coverage.iter_mut().find(|coverage| coverage.family == refuted.family);
        let Some(coverage) = known else { return };
        if let Some(correct) = coverage.outcomes.get_mut(&OutcomeKind::Correct) {
            *correct = correct.saturating_sub(1);
        }
        *coverage.outcomes.entry(refuted.outcome.kind()).or_default() += 1;
        coverage.failures.insert(0, (refuted.configuration.clone(), refuted.outcome.clone()));
    }

    /// Keeps a correct candidate if it is among the fastest, or has another claim to the final. Of those
    /// that are the same kernel, the first is kept, with the better claim.
    pub(super) fn keep(
        &mut self,
        known: &EvaluatedCandidate<'_>,
        claim: Claim,
        kernel: KernelId,
        candidate: Candidate,
    ) {
        let Outcome::Correct { validation, measurement, resources } = known.outcome else { return };
        if let Some(kept) = self.kept.iter_mut().find(|kept| kept.kernel == kernel) {
            kept.claim = kept.claim.max(claim);
            return;
        }
        let standing = Standing {
            family: self.coverage[known.family].family.clone(),
            configuration: known.configuration.clone(),
            plan: candidate.plan.clone(),
            validation: validation.clone(),
            also: Vec::new(),
            measurement: measurement.clone(),
            resources: *resources,
            contested: false,
        };
        self.kept.push(Kept { claim, kernel, standing, candidate, elsewhere: Vec::new() });
        self.kept.sort_by(|a, b| {
            median(&a.standing.measurement).total_cmp(&median(&b.standing.measurement))
        });
        let mut place = 0;
        self.kept.retain(|kept| {
            place += 1;
            place <= KEPT || kept.claim > Claim::Speed
        });
    }
}
