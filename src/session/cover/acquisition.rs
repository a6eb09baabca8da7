//! Which problems a map of a device is to be made better with: those where answers are expected to be worst, as far as
//! the tuned ones near them tell.
//!
//! The expected regret at a problem is a mean over the tuned problems, weighted by their distance (Nadaraya-Watson), with
//! the mean over all as one more of them. A problem is worth its expected regret times its uncertainty, which falls with
//! the weights, and by its own weight. Every fourth problem is the next of the pool, which is in random order, before the
//! others of its round are chosen: these alone estimate the regret of problems that users have.

use super::CoverStep;
use super::problems::Candidate;
use crate::model::{Problem, Storage};
use crate::predict;

/// Factors of two in an extent after which a tuned problem tells 0.6 as much.
const OCTAVES: f64 = 1.2;

/// Distance, in such factors, of a step of alignment.
const ALIGNMENT: f64 = 1.0;

/// What a regret counts less after each training of the model that followed it.
const OUTDATED: f64 = 0.7;

/// Every so many problems one is taken at random.
const RANDOM_EVERY: usize = 4;

/// Expected regret without any tuned problem, as a logarithm of times.
const UNKNOWN: f64 = 0.3;

/// A problem's coordinates in this choice.
type Point = [f64; 7];

/// A tuned problem, or one that was chosen to be.
struct Tuned {
    point: Point,
    regret: f64,
}

/// Chooses `count` of the problems of a pool, which is in random order, each with whether it was taken at random.
/// `trainings` counts those of the model so far; `number` is that of the first chosen problem.
pub(super) fn choose(
    pool: &[Candidate],
    seen: &[CoverStep],
    (number, count): (usize, usize),
    trainings: usize,
) -> Vec<(Problem, bool)> {
    let mut tuned: Vec<Tuned> = seen.iter().filter_map(|step| known(step, trainings)).collect();
    let regrets: f64 = tuned.iter().map(|one| one.regret).sum();
    let mean = if tuned.is_empty() { UNKNOWN } else { regrets / tuned.len() as f64 };
    // Those at random come first, so that the pool is whole.
    let at_random = (number..number + count).filter(|at| at.is_multiple_of(RANDOM_EVERY)).count();
    let (first, others) = pool.split_at(at_random.min(pool.len()));
    let mut chosen: Vec<(Problem, bool)> = first.iter().map(|one| (one.problem, true)).collect();
    let mut left: Vec<(Candidate, Point)> =
        others.iter().map(|one| (*one, point(&one.problem))).collect();
    // The next one is chosen as if those before it were as expected.
    let as_expected = |point: Point, tuned: &[Tuned]| {
        let (_, regret) = worth(&point, tuned, mean);
        Tuned { point, regret }
    };
    for (problem, _) in &chosen {
        let one = as_expected(point(problem), &tuned);
        tuned.push(one);
    }
    while chosen.len() < count {
        let value = |(one, point): &(Candidate, Point)| one.weight * worth(point, &tuned, mean).0;
        let values = left.iter().map(value).enumerate();
        let Some((place, _)) = values.max_by(|(_, a), (_, b)| a.total_cmp(b)) else { break };
        let (one, point) = left.swap_remove(place);
        let known = as_expected(point, &tuned);
        tuned.push(known);
        chosen.push((one.problem, false));
    }
    chosen
}

fn known(step: &CoverStep, trainings: usize) -> Option<Tuned> {
    let since = trainings.saturating_sub(step.trainings);
    let regret = step.log_regret? * OUTDATED.powi(i32::try_from(since).unwrap_or(i32::MAX));
    Some(Tuned { point: point(&step.problem), regret })
}

