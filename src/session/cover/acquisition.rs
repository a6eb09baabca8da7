//! Which problems a map of a device is to be made better with: those where answers are expected to be worst, as far as
//! the tuned ones near them tell.
//!
//! The expected regret at a problem is a mean over the tuned problems, weighted by their distance (Nadaraya-Watson), with
//! the mean over all as one more of them. A problem is worth its expected regret times its uncertainty, which falls with
//! the weights. Every fourth problem is drawn at random, before the others of its round are chosen: these alone estimate
//! the regret of problems that users have.

use fastrand::Rng;

use super::CoverStep;
use crate::model::{Problem, Storage};
use crate::predict;

/// Factors of two in an extent after which a tuned problem tells 0.6 as much.
const OCTAVES: f64 = 1.2;

/// Distance, in such factors, of a step of alignment.
const ALIGNMENT: f64 = 1.0;

/// What a regret counts less after each training of the model that followed it.
const OUTDATED: f64 = 0.7;

/// Every so many problems one is drawn at random.
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

/// Chooses `count` of the problems of a pool, each with whether it was drawn at random. `trainings` counts those of the
/// model so far; `number` is that of the first chosen problem.
pub(super) fn choose(
    pool: &[Problem],
    seen: &[CoverStep],
    (number, count): (usize, usize),
    trainings: usize,
    random: &mut Rng,
) -> Vec<(Problem, bool)> {
    let mut tuned: Vec<Tuned> = seen.iter().filter_map(|step| known(step, trainings)).collect();
    let regrets: f64 = tuned.iter().map(|one| one.regret).sum();
    let mean = if tuned.is_empty() { UNKNOWN } else { regrets / tuned.len() as f64 };
    let mut left: Vec<(Problem, Point)> =
        pool.iter().map(|problem| (*problem, point(problem))).collect();
    // Those first that are drawn at random, so that the pool is whole.
    let drawn = (number..number + count).filter(|at| at.is_multiple_of(RANDOM_EVERY)).count();
    let mut chosen = Vec::with_capacity(count);
    while chosen.len() < count && !left.is_empty() {
        let at_random = chosen.len() < drawn;
        let place = if at_random {
            random.usize(..left.len())
        } else {
            let worth = |place: &usize| worth(&left[*place].1, &tuned, mean).0;
            (0..left.len()).max_by(|a, b| worth(a).total_cmp(&worth(b))).unwrap_or_default()
        };
        let (problem, point) = left.swap_remove(place);
        // The next one is chosen as if this one were as expected.
        let (_, expected) = worth(&point, &tuned, mean);
        tuned.push(Tuned { point, regret: expected });
        chosen.push((problem, at_random));
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
        let pool = [problem(5000, 5000), problem(128, 96), problem(4096, 4000)];
        let mut random = Rng::with_seed(0);
        let chosen = choose(&pool, &seen, (1, 1), 0, &mut random);
        assert_eq!(chosen, [(problem(128, 96), false)]);
    }

    #[test]
    fn a_batch_is_spread_out() {
        let pool: Vec<Problem> =
            [64, 66, 68, 70, 2048, 8192].map(|extent| problem(extent, extent)).to_vec();
        let mut random = Rng::with_seed(0);
        let chosen = choose(&pool, &[], (1, 3), 0, &mut random);
        let small = chosen.iter().filter(|(problem, _)| problem.shape.m < 100).count();
        assert_eq!((chosen.len(), small), (3, 1), "{chosen:?}");
    }

    #[test]
    fn a_fourth_is_drawn_at_random_before_the_others_and_none_twice() {
        let pool: Vec<Problem> = (1..40).map(|at| problem(64 * at, 64)).collect();
        let mut random = Rng::with_seed(3);
        let chosen = choose(&pool, &[], (0, 39), 0, &mut random);
        for (at, (_, at_random)) in chosen.iter().enumerate() {
            assert_eq!(*at_random, at < 10, "{at}");
        }
        let mut problems: Vec<Problem> = chosen.into_iter().map(|(problem, _)| problem).collect();
        problems.sort_by_key(|problem| problem.shape.m);
        assert_eq!(problems, pool);
    }

    #[test]
    fn regrets_count_less_after_a_training() {
        let later = CoverStep { trainings: 3, ..step(problem(4096, 4096), 0.2) };
        let seen = [step(problem(64, 64), 0.3), later];
        let pool = [problem(96, 96), problem(4000, 4096)];
        let mut random = Rng::with_seed(0);
        let first = |trainings| {
            choose(&pool, &seen, (1, 1), trainings, &mut Rng::with_seed(0))[0].0.shape.m
        };
        assert_eq!((first(0), first(3)), (96, 4000));
        assert!(choose(&[], &seen, (0, 2), 0, &mut random).is_empty());
    }
}
