//! Times one candidate after another for one problem on one device.

use std::time::{Duration, Instant};

use super::race::{Race, Racer, Step};
use super::sampling::{
    LOAD, WARM_UP, at_least, flush_bytes, launches_of_screening, samples_of_screening, set_bytes,
    sets_for,
};
use crate::model::{CachePolicy, Device, Micros, PowerState, Problem, Regime, statistics};
use crate::validate::Validator;
use crate::worker::{Executor, OperandAddresses, Work, WorkerError};

/// Operands, as many sets as the regime wants, and the range that is overwritten to empty the L2
/// cache.
#[derive(Debug)]
pub struct Stopwatch {
    sets: Vec<OperandAddresses>,
    flush: Option<(u64, u64)>,
    regime: Regime,
}

/// Gives the work of one product for a set of operands.
pub type WorkFor<'a> = &'a dyn Fn(OperandAddresses) -> Vec<Work>;

/// A sequence that is recorded in the executor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recorded {
    sequence: u32,
    pub(super) launches: u32,
}

impl Stopwatch {
    /// Bytes of device memory that timing `problem` takes.
    pub fn footprint(problem: &Problem, device: &Device, policy: CachePolicy) -> u64 {
        let set: u64 = set_bytes(problem).iter().sum();
        set * sets_for(problem, device, policy) + flush_bytes(device, policy).unwrap_or(0)
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
        let [a_bytes, b_bytes, c_bytes] = set_bytes(problem);
        let count = sets_for(problem, &device, regime.cache);
        let bytes = (a_bytes + b_bytes + c_bytes) * count;
        let start = executor.allocate(bytes)?;
        validator.fill_uniform(executor, start, bytes / problem.dtype.bytes())?;
        let sets = (0..count)
            .map(|set| {
                let a = start + set * (a_bytes + b_bytes + c_bytes);
                OperandAddresses { a, b: a + a_bytes, c: a + a_bytes + b_bytes }
            })
            .collect();
        let flush = match flush_bytes(&device, regime.cache) {
            Some(bytes) => Some((executor.allocate(bytes)?, bytes)),
            None => None,
        };
        Ok(Self { sets, flush, regime })
    }

    /// What times are taken in.
    pub fn regime(&self) -> Regime {
        self.regime
    }

    /// Gives back all device memory.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn release(self, executor: &mut dyn Executor) -> Result<(), WorkerError> {
        // The sets are one allocation, which begins with the first set's A.
        if let Some(first) = self.sets.first() {
            executor.free(first.a)?;
        }
        match self.flush {
            Some((address, _)) => executor.free(address),
            None => Ok(()),
        }
    }

    /// Samples a candidate until the race says what becomes of it, and says over how many launches
    /// each sample went.
    ///
    /// # Errors
    /// [`WorkerError`] where it faults or hangs.
    pub fn race(
        &self,
        executor: &mut dyn Executor,
        work: WorkFor<'_>,
        racer: &mut Racer,
        race: &Race,
    ) -> Result<(Step, u32), WorkerError> {
        let (one, look) = self.look(executor, work)?;
        let least = at_least(one);
        if race.hopeless(least).is_some() {
            self.forget(executor, look)?;
            return Ok((racer.take(one, race), look.launches));
        }
        let launches = launches_of_screening(least);
        racer.be_content_with(samples_of_screening(Micros(least.0 * f64::from(launches))));
        let is_sample = look.launches == launches && self.regime.power == PowerState::Burst;
        let mut step = if is_sample { racer.take(one, race) } else { Step::More };
        let recorded = self.instead_of(look, executor, work, launches)?;
        self.load(executor, recorded)?;
        while step == Step::More {
            step = racer.take(self.sample(executor, recorded)?, race);
        }
        self.forget(executor, recorded)?;
        Ok((step, recorded.launches))
    }

    /// The middle of the times of so many launches, at least one, each by itself.
    ///
    /// # Errors
    /// [`WorkerError`] where it faults or hangs.
    pub fn looks(
        &self,
        executor: &mut dyn Executor,
        work: WorkFor<'_>,
        looks: usize,
    ) -> Result<Micros, WorkerError> {
        let (first, recorded) = self.look(executor, work)?;
        let mut times = vec![first.0];
        for _ in 1..looks {
            times.push(self.sample(executor, recorded)?.0);
        }
        self.forget(executor, recorded)?;
        Ok(Micros(statistics::median(&times).unwrap_or(first.0)))
    }

    /// The time of one launch by itself, and what it was taken with. It is the first since something else ran,
    /// but of 5900 such pairs on an H200 the first took 0.06 % longer than a second where that took more than a
    /// millisecond, 0.9 % where it took less than 400 µs, and 6 % in one of a hundred cases.
    pub(super) fn look(
        &self,
        executor: &mut dyn Executor,
        work: WorkFor<'_>,
    ) -> Result<(Micros, Recorded), WorkerError> {
        let recorded = self.record(executor, work, 1)?;
        Ok((self.sample(executor, recorded)?, recorded))
    }

    /// A sequence of so many launches, in place of what a look was taken with.
    pub(super) fn instead_of(
        &self,
        look: Recorded,
        executor: &mut dyn Executor,
        work: WorkFor<'_>,
        launches: u32,
    ) -> Result<Recorded, WorkerError> {
        if look.launches == launches {
            return Ok(look);
        }
        self.forget(executor, look)?;
        self.record(executor, work, launches)
    }

    pub(super) fn record(
        &self,
        executor: &mut dyn Executor,
        work: WorkFor<'_>,
        launches: u32,
    ) -> Result<Recorded, WorkerError> {
        let sets = self.sets.iter().cycle().take(launches as usize);
        let work: Vec<Work> = sets.flat_map(|set| work(*set)).collect();
        Ok(Recorded { sequence: executor.record(&work)?, launches })
    }

    /// The time of one launch: the mean over a sequence's.
    pub(super) fn sample(
        &self,
        executor: &mut dyn Executor,
        recorded: Recorded,
    ) -> Result<Micros, WorkerError> {
        let elapsed = executor.replay(recorded.sequence, self.flush)?;
        Ok(Micros(elapsed.0 / f64::from(recorded.launches)))
    }

    /// Keeps the device at work for as long as it takes to grow warm, where that is wanted.
    pub(super) fn warm(
        &self,
        executor: &mut dyn Executor,
        recorded: Recorded,
    ) -> Result<(), WorkerError> {
        self.work_for(WARM_UP, executor, recorded)
    }

    /// Keeps the device at this work until its power is that of this work, where that is wanted.
    pub(super) fn load(
        &self,
        executor: &mut dyn Executor,
        recorded: Recorded,
    ) -> Result<(), WorkerError> {
        self.work_for(LOAD, executor, recorded)
    }

    fn work_for(
        &self,
        time: Duration,
        executor: &mut dyn Executor,
        recorded: Recorded,
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
        recorded: Recorded,
    ) -> Result<(), WorkerError> {
        executor.forget(recorded.sequence)
    }
}
