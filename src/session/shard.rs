//! Which of many problems one of several jobs tunes, where the jobs do not know of each other.

use crate::model::Problem;

/// What a problem costs besides its arithmetic, in operations: tuning takes 9 s and another second
/// for each 10^9 operations on an H200 with 16 cores, by the times of the records of
/// `results/nvidia-h200.toml` from 128x128x1024 to 4096x4096x1024. Another machine has other
/// figures; the shares stay disjoint and complete.
const FIXED_OPERATIONS: f64 = 9e9;

/// The share of job number `index`, counted from 0, of `count` jobs: every problem is in exactly one
/// share, and the shares cost about the same. Depends on the problems, not on their order; within a
/// share they stay in theirs.
///
/// The costliest first, each goes to the job that has the least so far, so that the costliest share
/// is at most 4/3 of the best possible one (Graham 1969, "Bounds on Multiprocessing Timing
/// Anomalies").
pub fn share(problems: &[Problem], index: usize, count: usize) -> Vec<Problem> {
    let mut order: Vec<usize> = (0..problems.len()).collect();
    order.sort_by(|a, b| {
        let cost = |number: &usize| cost(&problems[*number]);
        cost(b).total_cmp(&cost(a)).then_with(|| problems[*a].cmp(&problems[*b]))
    });
    let mut loads = vec![0.0; count.max(1)];
    let mut own = Vec::new();
    for number in order {
        // The first of equals, everywhere the same.
        let least = (0..loads.len()).min_by(|a, b| f64::total_cmp(&loads[*a], &loads[*b]));
        let job = least.unwrap_or(0);
        loads[job] += cost(&problems[number]);
        if job == index {
            own.push(number);
        }
    }
    own.sort_unstable();
    own.into_iter().map(|number| problems[number]).collect()
}

fn cost(problem: &Problem) -> f64 {
    FIXED_OPERATIONS + problem.operations()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Dtype, Shape};

    fn problems() -> impl Strategy<Value = Vec<Problem>> {
        let extent = || prop::sample::select(vec![1_u64, 33, 512, 4096, 16384]);
        let shape = (extent(), extent(), extent());
        prop::collection::vec(shape, 0..40).prop_map(|shapes| {
            let of = |(m, n, k)| Problem::new(Shape { m, n, k }, Dtype::F32);
            shapes.into_iter().map(of).collect()
        })
    }

    fn total(problems: &[Problem]) -> f64 {
        problems.iter().map(cost).sum()
    }

    proptest! {
        #[test]
        fn shares_are_disjoint_complete_and_balanced(problems in problems(), count in 1..9_usize) {
            let shares: Vec<Vec<Problem>> =
                (0..count).map(|index| share(&problems, index, count)).collect();
            let mut all: Vec<Problem> = shares.concat();
            let mut given = problems.clone();
            all.sort();
            given.sort();
            prop_assert_eq!(all, given);

            // No share exceeds the mean by more than the costliest problem.
            let costliest = problems.iter().map(cost).fold(0.0, f64::max);
            let mean = total(&problems) / count as f64;
            for share in &shares {
                prop_assert!(total(share) <= mean + costliest * (1.0 + 1e-9));
            }
        }

        #[test]
        fn shares_do_not_depend_on_the_order(problems in problems(), count in 1..9_usize) {
            let mut backwards = problems.clone();
            backwards.reverse();
            for index in 0..count {
                let mut one = share(&problems, index, count);
                let mut other = share(&backwards, index, count);
                other.reverse();
                one.sort();
                other.sort();
                prop_assert_eq!(one, other);
            }
        }
    }

    #[test]
    fn a_share_keeps_the_order_of_its_problems() {
        let problem = |m| Problem::new(Shape { m, n: 512, k: 512 }, Dtype::F32);
        let problems: Vec<Problem> = [1, 4096, 2, 8192, 3, 4].map(problem).to_vec();
        assert_eq!(share(&problems, 0, 1), problems);
        let first = share(&problems, 0, 2);
        let places: Vec<usize> =
            first.iter().map(|own| problems.iter().position(|p| p == own).unwrap()).collect();
        assert!(places.is_sorted() && !places.is_empty(), "{places:?}");
    }
}
