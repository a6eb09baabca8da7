//! From words that were typed to problems, families and numbers, for all commands alike.

use std::num::NonZeroUsize;

use super::Failure;
use super::arguments::FamilyArguments;
use crate::model::problem::MAX_BATCH;
use crate::model::{CachePolicy, Compute, Dtype, PowerState, Problem, Regime, Shape};
use crate::render::Templates;
use crate::space::{Families, Family};

/// The families to choose from, and their templates.
pub(super) fn families(wanted: &FamilyArguments) -> Result<(Vec<Family>, Templates), Failure> {
    let families = match &wanted.folders.spaces {
        Some(folder) => Families::from_folder(folder),
        None => Families::built_in(),
    }
    .map_err(Failure::work)?;
    let families = if wanted.family.is_empty() {
        families.iter().cloned().collect()
    } else {
        let named = wanted.family.iter().map(|name| families.get(name).cloned());
        named.collect::<Result<_, _>>().map_err(Failure::usage)?
    };
    let templates = match &wanted.folders.templates {
        Some(folder) => Templates::with_folder(folder),
        None => Templates::built_in(),
    }
    .map_err(Failure::work)?;
    Ok((families, templates))
}

/// What problems have in common, with a shape and layout that stand for any.
pub(super) fn pattern(dtype: &str, compute: Option<&str>, batch: u64) -> Result<Problem, Failure> {
    let dtype: Dtype = dtype.parse().map_err(Failure::usage)?;
    let compute: Compute = match compute {
        Some(word) => word.parse().map_err(Failure::usage)?,
        None => dtype.default_compute(),
    };
    if batch == 0 || batch > MAX_BATCH {
        return Err(Failure::Usage(format!("batch is {batch}, not within 1 to {MAX_BATCH}")));
    }
    Ok(Problem { batch, compute, ..Problem::new(Shape { m: 1, n: 1, k: 1 }, dtype) })
}

/// What times are taken in.
pub(super) fn regime(cache: &str, power: &str) -> Result<Regime, Failure> {
    let cache =
        CachePolicy::ALL.into_iter().find(|known| known.name() == cache).ok_or_else(|| {
            Failure::Usage(format!("`{cache}` is no cache policy: choose `rotate` or `hot`"))
        })?;
    let power =
        PowerState::ALL.into_iter().find(|known| known.name() == power).ok_or_else(|| {
            Failure::Usage(format!("`{power}` is no power state: choose `burst` or `sustained`"))
        })?;
    Ok(Regime { cache, power })
}

/// Shapes, as typed.
pub(super) fn shapes(words: &[String]) -> Result<Vec<Shape>, Failure> {
    words.iter().map(|word| word.parse().map_err(Failure::usage)).collect()
}

/// A problem, if its operands can be addressed.
pub(super) fn problem(problem: Problem) -> Result<Problem, Failure> {
    problem.check_size().map(|()| problem).map_err(Failure::usage)
}

/// Threads that compile.
pub(super) fn jobs(wanted: Option<NonZeroUsize>) -> NonZeroUsize {
    let cores = || std::thread::available_parallelism().ok();
    wanted.or_else(cores).unwrap_or(NonZeroUsize::MIN)
}
