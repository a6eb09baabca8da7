//! Plays a strategy against a recorded space and says how close to the optimum it came after how
//! many evaluations. Every evaluation is of another configuration, for no strategy asks for one
//! twice.

use rayon::prelude::*;

use super::{Recording, Search};

/// After how many evaluations is looked.
pub const CHECKPOINTS: [usize; 5] = [25, 50, 100, 200, 400];

/// What is played.
#[derive(Debug, Clone, Copy)]
pub struct Trials {
    /// The strategy.
    pub search: Search,
    /// How often, each time with another seed.
    pub repeats: usize,
    /// Evaluations of each.
    pub most: usize,
    /// Candidates that are asked for before any of them is answered.
    pub batch: usize,
    /// The first seed.
    pub seed: u64,
}

/// How close the trials came after some evaluations, as fractions of the optimum: its time over
/// the best one's, 0 where none was correct.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// After how many.
    pub evaluations: usize,
    /// Mean of the trials.
    pub mean: f64,
    /// The middle trial.
    pub median: f64,
    /// The worst trial.
    pub worst: f64,
}

/// What became of the trials.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Of each trial, the fraction of the optimum after each evaluation.
    pub curves: Vec<Vec<f64>>,
}

/// Plays them, as many at a time as there are cores.
pub fn replay(recording: &Recording, trials: &Trials) -> Replay {
    let seeds = (0..trials.repeats as u64).into_par_iter();
    let curves = seeds.map(|trial| play(recording, trials, trials.seed.wrapping_add(trial)));
    Replay { curves: curves.collect() }
}

fn play(recording: &Recording, trials: &Trials, seed: u64) -> Vec<f64> {
    let mut strategy = trials.search.begin(recording.territories().to_vec(), seed);
    let mut best = f64::INFINITY;
    let mut curve = Vec::new();
    while curve.len() < trials.most {
        let batch = strategy.ask(trials.batch.min(trials.most - curve.len()));
        if batch.is_empty() {
            break;
        }
        for pick in batch {
            let time = recording.time(pick);
            best = best.min(time.map_or(f64::INFINITY, |time| time.0));
            curve.push(recording.best().0 / best);
            strategy.tell(pick, time);
        }
    }
    curve
}

impl Replay {
    /// How close they came after `evaluations`. A trial that ended before stays where it was.
    pub fn level(&self, evaluations: usize) -> Level {
        let reached = |curve: &Vec<f64>| -> f64 {
            curve[..evaluations.min(curve.len())].last().copied().unwrap_or(0.0)
        };
        let mut reached: Vec<f64> = self.curves.iter().map(reached).collect();
        reached.sort_by(f64::total_cmp);
        let mean = reached.iter().sum::<f64>() / reached.len().max(1) as f64;
        let median = crate::model::statistics::quantile(&reached, 0.5).unwrap_or(0.0);
        Level { evaluations, mean, median, worst: reached.first().copied().unwrap_or(0.0) }
    }

    /// The levels at all [`CHECKPOINTS`] up to `most`, and at `most`.
    pub fn levels(&self, most: usize) -> Vec<Level> {
        let before = CHECKPOINTS.into_iter().filter(|checkpoint| *checkpoint < most);
        before.chain([most]).map(|evaluations| self.level(evaluations)).collect()
    }
}
