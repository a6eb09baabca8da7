//! Random samples, then neighbours and offspring of the best: a start for spaces that are too large
//! to try whole. Families that are far behind after a few samples get no more of the budget.
//!
//! Times carry noise, and a second run with the same seed should ask for nearly the same candidates
//! all the same, whose cubins are then in the cache. So every question has random numbers of its
//! own, and the best are found by tournaments among random earlier candidates: a time that differs
//! by noise changes only the few questions whose tournament it turns.

use std::collections::HashSet;

use fastrand::Rng;

use super::{Pick, Strategy, Territory};
use crate::model::Micros;

/// Samples that every family gets, its default among them, before any is left behind.
const TRIALS: usize = 6;

/// A family whose best is this many times slower than the best of all is left behind. A judgement:
/// on an H200 at 4096x4096x1024 the bests of the ladder's lower rungs are 2.9, 4.8 and 7.2 times
/// slower than that of the highest.
const LEFT_BEHIND: f64 = 3.0;

/// The share of the budget for random samples.
const RANDOM_SHARE: f64 = 0.3;

/// Of the candidates so far, one in so many takes part in the tournament for a parent, and in that
/// for a place whose neighbours are tried: the winner is about the 20th and the 4th best.
const PARENTS: usize = 20;
const CENTRES: usize = 4;

/// Chance that a child has a parameter of its second parent, and that it has one of neither.
/// Constraints tie parameters together (a larger block wants larger thread tiles), so that good
/// places are often more than one change apart.
const CROSSOVER: f64 = 0.3;
const MUTATION: f64 = 0.12;

/// Children or neighbours in a row that may turn out illegal or known.
const ATTEMPTS: usize = 500;

/// See the module.
#[derive(Debug)]
pub struct Explore {
    territories: Vec<Territory>,
    seed: u64,
    budget: usize,
    /// First samples, the next one last.
    trials: Vec<Pick>,
    asked: HashSet<Pick>,
    /// Correct candidates and their times, in the order in which they were told.
    told: Vec<(Pick, f64)>,
}

impl Explore {
    /// A search of `budget` candidates.
    pub fn new(territories: Vec<Territory>, budget: usize, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut rounds: Vec<Vec<Pick>> = vec![Vec::new(); TRIALS];
        for (family, territory) in territories.iter().enumerate() {
            let mut ranks: Vec<usize> = territory.default.into_iter().collect();
            let len = territory.space.len();
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
        // Defaults of all families come first: they make the rest's slow ones cheap to drop.
        let mut trials: Vec<Pick> = rounds.into_iter().flatten().collect();
        trials.reverse();
        Self { territories, seed, budget, trials, asked: HashSet::new(), told: Vec::new() }
    }

    fn best_of(&self, family: Option<usize>) -> f64 {
        let told = self.told.iter().filter(|(pick, _)| family.is_none_or(|f| f == pick.family));
        told.map(|(_, time)| *time).fold(f64::INFINITY, f64::min)
    }

    /// Families worth more samples, each with how many configurations it has left.
    fn promising(&self) -> Vec<(usize, usize)> {
        let best = self.best_of(None);
        let mut promising = Vec::new();
        for (family, territory) in self.territories.iter().enumerate() {
            let tried = self.asked.iter().filter(|pick| pick.family == family).count();
            let left = territory.space.len() - tried;
            if left > 0 && self.best_of(Some(family)) <= LEFT_BEHIND * best {
                promising.push((family, left));
            }
        }
        promising
    }

    fn random(&self, rng: &mut Rng) -> Option<Pick> {
        let promising = self.promising();
        // Families share by the logarithm of what they have left: a small one is not forgotten
        // beside one that is a thousand times larger.
        let weight = |left: usize| (left as f64 + 1.0).ln();
        let total: f64 = promising.iter().map(|(_, left)| weight(*left)).sum();
        let mut at = rng.f64() * total;
        let family = promising
            .iter()
            .find(|(_, left)| {
                at -= weight(*left);
                at <= 0.0
            })
            .or(promising.last())?
            .0;
        let len = self.territories[family].space.len();
        let start = rng.usize(..len);
        // The next free one after a random place: at most a walk through the whole space.
        (start..len)
            .chain(0..start)
            .map(|rank| Pick { family, rank })
            .find(|pick| !self.asked.contains(pick))
    }

    /// The fastest of some random candidates, one in `share` of all.
    fn champion(&self, rng: &mut Rng, share: usize) -> Option<Pick> {
        let draws = 4 + self.told.len() / share;
        let drawn = (0..draws).filter_map(|_| rng.choice(&self.told));
        drawn.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(pick, _)| *pick)
    }

