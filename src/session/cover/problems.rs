//! Which problems a map of a device can be made of: those that are drawn as users have them, or those of a list, each
//! with its weight.

use std::collections::BTreeMap;

use fastrand::Rng;

use crate::model::{GemmType, Problem};
use crate::predict::{DrawLimits, draw};

/// Problems that a round chooses from.
const POOL: usize = 512;

/// Problems that a map can be made of.
#[derive(Debug, Clone, PartialEq)]
pub struct MapProblems(ProblemSource);

#[derive(Debug, Clone, PartialEq)]
enum ProblemSource {
    Drawn(GemmType, DrawLimits),
    Listed(BTreeMap<Problem, f64>),
}

/// A problem that a round may choose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) problem: Problem,
    /// How much its answer matters, beside those of others.
    pub(super) weight: f64,
}

impl MapProblems {
    /// Problems of a GEMM type as users have them ([`draw`]), all with the same weight.
    pub fn drawn(types: GemmType, limits: DrawLimits) -> Self {
        Self(ProblemSource::Drawn(types, limits))
    }

    /// Problems of a list. A weight says how much the answer for a problem matters, such as its part of a program's
    /// time. Problems whose weight is not above zero are left out, and weights of the same problem are added.
    pub fn listed(problems: impl IntoIterator<Item = (Problem, f64)>) -> Self {
        let mut all = BTreeMap::new();
        for (problem, weight) in problems.into_iter().filter(|(_, weight)| *weight > 0.0) {
            *all.entry(problem).or_insert(0.0) += weight;
        }
        Self(ProblemSource::Listed(all))
    }

    /// Whether a map of these can have a problem.
    pub fn has(&self, problem: &Problem) -> bool {
        match &self.0 {
            ProblemSource::Drawn(types, _) => problem.types == *types,
            ProblemSource::Listed(all) => all.contains_key(problem),
        }
    }

    /// Number of problems; `None` where they are drawn.
    pub fn count(&self) -> Option<usize> {
        match &self.0 {
            ProblemSource::Drawn(..) => None,
            ProblemSource::Listed(all) => Some(all.len()),
        }
    }

    /// New problems to choose from, each as likely as its weight to come before the others.
    pub(super) fn pool(
        &self,
        is_new: impl Fn(&Problem) -> bool,
        random: &mut Rng,
    ) -> Vec<Candidate> {
        match &self.0 {
            ProblemSource::Drawn(types, limits) => (0..POOL)
                .map_while(|_| draw(random, *types, limits))
                .filter(is_new)
                .map(|problem| Candidate { problem, weight: 1.0 })
                .collect(),
            ProblemSource::Listed(all) => {
                // Efraimidis and Spirakis, Weighted random sampling with a reservoir (2006): the largest u^(1 / weight).
                let new = all.iter().filter(|(problem, _)| is_new(problem));
                let mut keyed: Vec<(f64, Candidate)> = new
                    .map(|(problem, weight)| {
                        let candidate = Candidate { problem: *problem, weight: *weight };
                        (random.f64().ln() / weight, candidate)
                    })
                    .collect();
                keyed.sort_by(|(a, _), (b, _)| b.total_cmp(a));
                keyed.into_iter().take(POOL).map(|(_, candidate)| candidate).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    fn problem(m: u64) -> Problem {
        Problem::new(format!("{m}x64x64").parse().unwrap(), Dtype::F32)
    }

    #[test]
    fn a_list_has_each_problem_once_and_ends() {
        let list = [(problem(1), 2.0), (problem(2), 0.0), (problem(3), 1.0), (problem(1), 3.0)];
        let problems = MapProblems::listed(list);
        assert_eq!(problems.count(), Some(2));
        assert!(problems.has(&problem(3)) && !problems.has(&problem(2)));
        let pool = |is_new: &dyn Fn(&Problem) -> bool| {
            let mut pool = problems.pool(is_new, &mut Rng::with_seed(1));
            pool.sort_by_key(|one| one.problem);
            pool.into_iter().map(|one| (one.problem.shape.m, one.weight)).collect::<Vec<_>>()
        };
        assert_eq!(pool(&|_| true), [(1, 5.0), (3, 1.0)]);
        assert_eq!(pool(&|one| *one != problem(1)), [(3, 1.0)]);
        assert!(pool(&|_| false).is_empty());
    }

    #[test]
    fn the_first_of_a_pool_is_as_likely_as_its_weight() {
        let problems = MapProblems::listed([(problem(1), 3.0), (problem(2), 1.0)]);
        let mut random = Rng::with_seed(7);
        let first = |random: &mut Rng| problems.pool(|_| true, random)[0].problem.shape.m;
        let heavy = (0..4000).filter(|_| first(&mut random) == 1).count();
        assert!((2900..3100).contains(&heavy), "{heavy} of 4000 with three quarters of the weight");
    }

    #[test]
    fn a_pool_of_a_long_list_is_limited() {
        let problems = MapProblems::listed((1..2000).map(|m| (problem(m), 1.0)));
        assert_eq!(problems.pool(|_| true, &mut Rng::with_seed(0)).len(), POOL);
    }
}
