//! What a model knows of one family: the points that were proposed for, what was answered, and the
//! forest and the process that learn from it.

use fastrand::Rng;

use super::encoding::{EncodedPoint, Encoding};
use super::forest::{self, Forest};
use super::gaussian::{Covariance, Gaussian};
use super::strategy::Pick;
use crate::model::Micros;

/// Points that a process knows: the best, and as many others. Its work grows with the square.
const KNOWN: usize = 200;

/// The same for a forest, which is grown anew for every batch.
const KNOWN_TO_FOREST: usize = 1000;

/// Random moves of a fit of the process, and by how much the points grow until the next one.
const MOVES: usize = 80;
const REFIT: f64 = 1.3;

/// By how much a logarithm of a time exceeds what was expected, from where on a process knows only
/// that it does: the forecasts of an H200's kernels are within 0.15 nine times in ten.
const SURPRISE: f64 = 0.3;

/// See the module.
#[derive(Debug)]
pub(super) struct Surrogate {
    pub(super) encoding: Encoding,
    proposed: Vec<(Pick, EncodedPoint)>,
    /// The logarithm of what each was expected to take before anything was known; 0 where nobody
    /// expects anything.
    expected: Vec<f64>,
    /// One for each that was proposed for.
    answers: Vec<Evaluation>,
    /// Whether times are expected: then models learn what expectations are off by.
    pub(super) is_predicted: bool,
    /// Where the last fit ended, and how many answers it knew.
    covariance: Option<Covariance>,
    fitted_to: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Evaluation {
    UnderWay,
    Failed,
    /// The logarithm of the time.
    Time(f64),
}

impl Surrogate {
    pub(super) fn new(encoding: Encoding, is_predicted: bool) -> Self {
        Self {
            encoding,
            proposed: Vec::new(),
            expected: Vec::new(),
            answers: Vec::new(),
            is_predicted,
            covariance: None,
            fitted_to: 0,
        }
    }

    /// Notes a question, of which the logarithm of so long a time is expected.
    pub(super) fn propose(&mut self, pick: Pick, indices: &[usize], expected: f64) {
        self.proposed.push((pick, self.encoding.point(indices)));
        self.expected.push(expected);
        self.answers.push(Evaluation::UnderWay);
    }

    pub(super) fn observe(&mut self, pick: Pick, time: Option<Micros>) {
        if let Some(at) = self.proposed.iter().rposition(|(proposed, _)| *proposed == pick) {
            self.answers[at] = match time {
                // A clock may say zero; logarithms may not be of it.
                Some(Micros(time)) => Evaluation::Time(time.max(f64::MIN_POSITIVE).ln()),
                None => Evaluation::Failed,
            };
        }
    }

    /// How many were proposed for.
    pub(super) fn len(&self) -> usize {
        self.proposed.len()
    }

    /// The distance to the nearest that was proposed for.
    pub(super) fn nearest(&self, point: &EncodedPoint) -> f32 {
        let distances = self.proposed.iter().map(|(_, other)| self.encoding.distance(point, other));
        distances.fold(f32::INFINITY, f32::min)
    }

    /// The points whose answers are awaited.
    fn under_way(&self) -> impl Iterator<Item = &EncodedPoint> {
        let proposed = self.proposed.iter().zip(&self.answers);
        proposed.filter(|(_, answer)| **answer == Evaluation::UnderWay).map(|((_, point), _)| point)
    }

    /// The points that were answered, with logarithms of times, `failed` for those that have none;
    /// less what was expected.
    fn answered(&self, failed: f64) -> Vec<(f64, &EncodedPoint)> {
        let proposed = self.proposed.iter().zip(&self.answers).zip(&self.expected);
        let answered = proposed.filter_map(|(((_, point), answer), expected)| match answer {
            Evaluation::Time(time) => Some((*time - expected, point)),
            Evaluation::Failed => Some((failed - expected, point)),
            Evaluation::UnderWay => None,
        });
        answered.collect()
    }

    /// Grows a forest of what was answered when it is called, all that is random drawn before; failures are as
    /// slow as the slowest.
    pub(super) fn forest<'a>(
        &'a self,
        slowest: f64,
        rng: &mut Rng,
    ) -> impl FnOnce() -> Forest + use<'a> {
        let mut answered = self.answered(slowest);
        best_and_others(&mut answered, KNOWN_TO_FOREST, rng);
        let seeds = Forest::seeds(rng);
        move || {
            let rows: Vec<Vec<f32>> =
                answered.iter().map(|(_, point)| forest::values(&self.encoding, point)).collect();
            let targets: Vec<f32> = answered.iter().map(|(time, _)| *time as f32).collect();
            Forest::grow(&self.encoding, &rows, &targets, seeds)
        }
    }

    /// A process that knows what was answered, and what will be. Of what is slower than `slow`, and of
    /// failures, it knows only that: one that follows all slow times knows the fast ones less well. Where
    /// times are expected, slow is what is slower than expected by [`SURPRISE`].
    pub(super) fn process(&self, slow: f64, rng: &mut Rng) -> Option<Gaussian> {
        let clip = if self.is_predicted { SURPRISE } else { slow };
        let mut known = self.answered(slow);
        for (time, _) in &mut known {
            *time = time.min(clip);
        }
        let moves = if self.is_fit_due() { MOVES } else { 0 };
        let earlier = self.covariance.clone();
        best_and_others(&mut known, KNOWN, rng);
        let (targets, mut points): (Vec<f64>, Vec<&EncodedPoint>) = known.into_iter().unzip();
        points.extend(self.under_way());
        Gaussian::fit(&self.encoding, &points, &targets, earlier, moves, rng)
    }

    /// Keeps where the fit of a process ended, for the next one to begin there.
    pub(super) fn keep_fit(&mut self, process: &Gaussian) {
        self.covariance = Some(process.covariance.clone());
        if self.is_fit_due() {
            self.fitted_to = self.answered_so_far();
        }
    }

    fn is_fit_due(&self) -> bool {
        self.answered_so_far() as f64 >= REFIT * self.fitted_to as f64
    }

    fn answered_so_far(&self) -> usize {
        self.answers.iter().filter(|answer| **answer != Evaluation::UnderWay).count()
    }
}

/// Where there are more than `most`: the fastest half of that, and as many of the others.
fn best_and_others(answered: &mut Vec<(f64, &EncodedPoint)>, most: usize, rng: &mut Rng) {
    if answered.len() > most {
        answered.sort_by(|a, b| a.0.total_cmp(&b.0));
        rng.shuffle(&mut answered[most / 2..]);
        answered.truncate(most);
    }
}
