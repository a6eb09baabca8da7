//! The final on a device: records every entrant's work once and replays it for each sample.

use std::sync::atomic::{AtomicBool, Ordering};

use super::conditions::ConditionsRange;
use super::finals::{EntrantSampler, Final};
use super::sampling::launches_of_final;
use super::stopwatch::{RecordedSequence, Stopwatch, WorkFor};
use crate::model::{Measurement, Micros, Timing};
use crate::worker::{DeviceConditions, Executor, WorkerError};

/// Results of a final on a device.
#[derive(Debug)]
pub struct FinalMeasurements {
    /// Measurement of each entrant over the valid rounds.
    pub measurements: Vec<Measurement>,
    /// Sensor ranges during the final.
    pub conditions: ConditionsRange,
}

/// Runs a final among entrants, given by their work in its order.
///
/// # Errors
/// [`WorkerError`] when an entrant faults or hangs, though all were validated before, and
/// [`WorkerError::Interrupted`] soon after `stop` is set.
pub fn run_final<K: Ord>(
    executor: &mut dyn Executor,
    stopwatch: &Stopwatch,
    entrants: &[WorkFor<'_>],
    final_round: &mut Final<K>,
    stop: &AtomicBool,
) -> Result<FinalMeasurements, WorkerError> {
    let mut probes = Vec::with_capacity(entrants.len());
    for work in entrants {
        probes.push(stopwatch.probe(executor, work)?);
    }
    let times: Vec<Micros> = probes.iter().map(|(time, _)| *time).collect();
    let launches = launches_of_final(&times);
    let mut recorded = Vec::with_capacity(entrants.len());
    for ((work, (_, probe)), launches) in entrants.iter().zip(probes).zip(launches) {
        recorded.push(stopwatch.rerecord(probe, executor, work, launches)?);
    }
    if let Some(first) = recorded.first() {
        stopwatch.warm(executor, *first)?;
    }
    let conditions = ConditionsRange::default();
    let mut sampler =
        DeviceSampler { executor, stopwatch, recorded, stop, sm_clock_mhz: None, conditions };
    final_round.run(&mut sampler)?;
    let DeviceSampler { recorded, sm_clock_mhz, conditions, .. } = sampler;
    for sequence in &recorded {
        stopwatch.forget(executor, *sequence)?;
    }
    let measurements = recorded.iter().enumerate().map(|(entrant, recorded)| Measurement {
        samples: final_round.samples(entrant).to_vec(),
        launches_per_sample: recorded.launches,
        regime: stopwatch.regime(),
        timing: Timing::Measured,
        sm_clock_mhz,
    });
    Ok(FinalMeasurements { measurements: measurements.collect(), conditions })
}

struct DeviceSampler<'a> {
    executor: &'a mut dyn Executor,
    stopwatch: &'a Stopwatch,
    recorded: Vec<RecordedSequence>,
    stop: &'a AtomicBool,
    /// As final_round read.
    sm_clock_mhz: Option<u32>,
    conditions: ConditionsRange,
}

impl EntrantSampler for DeviceSampler<'_> {
    type Error = WorkerError;

    fn sample(&mut self, entrant: usize) -> Result<Micros, WorkerError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(WorkerError::Interrupted);
        }
        let recorded = self.recorded[entrant];
        self.stopwatch.load(self.executor, recorded)?;
        self.stopwatch.sample(self.executor, recorded)
    }

    fn conditions(&mut self) -> Result<DeviceConditions, WorkerError> {
        let conditions = self.executor.conditions()?;
        self.conditions.add(&conditions);
        self.sm_clock_mhz = conditions.sm_clock_mhz.or(self.sm_clock_mhz);
        Ok(conditions)
    }
}
