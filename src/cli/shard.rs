//! Which share of a list of shapes this process tunes: by `--shard`, or by what a scheduler says of
//! the job.

use super::Failure;

/// One of several jobs, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) index: usize,
    pub(super) count: usize,
    /// Where the number comes from, for a message.
    pub(super) source: &'static str,
}

/// The share that is meant: `typed` as `I/N`, I from 1 to N; as `/N`, where I is what the scheduler
/// says; nothing typed, where the scheduler says both. `None` where nobody says anything.
/// `variable` gives the value of an environment variable.
pub(super) fn shard(
    typed: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Shard>, Failure> {
    let Some(typed) = typed else {
        let slurm = slurm(&variable)?;
        return Ok(slurm.map(|(index, count)| Shard { index, count, source: "Slurm" }));
    };
    let wrong = || {
        Failure::Usage(format!(
            "`{typed}` is no shard: write `I/N` with I from 1 to N, as in `2/8`, or `/N` where Slurm \
             or Kubernetes numbers the jobs"
        ))
    };
    let (number, count) = typed.split_once('/').ok_or_else(wrong)?;
    let count: usize = count.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
    if !number.is_empty() {
        let number: usize = number.parse().map_err(|_| wrong())?;
        let index = number.checked_sub(1).filter(|index| *index < count).ok_or_else(wrong)?;
        return Ok(Some(Shard { index, count, source: "--shard" }));
    }
    let (index, source) = if let Some((index, _)) = slurm(&variable)? {
        (index, "Slurm")
    } else if let Some(index) = whole("JOB_COMPLETION_INDEX", &variable)? {
        (index, "Kubernetes")
    } else {
        return Err(Failure::Usage(format!(
            "`--shard {typed}` leaves the job's number to the scheduler, but neither \
             SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set: write `--shard I/{count}`"
        )));
    };
    if index >= count {
        return Err(Failure::Usage(format!(
            "{source} says that this is job {} and `--shard {typed}` that there are {count}",
            index + 1
        )));
    }
    Ok(Some(Shard { index, count, source }))
}

/// The place in a Slurm array, from 0, and how many tasks it has.
fn slurm(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<(usize, usize)>, Failure> {
    let Some(id) = whole("SLURM_ARRAY_TASK_ID", variable)? else { return Ok(None) };
    let Some(count) = whole("SLURM_ARRAY_TASK_COUNT", variable)? else { return Ok(None) };
    let first = whole("SLURM_ARRAY_TASK_MIN", variable)?.unwrap_or(0);
    let step = whole("SLURM_ARRAY_TASK_STEP", variable)?.unwrap_or(1).max(1);
    let index = id.checked_sub(first).filter(|past| past % step == 0).map(|past| past / step);
    index.filter(|index| *index < count).map(|index| Some((index, count))).ok_or_else(|| {
        Failure::Usage(format!(
            "task {id} has no place in a Slurm array of {count} tasks from {first} in steps of {step}: \
             say which share this is with `--shard I/{count}`"
        ))
    })
}

fn whole(name: &str, variable: &impl Fn(&str) -> Option<String>) -> Result<Option<usize>, Failure> {
    let Some(text) = variable(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        Failure::Usage(format!(
            "{name} is `{text}`, no whole number: say with `--shard I/N` which share this is"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLURM: [(&str, &str); 3] = [
        ("SLURM_ARRAY_TASK_ID", "7"),
        ("SLURM_ARRAY_TASK_COUNT", "4"),
        ("SLURM_ARRAY_TASK_MIN", "5"),
    ];

    fn of(
        typed: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<Option<(usize, usize)>, String> {
        let variable = |name: &str| {
            let found = variables.iter().rev().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        match shard(typed, variable) {
            Ok(shard) => Ok(shard.map(|shard| (shard.index, shard.count))),
            Err(Failure::Usage(message)) => Err(message),
            Err(failure) => panic!("{failure:?}"),
        }
    }

    #[test]
    fn a_shard_is_typed_or_said_by_the_scheduler() {
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
            assert_eq!(of(typed, variables), Ok(expected), "{typed:?} {variables:?}");
        }
        let stepped = [&SLURM[..], &[("SLURM_ARRAY_TASK_STEP", "2")]].concat();
        assert_eq!(of(None, &stepped), Ok(Some((1, 4))));
    }

    #[test]
    fn what_is_no_share_is_refused() {
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
            let message = of(typed, variables).unwrap_err();
            assert!(message.contains(words), "{typed:?} {variables:?}: {message}");
        }
    }
}
