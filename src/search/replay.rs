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
    /// Candidates that are proposed for before any of them is answered.
    pub batch: usize,
    /// The first seed.
    pub seed: u64,
    /// What counts as better where the strategy says how likely it is that something better is
    /// left: a time shorter by more than this fraction.
    pub within: f64,
}

/// How close the trials came after some evaluations, as fractions of the optimum: its time over
/// the best one's, 0 where none was correct.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplayLevel {
    /// After how many.
    pub evaluations: usize,
    /// Mean of the trials.
    pub mean: f64,
    /// The middle trial.
    pub median: f64,
    /// The worst trial.
    pub worst: f64,
}

/// What a strategy said when a batch was answered, and how it was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saying {
    /// After how many evaluations.
    pub evaluations: usize,
    /// The chance that something better is left, as the strategy says.
    pub chance: f64,
    /// Whether it was.
    pub is_left: bool,
}

/// What became of a trial.
#[derive(Debug, Clone, Default)]
pub struct ReplayTrial {
    /// The fraction of the optimum after each evaluation.
    pub curve: Vec<f64>,
    /// What the strategy said of the rest; empty where it knows nothing.
    pub sayings: Vec<Saying>,
}

/// What became of the trials.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Each of them.
    pub trials: Vec<ReplayTrial>,
}

/// What would be, if trials ended as soon as the chance that something better is left is below a
/// limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stop {
    /// The limit.
    pub chance: f64,
    /// How many trials would have ended.
    pub stopped: usize,
    /// After how many evaluations, on average.
    pub evaluations: f64,
    /// Mean fraction of the optimum there.
    pub fraction: f64,
    /// The share of them that would have missed something better.
    pub missed: f64,
}

/// How often it was as the strategy said, where it said about the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// The chances that are looked at, from and to.
    pub between: (f64, f64),
    /// How often one of them was said.
    pub sayings: usize,
    /// What was said, on average.
    pub said: f64,
    /// The share of them where something better was left.
    pub was: f64,
}

/// Plays them, as many at a time as there are cores.
pub fn replay(recording: &Recording, trials: &Trials) -> Replay {
    let seeds = (0..trials.repeats as u64).into_par_iter();
    let played = seeds.map(|trial| play(recording, trials, trials.seed.wrapping_add(trial)));
    Replay { trials: played.collect() }
}

fn play(recording: &Recording, trials: &Trials, seed: u64) -> ReplayTrial {
    let mut strategy = trials.search.begin(recording.search_spaces().to_vec(), seed);
    let mut best = f64::INFINITY;
    let (mut curve, mut sayings) = (Vec::new(), Vec::new());
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
        sayings.extend(strategy.chance_of_better(trials.within).map(|chance| Saying {
            evaluations: curve.len(),
            chance,
            is_left: recording.best().0 < (1.0 - trials.within) * best,
        }));
    }
    ReplayTrial { curve, sayings }
}

impl ReplayTrial {
    /// The fraction of the optimum after some evaluations; where it ended before, at its end.
    fn reached(&self, evaluations: usize) -> f64 {
        self.curve[..evaluations.min(self.curve.len())].last().copied().unwrap_or(0.0)
    }
}

impl Replay {
    /// How close they came after `evaluations`. A trial that ended before stays where it was.
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

    /// What would be, if trials ended at some chances.
    pub fn stops(&self) -> Vec<Stop> {
        let stop = |chance: f64| {
            let ends: Vec<(f64, f64, f64)> = self
                .trials
                .iter()
                .filter_map(|trial| {
                    let end = trial.sayings.iter().find(|saying| saying.chance < chance)?;
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
        [0.2, 0.1, 0.05, 0.02].map(stop).to_vec()
    }

    /// How well what was said agrees with how it was.
    pub fn calibration(&self) -> Vec<Calibration> {
        let sayings = || self.trials.iter().flat_map(|trial| &trial.sayings);
        let bounds = [0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0];
        let ranges = bounds.windows(2).map(|pair| (pair[0], pair[1]));
        let calibration = ranges.map(|(from, to)| {
            let said = sayings().filter(|saying| from <= saying.chance && saying.chance < to);
            let count = said.clone().count();
            let share = |sum: f64| sum / count.max(1) as f64;
            Calibration {
                between: (from, to),
                sayings: count,
                said: share(said.clone().map(|saying| saying.chance).sum()),
                was: share(said.filter(|saying| saying.is_left).count() as f64),
            }
        });
        calibration.filter(|calibration| calibration.sayings > 0).collect()
    }
}
