//! Random samples, then neighbours and offspring of the best: a start for spaces that are too large
//! to try whole. Families that are far behind after a few samples get no more of the budget.

use std::collections::{HashMap, HashSet};

use fastrand::Rng;

use super::{Pick, Strategy, Territory};
use crate::model::Micros;

/// Samples that every family gets, its default among them, before any is left behind.
const TRIALS: usize = 6;

/// A family whose best is this many times slower than the best of all is left behind. On an H200
/// at 4096x4096x1024 the ladder's rungs are 2 to 100 times apart, and within a rung the best of
/// six is within a factor of 2.5 of the best of all (README, transcript).
const LEFT_BEHIND: f64 = 3.0;

/// The share of the budget for random samples.
const RANDOM_SHARE: f64 = 0.3;

/// How many of the best have their neighbourhoods tried, in turn.
const CENTRES: usize = 4;

/// How many of the best have offspring. Constraints tie parameters together (a larger block wants
/// larger thread tiles), so that good places are often more than one change apart.
const PARENTS: usize = 16;

/// Chance that a child has a parameter of its second parent, and that it has one of neither.
const CROSSOVER: f64 = 0.3;
const MUTATION: f64 = 0.12;

/// Children that may turn out illegal or known before a search gives up on offspring.
const ATTEMPTS: usize = 500;

/// See the module.
#[derive(Debug)]
pub struct Explore {
    territories: Vec<Territory>,
    rng: Rng,
    /// First samples, one family after the other, in reverse order.
    trials: Vec<Pick>,
    asked: HashSet<Pick>,
    times: HashMap<Pick, f64>,
    random_left: usize,
    left: usize,
    turn: usize,
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
        Self {
            territories,
            rng,
            trials,
            asked: HashSet::new(),
            times: HashMap::new(),
            random_left: (budget as f64 * RANDOM_SHARE) as usize,
            left: budget,
            turn: 0,
        }
    }

    fn best_of(&self, family: Option<usize>) -> f64 {
        let times = self.times.iter().filter(|(pick, _)| family.is_none_or(|f| f == pick.family));
        times.map(|(_, time)| *time).fold(f64::INFINITY, f64::min)
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

    fn random(&mut self) -> Option<Pick> {
        let promising = self.promising();
        // Families share by the logarithm of what they have left: a small one is not forgotten
        // beside one that is a thousand times larger.
        let weight = |left: usize| (left as f64 + 1.0).ln();
        let total: f64 = promising.iter().map(|(_, left)| weight(*left)).sum();
        let mut at = self.rng.f64() * total;
        let family = promising
            .iter()
            .find(|(_, left)| {
                at -= weight(*left);
                at <= 0.0
            })
            .or(promising.last())?
            .0;
        let len = self.territories[family].space.len();
        let start = self.rng.usize(..len);
        // The next free one after a random place: at most a walk through the whole space.
        (start..len)
            .chain(0..start)
            .map(|rank| Pick { family, rank })
            .find(|pick| !self.asked.contains(pick))
    }

    /// All correct picks, fastest first.
    fn ranked(&self) -> Vec<Pick> {
        let mut ranked: Vec<(Pick, f64)> =
            self.times.iter().map(|(pick, time)| (*pick, *time)).collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        ranked.into_iter().map(|(pick, _)| pick).collect()
    }

    /// An untried mixture of two of the best of a family, with changes of its own.
    fn child(&mut self) -> Option<Pick> {
        let mut parents = self.ranked();
        let family = parents.first()?.family;
        parents.retain(|pick| pick.family == family);
        parents.truncate(PARENTS);
        let space = &self.territories[family].space;
        for _ in 0..ATTEMPTS {
            // The better of two draws: the best have more children.
            let mut draw = || self.rng.usize(..parents.len()).min(self.rng.usize(..parents.len()));
            let mut child = space.indices(parents[draw()].rank)?;
            let other = space.indices(parents[draw()].rank)?;
            for ((index, other), radix) in child.iter_mut().zip(other).zip(space.radices()) {
                if self.rng.f64() < CROSSOVER {
                    *index = other;
                }
                if self.rng.f64() < MUTATION {
                    *index = self.rng.usize(..radix);
                }
            }
            let pick = space.rank_of(&child).map(|rank| Pick { family, rank });
            if let Some(pick) = pick.filter(|pick| !self.asked.contains(pick)) {
                return Some(pick);
            }
        }
        None
    }

    /// An untried neighbour of one of the best.
    fn neighbour(&mut self) -> Option<Pick> {
        let mut centres = Vec::new();
        for pick in self.ranked() {
            let neighbours = self.territories[pick.family].space.neighbours(pick.rank);
            let untried: Vec<Pick> = neighbours
                .into_iter()
                .map(|rank| Pick { family: pick.family, rank })
                .filter(|neighbour| !self.asked.contains(neighbour))
                .collect();
            if !untried.is_empty() {
                centres.push(untried);
            }
            if centres.len() == CENTRES {
                break;
            }
        }
        if centres.is_empty() {
            return None;
        }
        // Half of the draws go to the best, the others to the next ones.
        let centre = if self.rng.bool() { 0 } else { self.rng.usize(..centres.len()) };
        self.rng.choice(centres.swap_remove(centre))
    }
}

impl Strategy for Explore {
    fn ask(&mut self) -> Option<Pick> {
        if self.left == 0 {
            return None;
        }
        let pick = if let Some(trial) = self.trials.pop() {
            trial
        } else if self.times.is_empty() {
            return None; // nothing to go by until a first answer comes
        } else if self.random_left > 0 {
            self.random_left -= 1;
            self.random()?
        } else {
            self.turn += 1;
            let offspring = if self.turn.is_multiple_of(2) { self.child() } else { None };
            offspring.or_else(|| self.neighbour()).or_else(|| self.random())?
        };
        self.asked.insert(pick);
        self.left -= 1;
        Some(pick)
    }

    fn tell(&mut self, pick: Pick, time: Option<Micros>) {
        if let Some(time) = time {
            self.times.insert(pick, time.0);
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
