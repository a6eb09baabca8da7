//! The final on a device: every entrant's work is recorded once, and replayed whenever it is its
//! turn.

use super::conditions::ConditionsRange;
use super::finals::{Final, Stage};
use super::sampling::launches_of_final;
use super::stopwatch::{Recorded, Stopwatch, WorkFor};
use crate::model::{Measurement, Micros, Timing};
use crate::worker::{DeviceConditions, Executor, WorkerError};

/// What a final's rounds gave.
#[derive(Debug)]
pub struct Held {
    /// What each entrant measured in the rounds that count.
    pub measurements: Vec<Measurement>,
    /// What the sensors showed meanwhile.
    pub conditions: ConditionsRange,
}

/// Holds a final among entrants given by their work, in its order.
///
/// # Errors
/// [`WorkerError`] where one of them faults or hangs; all have been validated before.
pub fn hold<K: Ord>(
    executor: &mut dyn Executor,
    stopwatch: &Stopwatch,
    entrants: &[WorkFor<'_>],
    contest: &mut Final<K>,
) -> Result<Held, WorkerError> {
    let mut looks = Vec::with_capacity(entrants.len());
    for work in entrants {
        looks.push(stopwatch.look(executor, work)?);
    }
    let times: Vec<Micros> = looks.iter().map(|(time, _)| *time).collect();
    let launches = launches_of_final(&times);
    let mut recorded = Vec::with_capacity(entrants.len());
    for ((work, (_, look)), launches) in entrants.iter().zip(looks).zip(launches) {
        recorded.push(stopwatch.instead_of(look, executor, work, launches)?);
    }
    if let Some(first) = recorded.first() {
        stopwatch.warm(executor, *first)?;
    }
    let conditions = ConditionsRange::default();
    let mut stage = DeviceStage { executor, stopwatch, recorded, sm_clock_mhz: None, conditions };
    contest.hold(&mut stage)?;
    let DeviceStage { recorded, sm_clock_mhz, conditions, .. } = stage;
    for sequence in &recorded {
        stopwatch.forget(executor, *sequence)?;
    }
    let measurements = recorded.iter().enumerate().map(|(entrant, recorded)| Measurement {
        samples: contest.samples(entrant).to_vec(),
        launches_per_sample: recorded.launches,
        regime: stopwatch.regime(),
        timing: Timing::Measured,
        sm_clock_mhz,
    });
    Ok(Held { measurements: measurements.collect(), conditions })
}

struct DeviceStage<'a> {
    executor: &'a mut dyn Executor,
    stopwatch: &'a Stopwatch,
    recorded: Vec<Recorded>,
    /// As last read.
    sm_clock_mhz: Option<u32>,
    conditions: ConditionsRange,
}

impl Stage for DeviceStage<'_> {
    type Error = WorkerError;

    fn sample(&mut self, entrant: usize) -> Result<Micros, WorkerError> {
        let recorded = self.recorded[entrant];
        self.stopwatch.load(self.executor, recorded)?;
        self.stopwatch.sample(self.executor, recorded)
    }

    fn conditions(&mut self) -> Result<DeviceConditions, WorkerError> {
        let conditions = self.executor.conditions()?;
        self.conditions.take(&conditions);
        self.sm_clock_mhz = conditions.sm_clock_mhz.or(self.sm_clock_mhz);
        Ok(conditions)
    }
}
