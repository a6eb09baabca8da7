//! What a model knows of one family: the points that were asked for, what was answered, and the
//! forest and the process that learn from it.

use fastrand::Rng;

use super::Pick;
use super::forest::{self, Forest};
use super::gaussian::{Correlation, Gaussian};
use super::terrain::{Point, Terrain};
use crate::model::Micros;

/// Points that a process knows: the best, and as many others. Its work grows with the square.
const KNOWN: usize = 200;

/// The same for a forest, which is grown anew for every batch.
const KNOWN_TO_FOREST: usize = 1000;

/// Random moves of a fit of the process, and by how much the points grow until the next one.
const MOVES: usize = 80;
const REFIT: f64 = 1.3;

/// See the module.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) terrain: Terrain,
    asked: Vec<(Pick, Point)>,
    /// One for each that was asked for.
    answers: Vec<Answer>,
    /// Where the last fit ended, and how many answers it knew.
    correlation: Option<Correlation>,
    fitted_to: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    UnderWay,
    Failed,
    /// The logarithm of the time.
    Time(f64),
}

impl Field {
    pub(super) fn new(terrain: Terrain) -> Self {
        Self { terrain, asked: Vec::new(), answers: Vec::new(), correlation: None, fitted_to: 0 }
    }

    pub(super) fn ask(&mut self, pick: Pick, indices: &[usize]) {
        self.asked.push((pick, self.terrain.point(indices)));
        self.answers.push(Answer::UnderWay);
    }

    pub(super) fn tell(&mut self, pick: Pick, time: Option<Micros>) {
        if let Some(at) = self.asked.iter().rposition(|(asked, _)| *asked == pick) {
            self.answers[at] = match time {
                // A clock may say zero; logarithms may not be of it.
                Some(Micros(time)) => Answer::Time(time.max(f64::MIN_POSITIVE).ln()),
                None => Answer::Failed,
            };
        }
    }

    /// How many were asked for.
    pub(super) fn len(&self) -> usize {
        self.asked.len()
    }

    /// The distance to the nearest that was asked for.
    pub(super) fn nearest(&self, point: &Point) -> f32 {
        let distances = self.asked.iter().map(|(_, other)| self.terrain.distance(point, other));
        distances.fold(f32::INFINITY, f32::min)
    }

    /// The points whose answers are awaited.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &Point> {
        let asked = self.asked.iter().zip(&self.answers);
        asked.filter(|(_, answer)| **answer == Answer::UnderWay).map(|((_, point), _)| point)
    }

    /// The points that were answered, with logarithms of times: `failed` for those that have none.
    fn answered(&self, failed: f64) -> Vec<(f64, &Point)> {
        let asked = self.asked.iter().zip(&self.answers);
        let answered = asked.filter_map(|((_, point), answer)| match answer {
            Answer::Time(time) => Some((*time, point)),
            Answer::Failed => Some((failed, point)),
            Answer::UnderWay => None,
        });
        answered.collect()
    }

    /// A forest of what was answered; failures are as slow as the slowest.
    pub(super) fn forest(&self, slowest: f64, rng: &mut Rng) -> Forest {
        let mut answered = self.answered(slowest);
        best_and_others(&mut answered, KNOWN_TO_FOREST, rng);
        let rows: Vec<Vec<f32>> =
            answered.iter().map(|(_, point)| forest::values(&self.terrain, point)).collect();
        let targets: Vec<f32> = answered.iter().map(|(time, _)| *time as f32).collect();
        Forest::grow(&self.terrain, &rows, &targets, rng)
    }

    /// A process that knows what was answered. Of what is slower than `clip`, and of failures, it
    /// knows only that: one that follows all slow times knows the fast ones less well.
    pub(super) fn process(&mut self, clip: f64, rng: &mut Rng) -> Option<Gaussian> {
        let mut known = self.answered(clip);
        for (time, _) in &mut known {
            *time = time.min(clip);
        }
        let answered = known.len();
        best_and_others(&mut known, KNOWN, rng);
        let is_due = answered as f64 >= REFIT * self.fitted_to as f64;
        let moves = if is_due { MOVES } else { 0 };
        let (targets, points): (Vec<f64>, Vec<&Point>) = known.into_iter().unzip();
        let earlier = self.correlation.clone();
        let process = Gaussian::fit(&self.terrain, &points, &targets, earlier, moves, rng)?;
        self.correlation = Some(process.correlation.clone());
        if is_due {
            self.fitted_to = answered;
        }
        Some(process)
    }
}

/// Where there are more than `most`: the fastest half of that, and as many of the others.
fn best_and_others(answered: &mut Vec<(f64, &Point)>, most: usize, rng: &mut Rng) {
    if answered.len() > most {
        answered.sort_by(|a, b| a.0.total_cmp(&b.0));
        rng.shuffle(&mut answered[most / 2..]);
        answered.truncate(most);
    }
}
