//! Evolution: random samples, then neighbours and offspring of the best. Slow families are dropped after a few samples.
//!
//! A second run with the same seed proposes nearly the same despite noise, so that its kernels are in the compile
//! cache: every proposal has its own random numbers, and parents are found by tournaments.

use fastrand::Rng;

use super::history::History;
use super::strategy::{LEFT_BEHIND, Pick, SearchSpace, Strategy};
use crate::model::Micros;

/// Samples of every family, its default among them, before any is left behind.
const TRIALS: usize = 6;

/// Proposals before the first with parents.
const FIRST: usize = 20;

/// Share of random samples afterwards.
const RANDOM_SHARE: f64 = 0.1;

/// One in so many configurations takes part in the tournament for a parent, and for a centre of neighbours.
const PARENTS: usize = 20;
const CENTRES: usize = 4;

/// Probability of a parameter of the second parent, and of a random one. Constraints couple parameters, so that good
/// configurations often differ in more than one.
const CROSSOVER: f64 = 0.3;
const MUTATION: f64 = 0.12;

/// Attempts to find a legal and new configuration.
const ATTEMPTS: usize = 500;

/// See the module.
#[derive(Debug)]
pub(super) struct Evolve {
    history: History,
    seed: u64,
    /// First samples, in reverse order.
    trials: Vec<Pick>,
}

impl Evolve {
    pub(super) fn new(search_spaces: Vec<SearchSpace>, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut rounds: Vec<Vec<Pick>> = vec![Vec::new(); TRIALS];
        for (family, search_space) in search_spaces.iter().enumerate() {
            let mut ranks: Vec<usize> = search_space.default.into_iter().collect();
            let hints = search_space.hints.iter().chain(&search_space.seeds);
            let hints = hints.filter(|rank| Some(**rank) != search_space.default);
            ranks.extend(hints.take(TRIALS - 1));
            let len = search_space.space.len();
            while ranks.len() < TRIALS.min(len) {
                let rank = rng.usize(..len);
                if !ranks.contains(&rank) {
                    ranks.push(rank);
                }
            }
            for (round, rank) in rounds.iter_mut().zip(ranks) {
                round.push(Pick { family, rank });
            }
        }
        // Defaults of all families first, so that slow families are dropped early.
        let mut trials: Vec<Pick> = rounds.into_iter().flatten().collect();
        trials.reverse();
        Self { history: History::new(search_spaces), seed, trials }
    }

    fn next(&mut self) -> Option<Pick> {
        let count = self.history.proposed();
        // Multiplying spreads the seeds of consecutive proposals over all 64 bits.
        let mut rng =
            Rng::with_seed((self.seed ^ count as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let correct: Vec<(Pick, f64)> = self.history.correct().collect();
        let pick = if let Some(trial) = self.trials.pop() {
            trial
        } else if correct.is_empty() {
            // Without a correct outcome there are no parents.
            return None;
        } else if count < FIRST || rng.f64() < RANDOM_SHARE {
            self.random(&mut rng)?
        } else {
            let child = if rng.bool() { self.child(&correct, &mut rng) } else { None };
            let offspring = child.or_else(|| self.neighbour(&correct, &mut rng));
            offspring.or_else(|| self.random(&mut rng))?
        };
        self.history.propose(pick)
    }

    /// A random configuration of a family that is not left behind.
    fn random(&self, rng: &mut Rng) -> Option<Pick> {
        self.history.any(&self.history.promising(LEFT_BEHIND), rng)
    }

    /// A new crossover of two of the best, with mutations.
    fn child(&self, correct: &[(Pick, f64)], rng: &mut Rng) -> Option<Pick> {
        for _ in 0..ATTEMPTS {
            let one = champion(correct, PARENTS, rng)?;
            let other = champion(correct, PARENTS, rng)?;
            if one.family != other.family {
                continue;
            }
            let space = &self.history.search_spaces[one.family].space;
            let mut child = space.indices(one.rank)?;
            let other = space.indices(other.rank)?;
            for ((index, other), radix) in child.iter_mut().zip(other).zip(space.radices()) {
                if rng.f64() < CROSSOVER {
                    *index = other;
                }
                if rng.f64() < MUTATION {
                    *index = rng.usize(..radix);
                }
            }
            if let Some(pick) = self.untried(one.family, &child) {
                return Some(pick);
            }
        }
        None
    }

    /// A new configuration that differs from one of the best in one parameter.
    fn neighbour(&self, correct: &[(Pick, f64)], rng: &mut Rng) -> Option<Pick> {
        for _ in 0..ATTEMPTS {
            let centre = champion(correct, CENTRES, rng)?;
            let space = &self.history.search_spaces[centre.family].space;
            let mut indices = space.indices(centre.rank)?;
            let parameter = rng.usize(..indices.len());
            indices[parameter] = rng.usize(..space.radices().nth(parameter)?);
            if let Some(pick) = self.untried(centre.family, &indices) {
                return Some(pick);
            }
        }
        None
    }

    fn untried(&self, family: usize, indices: &[usize]) -> Option<Pick> {
        let rank = self.history.search_spaces[family].space.rank_of(indices)?;
        Some(Pick { family, rank }).filter(|pick| !self.history.is_proposed(*pick))
    }
}

/// Winner of a tournament among one in `share` of all.
fn champion(correct: &[(Pick, f64)], share: usize, rng: &mut Rng) -> Option<Pick> {
    let draws = 4 + correct.len() / share;
    let drawn = (0..draws).filter_map(|_| rng.choice(correct));
    drawn.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(pick, _)| *pick)
}

impl Strategy for Evolve {
    fn propose(&mut self, most: usize) -> Vec<Pick> {
        (0..most).map_while(|_| self.next()).collect()
    }

    fn observe(&mut self, pick: Pick, time: Option<Micros>) {
        self.history.observe(pick, time);
    }
}
