//! Search statistics: outcomes by family, the best time, and the candidates that may win.

use super::candidate::CompiledCandidate;
use super::coverage::{Coverage, FailureGroup};
use super::event::TuneEvent;
use super::failed::FailedCandidate;
use super::finalist::{Admission, FINALISTS, Finalist, RejectedFinalist};
use super::kernel_id::KernelId;
use super::prepare::Spaces;
use super::ranking::{Standing, median};
use super::warm_start::Hints;
use crate::measure::{MIN_SAMPLES, Race};
use crate::model::{Configuration, LocatedFailure, Micros, Outcome, OutcomeKind};
use crate::predict::Landmark;

/// Correct candidates that are kept compiled: possible finalists, and the table of results.
const KEPT: usize = 10;

/// A candidate whose outcome is known.
pub(super) struct EvaluatedCandidate<'a> {
    /// The place of its family among those that serve the problem.
    pub(super) family: usize,
    pub(super) configuration: &'a Configuration,
    pub(super) outcome: &'a Outcome,
    /// The failure as people read it, where it failed.
    pub(super) failure: Option<LocatedFailure>,
    /// Whether its outcome was known: from another candidate with the same kernel, or from an earlier run.
    pub(super) recalled: bool,
}

/// The outcomes of a run.
pub(super) struct SearchStats {
    pub(super) count: usize,
    /// How many are expected to follow.
    pub(super) left: usize,
    pub(super) best: Option<Micros>,
    pub(super) race: Race,
    pub(super) finalists: Vec<Finalist>,
    pub(super) coverage: Vec<Coverage>,
    landmarks: Vec<PendingLandmark>,
}

/// A configuration that is measured for many problems. It becomes a landmark once it has a time.
struct PendingLandmark {
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
            default: entry.default.clone(),
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
            PendingLandmark { family, configuration, name, time: None }
        });
        Self {
            count: 0,
            left: most,
            best: None,
            race: Race::new(FINALISTS, floor),
            finalists: Vec::new(),
            coverage: coverage.collect(),
            landmarks: landmarks.collect(),
        }
    }

    /// Configurations that are measured for many problems, with their times.
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

    /// Counts an outcome and reports it.
    pub(super) fn take(
        &mut self,
        known: &EvaluatedCandidate<'_>,
        on_event: &mut dyn FnMut(TuneEvent<'_>),
    ) {
        let EvaluatedCandidate { family, configuration, outcome, ref failure, recalled } = *known;
        self.count += 1;
        self.left = self.left.saturating_sub(1);
        let coverage = &mut self.coverage[family];
        *coverage.outcomes.entry(outcome.kind()).or_default() += 1;
        coverage.recalled += usize::from(recalled);
        if let Some(measurement) = outcome.measurement() {
            // Candidates that were dropped at once have fewer samples.
            if measurement.samples.len() >= MIN_SAMPLES {
                self.race.admit(&measurement.samples);
            }
            let time = measurement.median();
            let is_this = |known: &&mut PendingLandmark| {
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
        } else if let Some(failure) = failure {
            coverage.fail(FailedCandidate {
                configuration: configuration.clone(),
                outcome: outcome.clone(),
                failure: failure.clone(),
            });
        }
        on_event(TuneEvent::Evaluated {
            count: self.count,
            family: &self.coverage[family].family,
            configuration,
            outcome,
            failure: failure.as_ref(),
            recalled,
            best: self.best,
            left: self.left,
        });
    }

    /// Counts a finalist that failed a check as failed instead of correct.
    pub(super) fn reject(&mut self, rejected: &RejectedFinalist) {
        let known = self.coverage.iter_mut().find(|coverage| coverage.family == rejected.family);
        let Some(coverage) = known else { return };
        if let Some(correct) = coverage.outcomes.get_mut(&OutcomeKind::Correct) {
            *correct = correct.saturating_sub(1);
        }
        *coverage.outcomes.entry(rejected.outcome.kind()).or_default() += 1;
        let (configuration, outcome) = (rejected.configuration.clone(), rejected.outcome.clone());
        let failure = LocatedFailure::plain(outcome.failure().unwrap_or_default());
        let first = FailedCandidate { configuration, outcome, failure };
        coverage.failures.insert(0, FailureGroup { first, count: 1 });
    }

    /// Keeps a correct candidate if it is among the fastest or admitted for another reason. Of candidates with the same
    /// kernel the first is kept, with the stronger reason.
    pub(super) fn keep(
        &mut self,
        known: &EvaluatedCandidate<'_>,
        admission: Admission,
        kernel: KernelId,
        candidate: CompiledCandidate,
    ) {
        let Outcome::Correct { validation, measurement, resources } = known.outcome else { return };
        if let Some(known) = self.finalists.iter_mut().find(|known| known.kernel == kernel) {
            known.admission = known.admission.max(admission);
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
        self.finalists.push(Finalist {
            admission,
            kernel,
            standing,
            candidate,
            neighbours: Vec::new(),
        });
        self.finalists.sort_by(|a, b| {
            median(&a.standing.measurement).total_cmp(&median(&b.standing.measurement))
        });
        let mut place = 0;
        self.finalists.retain(|known| {
            place += 1;
            place <= KEPT || known.admission > Admission::Speed
        });
    }
}
