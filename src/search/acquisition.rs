//! Acquisition: scores a pool of configurations with the surrogate models and picks the next batch.

use fastrand::Rng;
use rayon::prelude::*;

use super::encoding::EncodedPoint;
use super::forest::{self, Forest, ForestVote};
use super::gaussian::{Gaussian, Prediction};
use super::strategy::Pick;
use super::surrogate::Surrogate;

/// Acquisition functions with their shares of the picks. On recorded spaces no single one is best on all
/// (docs/decisions/2026-11-23-ablation-search.md).
const FUNCTIONS: [(AcquisitionFunction, f64); 3] = [
    (AcquisitionFunction::ProcessImprovement, 0.5),
    (AcquisitionFunction::ForestImprovement, 0.25),
    (AcquisitionFunction::OneTree, 0.25),
];

/// Configurations that one thread scores before another one is worth waking.
pub(super) const AT_ONCE: usize = 200;

/// Acquisition function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AcquisitionFunction {
    /// Expected improvement by the process.
    ProcessImprovement,
    /// Expected improvement by the forest.
    ForestImprovement,
    /// Lowest time by one tree: Thompson sampling.
    OneTree,
}

/// Logarithms of the times so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLevels {
    pub(super) fastest: f64,
    /// Level at which the process clips slower times.
    pub(super) slow: f64,
    pub(super) slowest: f64,
}

/// Configuration of the pool.
pub(super) struct PoolEntry {
    pub(super) pick: Pick,
    pub(super) point: EncodedPoint,
    /// Logarithm of the forecast, which the models correct; 0 without one.
    pub(super) expected: f64,
    /// Logarithm of the factor for compiling it.
    pub(super) price: f64,
}

/// See the module.
pub(super) struct Acquisition {
    fastest: f64,
    scored: Vec<ScoredPick>,
    pools: Vec<FamilyPool>,
    /// Position in the sequence of functions, from 0 to 1.
    turn: f64,
}

/// Configuration with its scores.
struct ScoredPick {
    pick: Pick,
    pool_index: usize,
    /// Its index in the pool of its family.
    at: usize,
    expected: f64,
    price: f64,
    vote: ForestVote,
    is_taken: bool,
}

/// Pool of one family with the predictions of its process.
struct FamilyPool {
    points: Vec<EncodedPoint>,
    process: Option<(Gaussian, Prediction)>,
}

impl Acquisition {
    /// None yet.
    pub(super) fn new(times: TimeLevels, turn: f64) -> Self {
        Self { fastest: times.fastest, scored: Vec::new(), pools: Vec::new(), turn }
    }

    /// Scores a family's pool.
    pub(super) fn score_pool(
        &mut self,
        surrogate: &mut Surrogate,
        pool: Vec<PoolEntry>,
        times: TimeLevels,
        rng: &mut Rng,
    ) {
        let pool_index = self.pools.len();
        let own = |PoolEntry { pick, point, expected, price }| (point, (pick, expected, price));
        let (points, pool): (Vec<EncodedPoint>, Vec<_>) = pool.into_iter().map(own).unzip();
        let grow = surrogate.forest(times.slowest, rng);
        // A fit uses few threads; the forest grows on the others meanwhile.
        let by_forest = || {
            let forest = grow();
            let both = pool.par_iter().zip(&points).enumerate();
            let scored = both.map(|(at, (&(pick, expected, price), point))| {
                let vote = forest.vote(&forest::values(&surrogate.encoding, point));
                ScoredPick { pick, pool_index, at, expected, price, vote, is_taken: false }
            });
            scored.collect::<Vec<_>>()
        };
        let by_process = || {
            let process = surrogate.process(times.slow, rng)?;
            let prediction = process.predict(&points);
            Some((process, prediction))
        };
        let (scored, process) = rayon::join(by_forest, by_process);
        if let Some((process, _)) = &process {
            surrogate.keep_fit(process);
        }
        self.scored.extend(scored);
        self.pools.push(FamilyPool { points, process });
    }

