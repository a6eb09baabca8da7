//! Timing of candidates for one problem on one device.

use std::time::{Duration, Instant};

use super::race::{Race, RaceStep, RacingCandidate};
use super::sampling::{
    LOAD, WARM_UP, at_least, flush_bytes, launches_of_screening, operand_set, samples_of_screening,
    sets_for,
};
use crate::model::{CachePolicy, Device, Micros, PowerState, Problem, Regime, statistics};
use crate::validate::Validator;
use crate::worker::{Executor, OperandAddresses, WorkItem, WorkerError};

/// Operand sets for the regime, and the range that is overwritten to flush the L2 cache. With a hot
/// cache, the one set is the validator's.
#[derive(Debug)]
pub struct Stopwatch {
    sets: Vec<OperandAddresses>,
    flush: Option<(u64, u64)>,
    regime: Regime,
}

/// Creates the work of one product for a set of operands.
pub type WorkFor<'a> = &'a dyn Fn(OperandAddresses) -> Vec<WorkItem>;

/// A sequence recorded in the executor.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordedSequence {
    sequence: u32,
    pub(super) launches: u32,
}

impl Stopwatch {
    /// Device memory in bytes for timing `problem`.
    pub fn footprint(problem: &Problem, device: &Device, policy: CachePolicy) -> u64 {
        let Some(flush) = flush_bytes(device, policy) else { return 0 };
        let (_, set) = operand_set(problem, 0);
        set * sets_for(problem, device, policy) + flush
    }

    /// Allocates the operand sets and fills them with uniform random values.
    ///
    /// # Errors
    /// [`WorkerError`], out of memory among them.
    pub fn prepare(
        executor: &mut dyn Executor,
        validator: &Validator,
        problem: &Problem,
        regime: Regime,
    ) -> Result<Self, WorkerError> {
        let device = executor.device().clone();
        let Some(flush_bytes) = flush_bytes(&device, regime.cache) else {
            return Ok(Self { sets: vec![validator.operands()], flush: None, regime });
        };
        let count = sets_for(problem, &device, regime.cache);
        let (_, set_bytes) = operand_set(problem, 0);
        let bytes = set_bytes * count;
        let flush = executor.allocate(flush_bytes)?;
        let start = match executor.allocate(bytes) {
            Err(error) if !error.ends_worker() => return executor.free(flush).and(Err(error)),
            start => start?,
        };
        validator.fill_uniform(executor, start, bytes)?;
        let set = |number: u64| operand_set(problem, start + number * set_bytes).0;
        let sets = (0..count).map(set).collect();
        Ok(Self { sets, flush: Some((flush, flush_bytes)), regime })
    }

    /// Takes the validator's operands again, where it uses them: they moved.
    pub fn follow(&mut self, validator: &Validator) {
        if self.flush.is_none() {
            self.sets = vec![validator.operands()];
        }
    }

    /// The regime of the timings.
    pub fn regime(&self) -> Regime {
        self.regime
    }