/// The worth of a problem, and its expected regret.
fn worth(at: &Point, tuned: &[Tuned], mean: f64) -> (f64, f64) {
    let (mut weights, mut sum) = (1.0, mean);
    for one in tuned {
        let squares: f64 = at.iter().zip(&one.point).map(|(a, b)| (a - b).powi(2)).sum();
        let weight = (-0.5 * squares / (OCTAVES * OCTAVES)).exp();
        weights += weight;
        sum += weight * one.regret;
    }
    let expected = sum / weights;
    (expected / weights.sqrt(), expected)
}

/// The coordinates of a problem, and the alignment of its rows.
fn point(problem: &Problem) -> Point {
    let [m, n, k, batch, a, b] = predict::point(problem);
    let alignment = Storage::packed(problem).row_alignment(problem);
    [m, n, k, batch, a, b, ALIGNMENT * f64::from(alignment)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    /// A pool of problems with equal weights.
    fn pool<const N: usize>(problems: [Problem; N]) -> Vec<Candidate> {
        problems.into_iter().map(|problem| Candidate { problem, weight: 1.0 }).collect()
    }

    fn problem(m: u64, n: u64) -> Problem {
        Problem::new(format!("{m}x{n}x512").parse().unwrap(), Dtype::F32)
    }

    fn step(problem: Problem, log_regret: f64) -> CoverStep {
        CoverStep {
            problem,
            log_regret: Some(log_regret),
            at_random: false,
            trainings: 0,
            after_s: 0.0,
        }
    }

    #[test]
    fn problems_near_bad_answers_are_chosen_before_those_near_good_ones() {
        let seen = [step(problem(64, 64), 0.4), step(problem(4096, 4096), 0.01)];
        let pool = pool([problem(5000, 5000), problem(128, 96), problem(4096, 4000)]);
        assert_eq!(choose(&pool, &seen, (1, 1), 0), [(problem(128, 96), false)]);
    }

    #[test]
    fn problems_that_matter_more_are_chosen_before_others() {
        let seen = [step(problem(64, 64), 0.4), step(problem(4096, 4096), 0.01)];
        let mut pool = pool([problem(128, 96), problem(5000, 5000)]);
        assert_eq!(choose(&pool, &seen, (1, 1), 0)[0].0, problem(128, 96));
        pool[1].weight = 100.0;
        assert_eq!(choose(&pool, &seen, (1, 1), 0)[0].0, problem(5000, 5000));
    }

    #[test]
    fn a_batch_is_spread_out() {
        let pool = pool([64, 66, 68, 70, 2048, 8192].map(|extent| problem(extent, extent)));
        let chosen = choose(&pool, &[], (1, 3), 0);
        let small = chosen.iter().filter(|(problem, _)| problem.shape.m < 100).count();
        assert_eq!((chosen.len(), small), (3, 1), "{chosen:?}");
    }

    #[test]
    fn a_fourth_is_the_first_of_the_pool_and_none_is_chosen_twice() {
        let all: [Problem; 39] = std::array::from_fn(|at| problem(64 * (at as u64 + 1), 64));
        let chosen = choose(&pool(all), &[], (0, 39), 0);
        for (at, (_, at_random)) in chosen.iter().enumerate() {
            assert_eq!(*at_random, at < 10, "{at}");
        }
        let mut problems: Vec<Problem> = chosen.into_iter().map(|(problem, _)| problem).collect();
        assert_eq!(problems[..10], all[..10]);
        problems.sort_by_key(|problem| problem.shape.m);
        assert_eq!(problems, all);
        assert_eq!(choose(&pool([all[0]]), &[], (0, 16), 0).len(), 1, "a pool may be small");
    }

    #[test]
    fn regrets_count_less_after_a_training() {
        let later = CoverStep { trainings: 3, ..step(problem(4096, 4096), 0.2) };
        let seen = [step(problem(64, 64), 0.3), later];
        let pool = pool([problem(96, 96), problem(4000, 4096)]);
        let first = |trainings| choose(&pool, &seen, (1, 1), trainings)[0].0.shape.m;
        assert_eq!((first(0), first(3)), (96, 4000));
        assert!(choose(&[], &seen, (0, 2), 0).is_empty());
    }
}