    /// An untried mixture of two of the best, with changes of its own.
    fn child(&self, rng: &mut Rng) -> Option<Pick> {
        for _ in 0..ATTEMPTS {
            let (one, other) = (self.champion(rng, PARENTS)?, self.champion(rng, PARENTS)?);
            if one.family != other.family {
                continue;
            }
            let space = &self.territories[one.family].space;
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

    /// An untried configuration that differs from one of the best in one parameter.
    fn neighbour(&self, rng: &mut Rng) -> Option<Pick> {
        for _ in 0..ATTEMPTS {
            let centre = self.champion(rng, CENTRES)?;
            let space = &self.territories[centre.family].space;
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
        let rank = self.territories[family].space.rank_of(indices)?;
        Some(Pick { family, rank }).filter(|pick| !self.asked.contains(pick))
    }
}

impl Strategy for Explore {
    fn ask(&mut self) -> Option<Pick> {
        let count = self.asked.len();
        if count == self.budget {
            return None;
        }
        // Multiplying spreads the seeds of consecutive questions over all 64 bits.
        let mut rng =
            Rng::with_seed((self.seed ^ count as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let pick = if let Some(trial) = self.trials.pop() {
            trial
        } else if self.told.is_empty() {
            return None; // nothing to go by until a first answer comes
        } else if (count as f64) < self.budget as f64 * RANDOM_SHARE {
            self.random(&mut rng)?
        } else {
            let offspring = if rng.bool() { self.child(&mut rng) } else { None };
            offspring.or_else(|| self.neighbour(&mut rng)).or_else(|| self.random(&mut rng))?
        };
        self.asked.insert(pick);
        Some(pick)
    }

    fn tell(&mut self, pick: Pick, time: Option<Micros>) {
        if let Some(time) = time {
            self.told.push((pick, time.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Exhaustive, strategy};
    use super::*;
    use crate::model::{Device, Dtype, Problem, Shape, Value};
    use crate::space::{Family, LegalSpace};

    /// Two families: `far` is slow everywhere, `near` has one best place among 4096.
    fn territories() -> Vec<Territory> {
        let problem = Problem::new(Shape { m: 1, n: 1, k: 1 }, Dtype::F32);
        ["far", "near"]
            .map(|name| {
                let values = if name == "far" { "[0, 1, 2]" } else { "[0, 1, 2, 3, 4, 5, 6, 7]" };
                let text = format!(
                    "schema = 1\nname = '{name}'\nsummary = ''\ndtypes = ['f32']\n\
                     compute = ['f32']\nlayouts = ['nn']\n\
                     kernels = [{{ entry = 'k', grid = [1], block = [1] }}]\n\
                     parameters = {{ A = {values}, B = {values}, C = {values}, D = {values} }}\n\
                     default = {{ A = 0, B = 0, C = 0, D = 0 }}"
                );
                let family = Family::parse(name, &text).unwrap();
                let space = LegalSpace::of(&family, &problem, &Device::h200()).unwrap();
                Territory { space, default: Some(0) }
            })
            .to_vec()
    }

    fn time(territories: &[Territory], pick: Pick) -> Micros {
        let configuration = territories[pick.family].space.get(pick.rank).unwrap();
        let distance: i64 = configuration
            .0
            .values()
            .zip([6, 1, 4, 3])
            .map(|(value, best)| match value {
                Value::Int(value) => (value - best).abs(),
                _ => 0,
            })
            .sum();
        Micros(if pick.family == 0 { 1000.0 } else { 10.0 + distance as f64 })
    }

    fn search(mut strategy: Box<dyn Strategy>) -> Vec<Pick> {
        let territories = territories();
        let mut asked = Vec::new();
        while let Some(pick) = strategy.ask() {
            asked.push(pick);
            strategy.tell(pick, Some(time(&territories, pick)));
        }
        asked
    }

    #[test]
    fn exploration_finds_the_best_place_with_a_fraction_of_the_space() {
        for seed in 0..10 {
            let asked = search(strategy(territories(), 200, seed));
            let territories = territories();
            let best = asked.iter().map(|pick| time(&territories, *pick).0).fold(1e9, f64::min);
            assert_eq!(best, 10.0, "seed {seed}");
        }
    }

    #[test]
    fn nothing_is_asked_twice_and_a_far_family_is_left_behind() {
        let asked = search(strategy(territories(), 300, 1));
        let distinct: HashSet<&Pick> = asked.iter().collect();
        assert_eq!((asked.len(), distinct.len()), (300, 300));
        assert_eq!(asked.iter().filter(|pick| pick.family == 0).count(), TRIALS);
    }

    #[test]
    fn one_seed_asks_one_sequence() {
        let run = |seed| search(strategy(territories(), 100, seed));
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(6));
    }

    #[test]
    fn noise_changes_few_of_the_questions() {
        let run = |noise: u64| {
            let (spaces, mut asked) = (territories(), HashSet::new());
            let mut strategy = Explore::new(territories(), 400, 3);
            let mut rng = Rng::with_seed(noise);
            while let Some(pick) = strategy.ask() {
                asked.insert(pick);
                let factor = 1.0 + 0.005 * (rng.f64() - 0.5);
                strategy.tell(pick, Some(Micros(time(&spaces, pick).0 * factor)));
            }
            asked
        };
        let (first, second) = (run(1), run(2));
        let common = first.intersection(&second).count();
        assert!(common > 250, "{common} of {}", first.len());
    }

    #[test]
    fn a_space_within_the_budget_is_tried_whole() {
        let asked = search(strategy(territories(), 5000, 0));
        assert_eq!(asked.len(), 4096 + 81);
        assert_eq!(asked[..2], [Pick { family: 0, rank: 0 }, Pick { family: 1, rank: 0 }]);
        let _ = Exhaustive::new(&territories());
    }

    #[test]
    fn failures_all_round_end_the_search() {
        let mut strategy = Explore::new(territories(), 100, 0);
        while let Some(pick) = strategy.ask() {
            strategy.tell(pick, None);
        }
        assert_eq!(strategy.asked.len(), 2 * TRIALS);
    }
}
