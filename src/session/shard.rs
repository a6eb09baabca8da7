//! Shards: the part of a list of problems that one of several jobs tunes, where the jobs do not communicate.

use thiserror::Error;

use crate::model::Problem;

/// Fixed cost of a problem, in operations: tuning takes 9 s and another second for each 10^9 operations, by the records
/// from 128x128x1024 to 4096x4096x1024 of an H200 with 16 cores. On other machines the shards are less balanced, but
/// still disjoint and complete.
const FIXED_OPERATIONS: f64 = 9e9;

/// Most jobs of a cluster.
const MAX_SHARDS: usize = 1_000_000;

/// One of several jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Its number, from 0.
    pub index: usize,
    /// How many jobs there are.
    pub count: usize,
    /// What named the job, for a message: `--shard`, `Slurm` or `Kubernetes`.
    pub source: &'static str,
}

/// Why the shard of a job is unknown.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct ShardError(String);

impl Shard {
    /// The shard that `typed` names: `I/N` with I from 1 to N, or `/N` where the scheduler of the cluster numbers the
    /// jobs. Where nothing is typed, the task of a Slurm array; `None` outside of one. `variable` gives the value of an
    /// environment variable.
    ///
    /// # Errors
    /// See [`ShardError`].
    pub fn find(
        typed: Option<&str>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, ShardError> {
        let Some(typed) = typed else {
            let slurm = slurm(variable)?;
            return Ok(slurm.map(|(index, count)| Self { index, count, source: "Slurm" }));
        };
        let wrong = || {
            ShardError(format!(
                "`{typed}` is no shard: write `I/N` with I from 1 to N, as in `2/8`, or `/N` where \
                 Slurm or Kubernetes numbers the jobs"
            ))
        };
        let (number, count) = typed.split_once('/').ok_or_else(wrong)?;
        let count: usize = count.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
        if count > MAX_SHARDS {
            return Err(ShardError(format!(
                "`--shard {typed}` has {count} shards, the most are {MAX_SHARDS}"
            )));
        }
        if !number.is_empty() {
            let number: usize = number.parse().map_err(|_| wrong())?;
            let index = number.checked_sub(1).filter(|index| *index < count).ok_or_else(wrong)?;
            return Ok(Some(Self { index, count, source: "--shard" }));
        }
        let (index, source) = if let Some((index, _)) = slurm(variable)? {
            (index, "Slurm")
        } else if let Some(index) = whole("JOB_COMPLETION_INDEX", variable)? {
            (index, "Kubernetes")
        } else {
            return Err(ShardError(format!(
                "`--shard {typed}` leaves the job's number to the scheduler, but neither \
                 SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set: write `--shard I/{count}`"
            )));
        };
        if index >= count {
            return Err(ShardError(format!(
                "{source} says that this is job {} and `--shard {typed}` that there are {count}",
                index + 1
            )));
        }
        Ok(Some(Self { index, count, source }))
    }

    /// The problems of this shard: every problem is in exactly one shard, and the shards cost about the same. It depends
    /// on the problems and not on their order; within a shard they keep theirs.
    ///
    /// Each problem, the costliest first, goes to the shard with the least cost so far: the costliest shard is at most
    /// 4/3 of the best possible one (Graham 1969, "Bounds on Multiprocessing Timing Anomalies").
    pub fn of(self, problems: &[Problem]) -> Vec<Problem> {
        let mut order: Vec<usize> = (0..problems.len()).collect();
        order.sort_by(|a, b| {
            let cost = |number: &usize| cost(&problems[*number]);
            cost(b).total_cmp(&cost(a)).then_with(|| problems[*a].cmp(&problems[*b]))
        });
        // More jobs than problems stay without one.
        let mut loads = vec![0.0; self.count.clamp(1, problems.len().max(1))];
        let mut own = Vec::new();
        for number in order {
            // Of equal loads the first, on every machine.
            let least = (0..loads.len()).min_by(|a, b| f64::total_cmp(&loads[*a], &loads[*b]));
            let job = least.unwrap_or(0);
            loads[job] += cost(&problems[number]);
            if job == self.index {
                own.push(number);
            }
        }
        own.sort_unstable();
        own.into_iter().map(|number| problems[number]).collect()
    }
}

fn cost(problem: &Problem) -> f64 {
    FIXED_OPERATIONS + problem.operations()
}

/// The place of this task in a Slurm array, from 0, and the size of the array.
fn slurm(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<(usize, usize)>, ShardError> {
    let Some(id) = whole("SLURM_ARRAY_TASK_ID", variable)? else { return Ok(None) };
    let Some(count) = whole("SLURM_ARRAY_TASK_COUNT", variable)? else { return Ok(None) };
    let first = whole("SLURM_ARRAY_TASK_MIN", variable)?.unwrap_or(0);
    let step = whole("SLURM_ARRAY_TASK_STEP", variable)?.unwrap_or(1).max(1);
    let index = id.checked_sub(first).filter(|past| past % step == 0).map(|past| past / step);
    index.filter(|index| *index < count).map(|index| Some((index, count))).ok_or_else(|| {
        ShardError(format!(
            "task {id} has no place in a Slurm array of {count} tasks from {first} in steps of \
             {step}: name the shard with `--shard I/{count}`"
        ))
    })
}

/// The value of a variable as a whole number.
fn whole(
    name: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<usize>, ShardError> {
    let Some(text) = variable(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        ShardError(format!(
            "{name} is `{text}`, no whole number: name the shard with `--shard I/N`"
        ))
    })
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

    fn part(problems: &[Problem], index: usize, count: usize) -> Vec<Problem> {
        Shard { index, count, source: "test" }.of(problems)
    }

    fn total(problems: &[Problem]) -> f64 {
        problems.iter().map(cost).sum()
    }

    proptest! {
        #[test]
        fn shards_are_disjoint_complete_and_balanced(problems in problems(), count in 1..9_usize) {
            let shards: Vec<Vec<Problem>> =
                (0..count).map(|index| part(&problems, index, count)).collect();
            let mut all: Vec<Problem> = shards.concat();
            let mut given = problems.clone();
            all.sort();
            given.sort();
            prop_assert_eq!(all, given);

            // No shard exceeds the mean by more than the costliest problem.
            let costliest = problems.iter().map(cost).fold(0.0, f64::max);
            let mean = total(&problems) / count as f64;
            for shard in &shards {
                prop_assert!(total(shard) <= mean + costliest * (1.0 + 1e-9));
            }
        }

        #[test]
        fn shards_do_not_depend_on_the_order(problems in problems(), count in 1..9_usize) {
            let mut backwards = problems.clone();
            backwards.reverse();
            for index in 0..count {
                let mut one = part(&problems, index, count);
                let mut other = part(&backwards, index, count);
                other.reverse();
                one.sort();
                other.sort();
                prop_assert_eq!(one, other);
            }
        }
    }

    #[test]
    fn a_shard_keeps_the_order_of_its_problems() {
        let problem = |m| Problem::new(Shape { m, n: 512, k: 512 }, Dtype::F32);
        let problems: Vec<Problem> = [1, 4096, 2, 8192, 3, 4].map(problem).to_vec();
        assert_eq!(part(&problems, 0, 1), problems);
        let first = part(&problems, 0, 2);
        let places: Vec<usize> =
            first.iter().map(|own| problems.iter().position(|p| p == own).unwrap()).collect();
        assert!(places.is_sorted() && !places.is_empty(), "{places:?}");
    }

    const SLURM: [(&str, &str); 3] = [
        ("SLURM_ARRAY_TASK_ID", "7"),
        ("SLURM_ARRAY_TASK_COUNT", "4"),
        ("SLURM_ARRAY_TASK_MIN", "5"),
    ];

    fn found(
        typed: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<Option<(usize, usize)>, String> {
        let variable = |name: &str| {
            let found = variables.iter().rev().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        match Shard::find(typed, &variable) {
            Ok(shard) => Ok(shard.map(|shard| (shard.index, shard.count))),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_shard_is_typed_or_comes_from_the_scheduler() {
        let kubernetes = [("JOB_COMPLETION_INDEX", "3")];
        for (typed, variables, expected) in [
            (None, &[][..], None),
            (Some("1/1"), &[], Some((0, 1))),
            (Some("2/8"), &[], Some((1, 8))),
            (Some("8/8"), &SLURM, Some((7, 8))),
            (None, &SLURM, Some((2, 4))),
            (Some("/4"), &SLURM, Some((2, 4))),
            (Some("/5"), &kubernetes, Some((3, 5))),
            (None, &kubernetes, None),
            (None, &[("SLURM_ARRAY_TASK_ID", "3")], None),
        ] {
            assert_eq!(found(typed, variables), Ok(expected), "{typed:?} {variables:?}");
        }
        let stepped = [&SLURM[..], &[("SLURM_ARRAY_TASK_STEP", "2")]].concat();
        assert_eq!(found(None, &stepped), Ok(Some((1, 4))));
    }

    #[test]
    fn wrong_shards_are_refused() {
        let beyond = [&SLURM[..], &[("SLURM_ARRAY_TASK_ID", "9")]].concat();
        let between = [&SLURM[..], &[("SLURM_ARRAY_TASK_STEP", "3")]].concat();
        for (typed, variables, words) in [
            (Some("0/4"), &[][..], "`0/4` is no shard"),
            (Some("5/4"), &[], "`5/4` is no shard"),
            (Some("1/0"), &[], "`1/0` is no shard"),
            (Some("3"), &[], "write `I/N` with I from 1 to N"),
            (Some("a/b"), &[], "`a/b` is no shard"),
            (Some("/4"), &[], "write `--shard I/4`"),
            (Some("/2"), &SLURM, "Slurm says that this is job 3 and `--shard /2` that there are 2"),
            (Some("/2"), &[("JOB_COMPLETION_INDEX", "2")], "Kubernetes says that this is job 3"),
            (None, &beyond, "task 9 has no place in a Slurm array of 4 tasks from 5"),
            (None, &between, "in steps of 3"),
            (Some("/2"), &[("JOB_COMPLETION_INDEX", "x")], "JOB_COMPLETION_INDEX is `x`"),
        ] {
            let message = found(typed, variables).unwrap_err();
            assert!(message.contains(words), "{typed:?} {variables:?}: {message}");
        }
    }
}
