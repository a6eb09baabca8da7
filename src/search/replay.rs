//! Replay of a strategy on a recorded space: how close to the optimum it comes after how many evaluations.

use rayon::prelude::*;

use super::{Recording, Search};

/// Evaluations after which results are reported.
pub const CHECKPOINTS: [usize; 5] = [25, 50, 100, 200, 400];

/// Settings of a replay.
#[derive(Debug, Clone, Copy)]
pub struct Trials {
    /// The strategy.
    pub search: Search,
    /// Number of trials, each with its own seed.
    pub repeats: usize,
    /// Evaluations of each.
    pub most: usize,
    /// Proposals in a batch.
    pub batch: usize,
    /// The first seed.
    pub seed: u64,
    /// Gain that counts as better, as a fraction of the time.
    pub within: f64,
}

/// Fractions of the optimum that the trials reached: its time over the best one's, 0 without a correct one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplayLevel {
    /// Number of evaluations.
    pub evaluations: usize,
    /// Mean of the trials.
    pub mean: f64,
    /// The middle trial.
    pub median: f64,
    /// The worst trial.
    pub worst: f64,
}

/// Stated probability after a batch, and the truth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StatedChance {
    /// Number of evaluations.
    pub evaluations: usize,
    /// Stated probability that something better is left.
    pub chance: f64,
    /// Whether something better was left.
    pub is_left: bool,
}

/// Result of a trial.
#[derive(Debug, Clone, Default)]
pub struct ReplayTrial {
    /// The fraction of the optimum after each evaluation.
    pub curve: Vec<f64>,
    /// Stated probabilities; empty for strategies without models.
    pub stated: Vec<StatedChance>,
}

/// Results of all trials.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Each of them.
    pub trials: Vec<ReplayTrial>,
}

/// Results if trials ended as soon as the stated probability is below a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stop {
    /// The limit.
    pub chance: f64,
    /// Trials that would have ended.
    pub stopped: usize,
    /// Mean number of evaluations there.
    pub evaluations: f64,
    /// Mean fraction of the optimum there.
    pub fraction: f64,
    /// Share of them that would have missed something better.
    pub missed: f64,
}

/// Calibration of stated probabilities in one range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// The range.
    pub between: (f64, f64),
    /// Number of statements.
    pub stated: usize,
    /// Mean stated probability.
    pub said: f64,
    /// Share of them where something better was left.
    pub was: f64,
}

/// Replays all trials in parallel.
pub fn replay(recording: &Recording, trials: &Trials) -> Replay {
    let seeds = (0..trials.repeats as u64).into_par_iter();
    let played = seeds.map(|trial| play(recording, trials, trials.seed.wrapping_add(trial)));
    Replay { trials: played.collect() }
}

fn play(recording: &Recording, trials: &Trials, seed: u64) -> ReplayTrial {
    let mut strategy = trials.search.begin(recording.search_spaces().to_vec(), seed);
    let mut best = f64::INFINITY;
    let (mut curve, mut stated) = (Vec::new(), Vec::new());
    while curve.len() < trials.most {
        let batch = strategy.propose(trials.batch.min(trials.most - curve.len()));
        if batch.is_empty() {
            break;
        }
        for pick in batch {
            let time = recording.time(pick);
            best = best.min(time.map_or(f64::INFINITY, |time| time.0));
            curve.push(recording.best().0 / best);
            strategy.observe(pick, time);
        }
        stated.extend(strategy.chance_of_better(trials.within).map(|chance| StatedChance {
            evaluations: curve.len(),
            chance,
            is_left: recording.best().0 < (1.0 - trials.within) * best,
        }));
    }
    ReplayTrial { curve, stated }
}

impl ReplayTrial {
    /// The fraction of the optimum after some evaluations, or at an earlier end.
    fn reached(&self, evaluations: usize) -> f64 {
        self.curve[..evaluations.min(self.curve.len())].last().copied().unwrap_or(0.0)
    }
}

impl Replay {
    /// The result after `evaluations`; a trial that ended before keeps its last result.
    pub fn level(&self, evaluations: usize) -> ReplayLevel {
        let mut reached: Vec<f64> =
            self.trials.iter().map(|trial| trial.reached(evaluations)).collect();
        reached.sort_by(f64::total_cmp);
        let mean = reached.iter().sum::<f64>() / reached.len().max(1) as f64;
        let median = crate::model::statistics::quantile(&reached, 0.5).unwrap_or(0.0);
        ReplayLevel { evaluations, mean, median, worst: reached.first().copied().unwrap_or(0.0) }
    }

    /// The levels at all [`CHECKPOINTS`] up to `most`, and at `most`.
    pub fn levels(&self, most: usize) -> Vec<ReplayLevel> {
        let before = CHECKPOINTS.into_iter().filter(|checkpoint| *checkpoint < most);
        before.chain([most]).map(|evaluations| self.level(evaluations)).collect()
    }

    /// Results for several limits of the stated probability.
    pub fn stops(&self) -> Vec<Stop> {
        let stop = |chance: f64| {
            let ends: Vec<(f64, f64, f64)> = self
                .trials
                .iter()
                .filter_map(|trial| {
                    let end = trial.stated.iter().find(|one| one.chance < chance)?;
                    let missed = f64::from(u8::from(end.is_left));
                    Some((end.evaluations as f64, trial.reached(end.evaluations), missed))
                })
                .collect();
            let mean = |of: &dyn Fn(&(f64, f64, f64)) -> f64| {
                ends.iter().map(of).sum::<f64>() / ends.len().max(1) as f64
            };
            let [evaluations, fraction, missed] =
                [mean(&|end| end.0), mean(&|end| end.1), mean(&|end| end.2)];
            Stop { chance, stopped: ends.len(), evaluations, fraction, missed }
        };
        [0.3, 0.2, 0.15].map(stop).to_vec()
    }

    /// Calibration of the stated probabilities.
    pub fn calibration(&self) -> Vec<Calibration> {
        let stated = || self.trials.iter().flat_map(|trial| &trial.stated);
        let bounds = [0.0, 0.13, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0];
        let ranges = bounds.windows(2).map(|pair| (pair[0], pair[1]));
        let calibration = ranges.map(|(from, to)| {
            let said = stated().filter(|one| from <= one.chance && one.chance < to);
            let count = said.clone().count();
            let share = |sum: f64| sum / count.max(1) as f64;
            Calibration {
                between: (from, to),
                stated: count,
                said: share(said.clone().map(|one| one.chance).sum()),
                was: share(said.filter(|one| one.is_left).count() as f64),
            }
        });
        calibration.filter(|calibration| calibration.stated > 0).collect()
    }
}
