//! Surrogate models of one family: its proposals and outcomes, and the forest and the process that are fitted to them.

use fastrand::Rng;

use super::encoding::{EncodedPoint, Encoding};
use super::forest::{self, Forest};
use super::gaussian::{Covariance, Gaussian};
use super::strategy::Pick;
use crate::model::Micros;

/// Most points of a process: the best, and as many others.
const MOST_OBSERVED: usize = 200;

/// Most points of a forest.
const MOST_OF_FOREST: usize = 1000;

/// Random moves of a fit, and the growth of the points until the next one.
const MOVES: usize = 80;
const REFIT: f64 = 1.3;

/// Error of a predicted time, as a logarithm, at which the process clips.
const SURPRISE: f64 = 0.3;

/// See the module.
#[derive(Debug)]
pub(super) struct Surrogate {
    pub(super) encoding: Encoding,
    proposed: Vec<(Pick, EncodedPoint)>,
    /// Logarithm of each predicted time; 0 without predictions.
    expected: Vec<f64>,
    /// One for each proposal.
    outcomes: Vec<Evaluation>,
    /// Whether times are predicted: the models then learn the errors of predictions.
    pub(super) is_predicted: bool,
    /// The last fit, and the number of its outcomes.
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
            outcomes: Vec::new(),
            is_predicted,
            covariance: None,
            fitted_to: 0,
        }
    }

    /// Records a proposal with the logarithm of its predicted time.
    pub(super) fn propose(&mut self, pick: Pick, indices: &[usize], expected: f64) {
        self.proposed.push((pick, self.encoding.point(indices)));
        self.expected.push(expected);
        self.outcomes.push(Evaluation::UnderWay);
    }

    pub(super) fn observe(&mut self, pick: Pick, time: Option<Micros>) {
        if let Some(at) = self.proposed.iter().rposition(|(proposed, _)| *proposed == pick) {
            self.outcomes[at] = match time {
                // A clock may say zero, which has no logarithm.
                Some(Micros(time)) => Evaluation::Time(time.max(f64::MIN_POSITIVE).ln()),
                None => Evaluation::Failed,
            };
        }
    }

    /// Number of proposals.
    pub(super) fn len(&self) -> usize {
        self.proposed.len()
    }

    /// Distance to the nearest proposal.
    pub(super) fn nearest(&self, point: &EncodedPoint) -> f32 {
        let distances = self.proposed.iter().map(|(_, other)| self.encoding.distance(point, other));
        distances.fold(f32::INFINITY, f32::min)
    }

    /// Points under evaluation.
    fn under_way(&self) -> impl Iterator<Item = &EncodedPoint> {
        let proposed = self.proposed.iter().zip(&self.outcomes);
        proposed.filter(|(_, answer)| **answer == Evaluation::UnderWay).map(|((_, point), _)| point)
    }

    /// Evaluated points, with logarithms of measured over predicted times; `failed` stands for the time of failures.
    fn evaluated(&self, failed: f64) -> Vec<(f64, &EncodedPoint)> {
        let proposed = self.proposed.iter().zip(&self.outcomes).zip(&self.expected);
        let evaluated = proposed.filter_map(|(((_, point), answer), expected)| match answer {
            Evaluation::Time(time) => Some((*time - expected, point)),
            Evaluation::Failed => Some((failed - expected, point)),
            Evaluation::UnderWay => None,
        });
        evaluated.collect()
    }

    /// Prepares a forest of the outcomes, with its random numbers drawn; failures are as slow as the slowest.
    pub(super) fn forest<'a>(
        &'a self,
        slowest: f64,
        rng: &mut Rng,
    ) -> impl FnOnce() -> Forest + use<'a> {
        let mut evaluated = self.evaluated(slowest);
        best_and_others(&mut evaluated, MOST_OF_FOREST, rng);
        let seeds = Forest::seeds(rng);
        move || {
            let rows: Vec<Vec<f32>> =
                evaluated.iter().map(|(_, point)| forest::values(&self.encoding, point)).collect();
            let targets: Vec<f32> = evaluated.iter().map(|(time, _)| *time as f32).collect();
            Forest::grow(&self.encoding, &rows, &targets, seeds)
        }
    }

    /// A process conditioned on the outcomes, with points under evaluation. Times above `slow`, or above predictions by
    /// [`SURPRISE`], and failures are clipped: a process that follows slow times fits the fast ones less well.
    pub(super) fn process(&self, slow: f64, rng: &mut Rng) -> Option<Gaussian> {
        let clip = if self.is_predicted { SURPRISE } else { slow };
        let mut known = self.evaluated(slow);
        for (time, _) in &mut known {
            *time = time.min(clip);
        }
        let moves = if self.is_fit_due() { MOVES } else { 0 };
        let earlier = self.covariance.clone();
        best_and_others(&mut known, MOST_OBSERVED, rng);
        let (targets, mut points): (Vec<f64>, Vec<&EncodedPoint>) = known.into_iter().unzip();
        points.extend(self.under_way());
        Gaussian::fit(&self.encoding, &points, &targets, earlier, moves, rng)
    }

    /// Keeps the fit of a process as the start of the next.
    pub(super) fn keep_fit(&mut self, process: &Gaussian) {
        self.covariance = Some(process.covariance.clone());
        if self.is_fit_due() {
            self.fitted_to = self.evaluated_count();
        }
    }

    fn is_fit_due(&self) -> bool {
        self.evaluated_count() as f64 >= REFIT * self.fitted_to as f64
    }

    fn evaluated_count(&self) -> usize {
        self.outcomes.iter().filter(|answer| **answer != Evaluation::UnderWay).count()
    }
}

/// Truncates to `most`: the fastest half of that, and a random sample of the others.
fn best_and_others(evaluated: &mut Vec<(f64, &EncodedPoint)>, most: usize, rng: &mut Rng) {
    if evaluated.len() > most {
        evaluated.sort_by(|a, b| a.0.total_cmp(&b.0));
        rng.shuffle(&mut evaluated[most / 2..]);
        evaluated.truncate(most);
    }
}