    /// Frees all device memory.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn release(self, executor: &mut dyn Executor) -> Result<(), WorkerError> {
        let Some((flush, _)) = self.flush else { return Ok(()) };
        // The sets are one allocation, which begins with the first set's A.
        if let Some(first) = self.sets.first() {
            executor.free(first.a)?;
        }
        executor.free(flush)
    }

    /// Samples a candidate until the race decides. Returns the decision and the launches per
    /// sample.
    ///
    /// # Errors
    /// [`WorkerError`] when it faults or hangs.
    pub fn race(
        &self,
        executor: &mut dyn Executor,
        work: WorkFor<'_>,
        racer: &mut RacingCandidate,
        race: &Race,
    ) -> Result<(RaceStep, u32), WorkerError> {
        let (one, probe) = self.probe(executor, work)?;
        let least = at_least(one);
        if race.hopeless(least).is_some() {
            self.forget(executor, probe)?;
            return Ok((racer.take(one, race), probe.launches));
        }
        let launches = launches_of_screening(least);
        racer.set_enough(samples_of_screening(Micros(least.0 * f64::from(launches))));
        let is_sample = probe.launches == launches && self.regime.power == PowerState::Burst;
        let mut step = if is_sample { racer.take(one, race) } else { RaceStep::More };
        let recorded = self.rerecord(probe, executor, work, launches)?;
        self.load(executor, recorded)?;
        while step == RaceStep::More {
            step = racer.take(self.sample(executor, recorded)?, race);
        }
        self.forget(executor, recorded)?;
        Ok((step, recorded.launches))
    }

    /// Returns the median time of `probes` single launches, at least one.
    ///
    /// # Errors
    /// [`WorkerError`] when it faults or hangs.
    pub fn probe_median(
        &self,
        executor: &mut dyn Executor,
        work: WorkFor<'_>,
        probes: usize,
    ) -> Result<Micros, WorkerError> {
        let (first, recorded) = self.probe(executor, work)?;
        let mut times = vec![first.0];
        for _ in 1..probes {
            times.push(self.sample(executor, recorded)?.0);
        }
        self.forget(executor, recorded)?;
        Ok(Micros(statistics::median(&times).unwrap_or(first.0)))
    }

    /// Times a single launch and returns it with its sequence. Being the first after other work
    /// changes the time little: `docs/decisions/2026-11-23-samples.md`.
    pub(super) fn probe(
        &self,
        executor: &mut dyn Executor,
        work: WorkFor<'_>,
    ) -> Result<(Micros, RecordedSequence), WorkerError> {
        let recorded = self.record(executor, work, 1)?;
        Ok((self.sample(executor, recorded)?, recorded))
    }

    /// Records a sequence of `launches` launches in place of the probe's.
    pub(super) fn rerecord(
        &self,
        probe: RecordedSequence,
        executor: &mut dyn Executor,
        work: WorkFor<'_>,
        launches: u32,
    ) -> Result<RecordedSequence, WorkerError> {
        if probe.launches == launches {
            return Ok(probe);
        }
        self.forget(executor, probe)?;
        self.record(executor, work, launches)
    }

    pub(super) fn record(
        &self,
        executor: &mut dyn Executor,
        work: WorkFor<'_>,
        launches: u32,
    ) -> Result<RecordedSequence, WorkerError> {
        let sets = self.sets.iter().cycle().take(launches as usize);
        let work: Vec<WorkItem> = sets.flat_map(|set| work(*set)).collect();
        Ok(RecordedSequence { sequence: executor.record(&work)?, launches })
    }

    /// Replays a sequence and returns the mean time of its launches.
    pub(super) fn sample(
        &self,
        executor: &mut dyn Executor,
        recorded: RecordedSequence,
    ) -> Result<Micros, WorkerError> {
        let elapsed = executor.replay(recorded.sequence, self.flush)?;
        Ok(Micros(elapsed.0 / f64::from(recorded.launches)))
    }

    /// Runs work until the device is warm, in the sustained regime.
    pub(super) fn warm(
        &self,
        executor: &mut dyn Executor,
        recorded: RecordedSequence,
    ) -> Result<(), WorkerError> {
        self.work_for(WARM_UP, executor, recorded)
    }

    /// Runs this work until the power is that of this work, in the sustained regime.
    pub(super) fn load(
        &self,
        executor: &mut dyn Executor,
        recorded: RecordedSequence,
    ) -> Result<(), WorkerError> {
        self.work_for(LOAD, executor, recorded)
    }

    fn work_for(
        &self,
        time: Duration,
        executor: &mut dyn Executor,
        recorded: RecordedSequence,
    ) -> Result<(), WorkerError> {
        if self.regime.power == PowerState::Burst {
            return Ok(());
        }
        let began = Instant::now();
        while began.elapsed() < time {
            executor.replay(recorded.sequence, None)?;
        }
        Ok(())
    }

    pub(super) fn forget(
        &self,
        executor: &mut dyn Executor,
        recorded: RecordedSequence,
    ) -> Result<(), WorkerError> {
        executor.forget(recorded.sequence)
    }
}
