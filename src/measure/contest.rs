//! The contest: finalists and libraries sampled in turn, so that whatever changes with time (clock,
//! temperature) changes for all of them.

use super::sampling::launches_per_sample;
use super::stopwatch::{Stopwatch, WorkFor};
use crate::model::{CachePolicy, Measurement, Micros, Timing};
use crate::worker::{Executor, WorkerError};

/// Someone who takes part.
pub struct Contestant<'a> {
    /// Gives the work of one product.
    pub work: WorkFor<'a>,
}

/// Samples every contestant once a round. Each round begins with another one, so that none always
/// follows the same.
///
/// # Errors
/// [`WorkerError`] where one of them faults or hangs; all have been validated before.
pub fn contest(
    executor: &mut dyn Executor,
    stopwatch: &Stopwatch,
    contestants: &[Contestant<'_>],
    rounds: usize,
) -> Result<Vec<Measurement>, WorkerError> {
    let mut recorded = Vec::with_capacity(contestants.len());
    for contestant in contestants {
        let one = stopwatch.time_one(executor, contestant.work)?;
        let sequence = stopwatch.record(executor, contestant.work, launches_per_sample(one))?;
        stopwatch.sample(executor, sequence)?; // warm-up
        recorded.push(sequence);
    }
    let mut samples: Vec<Vec<Micros>> = vec![Vec::with_capacity(rounds); contestants.len()];
    let mut sm_clock_mhz = None;
    for round in 0..rounds {
        for turn in 0..contestants.len() {
            let who = (round + turn) % contestants.len();
            samples[who].push(stopwatch.sample(executor, recorded[who])?);
        }
        // Right after work, and halfway: idle clocks say nothing.
        if round == rounds / 2 {
            sm_clock_mhz = executor.conditions()?.sm_clock_mhz;
        }
    }
    for sequence in &recorded {
        stopwatch.forget(executor, *sequence)?;
    }
    Ok(samples
        .into_iter()
        .zip(recorded)
        .map(|(samples, recorded)| Measurement {
            samples,
            launches_per_sample: recorded.launches,
            cache_policy: CachePolicy::Rotate,
            timing: Timing::Measured,
            sm_clock_mhz,
        })
        .collect())
}