    /// Picks by the next function of the sequence, or uniformly where `at_random`.
    pub(super) fn pick(&mut self, at_random: bool, rng: &mut Rng) -> Option<Pick> {
        let chosen = if at_random {
            let all = self.scored.iter().enumerate();
            let free = all.filter_map(|(at, one)| (!one.is_taken).then_some(at));
            *rng.choice(&free.collect::<Vec<_>>())?
        } else {
            // Multiples of the golden ratio spread evenly for any shares.
            self.turn = (self.turn + 0.618_033_988_749_895) % 1.0;
            let (rule, tree) = (rule(self.turn), Forest::tree(rng.usize(..1 << 16)));
            let all = self.scored.par_iter().with_min_len(AT_ONCE).enumerate();
            let free = all.filter(|(_, one)| !one.is_taken);
            let scored = free.map(|(at, one)| (self.score(one, rule, tree), at));
            scored.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))).map(|(_, at)| at)?
        };
        let one = &mut self.scored[chosen];
        one.is_taken = true;
        let FamilyPool { points, process } = &mut self.pools[one.pool_index];
        if let Some((process, prediction)) = process {
            process.suppose(prediction, points, one.at);
        }
        Some(one.pick)
    }

    fn score(&self, one: &ScoredPick, rule: AcquisitionFunction, tree: usize) -> f64 {
        let vote = &one.vote;
        match rule {
            AcquisitionFunction::ProcessImprovement => self.process_improvement(one),
            AcquisitionFunction::ForestImprovement => {
                improvement(self.fastest, one.price + one.by_forest(), vote.deviation.into())
            }
            // Many share a leaf; the mean of all trees breaks ties.
            AcquisitionFunction::OneTree => {
                let own = f64::from(vote.each[tree] + 1e-3 * vote.mean);
                -(one.price + one.expected + own)
            }
        }
    }

    /// Expected improvement by the process, or by the forest without one.
    fn process_improvement(&self, one: &ScoredPick) -> f64 {
        let ScoredPick { pool_index, at, expected, price, vote, .. } = one;
        let (mean, deviation) = match &self.pools[*pool_index].process {
            Some((_, prediction)) => {
                (expected + prediction.means[*at], prediction.variances[*at].sqrt())
            }
            None => (one.by_forest(), vote.deviation.into()),
        };
        improvement(self.fastest, price + mean, deviation)
    }

    /// The best of those that were not picked: half by the process, half by the forest.
    pub(super) fn leads(&self, most: usize) -> Vec<Pick> {
        let all = || self.scored.par_iter().with_min_len(AT_ONCE);
        let free = || all().filter(|one| !one.is_taken);
        let by_forest = free().map(|one| (-one.by_forest(), one.pick));
        let by_process = free().map(|one| (self.process_improvement(one), one.pick));
        let mut leads = Vec::new();
        for mut scored in [by_forest.collect::<Vec<_>>(), by_process.collect()] {
            if scored.len() > most / 2 {
                scored.select_nth_unstable_by(most / 2, |a, b| b.0.total_cmp(&a.0));
                scored.truncate(most / 2);
            }
            leads.extend(scored.into_iter().map(|(_, pick)| pick));
        }
        leads
    }

    /// Logarithm of the lowest predicted time of those that were not picked: the mean of process and forest.
    pub(super) fn least(&self) -> Option<f64> {
        let free = self.scored.iter().filter(|one| !one.is_taken);
        let expected = free.map(|one| {
            let by_forest = one.by_forest();
            let process = self.pools[one.pool_index].process.as_ref();
            process.map_or(by_forest, |(_, prediction)| {
                f64::midpoint(by_forest, one.expected + prediction.means[one.at])
            })
        });
        expected.min_by(f64::total_cmp)
    }

    /// Position in the sequence of functions.
    pub(super) fn turn(&self) -> f64 {
        self.turn
    }
}

impl ScoredPick {
    /// Prediction of the forest.
    fn by_forest(&self) -> f64 {
        self.expected + f64::from(self.vote.mean)
    }
}

/// The function at a position from 0 to 1.
fn rule(mut at: f64) -> AcquisitionFunction {
    for (rule, weight) in FUNCTIONS {
        at -= weight;
        if at < 0.0 {
            return rule;
        }
    }
    FUNCTIONS[0].0
}

/// Expected improvement of a normal variable below `best` (Jones, Schonlau and Welch 1998).
fn improvement(best: f64, mean: f64, deviation: f64) -> f64 {
    let deviation = deviation.max(1e-9);
    let at = (best - mean) / deviation;
    let density = distrs::Normal::pdf(at, 0.0, 1.0);
    deviation * (at * distrs::Normal::cdf(at, 0.0, 1.0) + density)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_alternate_by_their_shares() {
        let mut counts = [0; 3];
        let mut turn = 0.3;
        for _ in 0..400 {
            turn = (turn + 0.618_033_988_749_895) % 1.0;
            let at = FUNCTIONS.iter().position(|(known, _)| *known == rule(turn)).unwrap();
            counts[at] += 1;
        }
        for (count, (_, weight)) in counts.into_iter().zip(FUNCTIONS) {
            assert!((f64::from(count) - 400.0 * weight).abs() <= 3.0, "{counts:?}");
        }
    }

    #[test]
    fn improvement_is_the_expected_part_below_the_best() {
        // At the best itself: deviation / sqrt(2 pi).
        assert!((improvement(1.0, 1.0, 2.0) - 0.797_884_56).abs() < 1e-6);
        assert!((improvement(1.0, -4.0, 1e-12) - 5.0).abs() < 1e-6);
        assert!(improvement(1.0, 4.0, 1e-12).abs() < 1e-12);
        assert!(improvement(1.0, 2.0, 1.0) > improvement(1.0, 2.0, 0.5));
    }
}
