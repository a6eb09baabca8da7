//! The validation of one candidate after another for one problem.

use super::bound::relative_bound;
use super::inputs::{Seeds, Values, uneven_scalars};
use super::launches::{Launches, UniformRun, VERDICT_BYTES, announced};
use super::zone::{POISON, Zone};
use crate::model::{Dtype, Mismatch, Problem, Validation};
use crate::worker::{Executor, OperandAddresses, Scalars, Work, WorkerError};

/// What is validated: the work that computes the product for given operands and factors, and the
/// scratch memory that it may write.
pub struct Subject<'a> {
    /// Gives the work.
    pub work: &'a dyn Fn(OperandAddresses, Scalars) -> Vec<Work>,
    /// Its workspaces.
    pub workspaces: &'a [Zone],
}

/// Operands, references and verdicts of one problem, on one device.
#[derive(Debug)]
pub struct Validator {
    problem: Problem,
    seeds: Seeds,
    launches: Launches,
    small: [Zone; 2],
    uniform: [Zone; 2],
    c: Zone,
    small_sums: Zone,
    uniform_sums: Zone,
    magnitudes: Zone,
    verdicts: Zone,
}

/// Where the verdicts of a validation lie, one after the other.
const SMALL: u64 = 0;
const UNIFORM: u64 = VERDICT_BYTES;
const GUARDS_CHANGED: u64 = 2 * VERDICT_BYTES;
const OPERANDS_CHANGED: u64 = GUARDS_CHANGED + 8;
const VERDICTS_BYTES: u64 = OPERANDS_CHANGED + 8;

#[derive(Debug, Clone, Copy)]
struct Sizes {
    a: u64,
    b: u64,
    c: u64,
}

impl Sizes {
    /// Elements over the whole batch.
    fn of(problem: &Problem) -> Self {
        Self {
            a: problem.a_elements() * problem.batch,
            b: problem.b_elements() * problem.batch,
            c: problem.c_elements() * problem.batch,
        }
    }

    fn zones(self, dtype: Dtype) -> [u64; 9] {
        let element = dtype.bytes();
        let (a, b, c) = (self.a * element, self.b * element, self.c * element);
        [a, b, a, b, c, 4 * self.c, 8 * self.c, 4 * self.c, VERDICTS_BYTES]
    }
}

impl Validator {
    /// Bytes of device memory that validating `problem` takes.
    pub fn footprint(problem: &Problem) -> u64 {
        Sizes::of(problem).zones(problem.dtype).into_iter().map(Zone::footprint).sum()
    }

    /// Loads the device's part (`image`, compiled from [`super::KERNELS`]), makes the operands and
    /// computes the references.
    ///
    /// # Errors
    /// [`WorkerError`], out of memory among them.
    pub fn prepare(
        executor: &mut dyn Executor,
        image: &[u8],
        problem: &Problem,
        seed: u64,
    ) -> Result<Self, WorkerError> {
        let module = executor.load(image, &announced())?.module;
        let mut zones = [Zone { address: 0, bytes: 0 }; 9];
        for (zone, bytes) in zones.iter_mut().zip(Sizes::of(problem).zones(problem.dtype)) {
            *zone = Zone::allocate(executor, bytes)?;
        }
        let [
            small_a,
            small_b,
            uniform_a,
            uniform_b,
            c,
            small_sums,
            uniform_sums,
            magnitudes,
            verdicts,
        ] = zones;
        let validator = Self {
            problem: *problem,
            seeds: Seeds::of(seed),
            launches: Launches { module },
            small: [small_a, small_b],
            uniform: [uniform_a, uniform_b],
            c,
            small_sums,
            uniform_sums,
            magnitudes,
            verdicts,
        };
        validator.refresh(executor)?;
        Ok(validator)
    }

    /// The product's own reference for `uniform` values, for tests that hold it against the host's.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn reference(&self, executor: &mut dyn Executor) -> Result<Vec<f64>, WorkerError> {
        let bytes = executor.read(self.uniform_sums.address, self.uniform_sums.bytes)?;
        let (words, _) = bytes.as_chunks::<8>();
        Ok(words.iter().map(|word| f64::from_le_bytes(*word)).collect())
    }

    /// The words of C that a subject computes from the uniform values with the caller's factors, as
    /// [`HostValidator::result`](super::HostValidator::result) gives them.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn result(
        &self,
        executor: &mut dyn Executor,
        subject: &Subject<'_>,
        scalars: Scalars,
    ) -> Result<Vec<u32>, WorkerError> {
        let run = self.uniform_run();
        let fill = self.launches.fill_values(run.c, run.count, Values::Uniform, run.c_seed);
        let mut work = vec![fill];
        work.extend((subject.work)(self.operands_of(self.uniform), scalars));
        executor.run(&work)?;
        let bytes = executor.read(self.c.address, self.c.bytes)?;
        let (words, _) = bytes.as_chunks::<4>();
        Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// The uniform values of A and B as the host computes them.
    pub fn host_operands(&self) -> [Vec<f64>; 2] {
        let sizes = Sizes::of(&self.problem);
        let values = |count: u64, seed: u64| {
            (0..count).map(|i| Values::Uniform.at(self.problem.dtype, i, seed)).collect()
        };
        let [seed_a, seed_b] = self.seeds.operands();
        [values(sizes.a, seed_a), values(sizes.b, seed_b)]
    }

    /// Gives back all device memory.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn release(self, executor: &mut dyn Executor) -> Result<(), WorkerError> {
        for zone in self.zones() {
            zone.free(executor)?;
        }
        executor.unload(self.launches.module)
    }

    /// Fills elements that are no part of validation, such as the operands of timed launches, with
    /// uniform values.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn fill_uniform(
        &self,
        executor: &mut dyn Executor,
        address: u64,
        count: u64,
    ) -> Result<(), WorkerError> {
        let seed = self.seeds.timed();
        executor.run(&[self.launches.fill_values(address, count, Values::Uniform, seed)])
    }

    /// Makes operands, guards and references anew: a wrong kernel may have written anywhere.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn refresh(&self, executor: &mut dyn Executor) -> Result<(), WorkerError> {
        let mut work = Vec::new();
        for (zone, values, seed) in self.inputs() {
            work.push(self.launches.fill_values(zone.address, zone.bytes / 4, values, seed));
        }
        for zone in self.zones() {
            for (address, words) in zone.guards() {
                work.push(self.launches.fill_words(address, words, POISON));
            }
        }
        let [small_a, small_b] = self.small.map(|zone| zone.address);
        let [a, b] = self.uniform.map(|zone| zone.address);
        let problem = &self.problem;
        work.push(self.launches.reference_small(
            problem,
            small_a,
            small_b,
            self.small_sums.address,
        ));
        work.push(self.launches.reference_uniform(
            problem,
            a,
            b,
            self.uniform_sums.address,
            self.magnitudes.address,
        ));
        executor.run(&work)
    }

    /// Runs the subject twice and judges it: on small values with alpha = 1, beta = 0 and C full
    /// of NaN, where every bit must be right; on uniform values with other factors, within the
    /// bound. Guard zones and operands must be as they were.
    ///
    /// # Errors
    /// [`WorkerError`] where the subject faults or hangs; a wrong result is `Ok(Err(...))`.
    pub fn validate(
        &self,
        executor: &mut dyn Executor,
        subject: &Subject<'_>,
    ) -> Result<Result<Validation, Mismatch>, WorkerError> {
        let bound = relative_bound(&self.problem);
        executor.run(&self.work(subject, bound))?;
        let verdicts = Verdicts::from_bytes(&executor.read(self.verdicts.address, VERDICTS_BYTES)?);
        if let Some(mismatch) = self.mismatch(&verdicts, bound) {
            self.refresh(executor)?;
            return Ok(Err(mismatch));
        }
        let reference = match self.problem.dtype {
            Dtype::I32 => "exact integers on the device",
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 => "f64 on the device",
        };
        Ok(Ok(Validation {
            reference: reference.to_owned(),
            max_error: f64::from_bits(verdicts.uniform.worst),
            bound,
        }))
    }

    /// Runs a subject that was just validated once more on the uniform values: whatever it computes, every bit
    /// must be the same, without what the first run left in its workspaces.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn repeat(
        &self,
        executor: &mut dyn Executor,
        subject: &Subject<'_>,
    ) -> Result<Result<(), Mismatch>, WorkerError> {
        let second = Zone::allocate(executor, self.c.bytes)?;
        let run = self.uniform_run();
        let different = self.verdicts.address;
        let c = second.address;
        let mut work = vec![self.launches.fill_words(different, 2, 0)];
        // A run that reads parts before they are there would find those of the run before, on the same values.
        work.extend(self.poisoned(subject.workspaces));
        work.push(self.launches.fill_values(c, run.count, Values::Uniform, run.c_seed));
        let operands = OperandAddresses { c, ..self.operands_of(self.uniform) };
        work.extend((subject.work)(operands, run.scalars));
        let both = [self.c.address, c];
        work.push(self.launches.count_different_words(both, self.c.bytes / 4, different));
        executor.run(&work)?;
        let bytes = executor.read(different, 8)?;
        second.free(executor)?;
        let differing = bytes.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
        Ok(match differing {
            0 => Ok(()),
            _ => Err(Mismatch {
                check: format!("two runs on the same values differ in {differing} words: a race"),
                at: None,
                got: 0.0,
                expected: 0.0,
                error: differing as f64,
                bound: 0.0,
                wrong: differing,
            }),
        })
    }

    /// Both runs and all that is looked at, as one piece of work.
    fn work(&self, subject: &Subject<'_>, bound: f64) -> Vec<Work> {
        let launches = self.launches;
        let verdict = |offset: u64| self.verdicts.address + offset;
        let elements = Sizes::of(&self.problem).c;
        let mut work = vec![launches.fill_words(self.verdicts.address, VERDICTS_BYTES / 4, 0)];
        for run in [SMALL, UNIFORM] {
            // The first index is found as a minimum, so it begins as large as can be.
            work.push(launches.fill_words(verdict(run + 16), 2, u32::MAX));
        }
        // What an earlier candidate left there must not look like a result.
        work.extend(self.poisoned(subject.workspaces));

        work.push(launches.fill_words(self.c.address, self.c.bytes / 4, POISON));
        work.extend((subject.work)(self.operands_of(self.small), Scalars::PLAIN));
        let sums = self.small_sums.address;
        work.extend(launches.compare_small(self.c.address, sums, elements, verdict(SMALL)));

        let run = self.uniform_run();
        work.push(launches.fill_values(run.c, run.count, Values::Uniform, run.c_seed));
        work.extend((subject.work)(self.operands_of(self.uniform), run.scalars));
        work.extend(launches.compare_uniform(&run, bound as f32, verdict(UNIFORM)));

        for zone in self.zones().iter().chain(subject.workspaces) {
            for (address, words) in zone.guards() {
                let changed = verdict(GUARDS_CHANGED);
                work.push(launches.count_changed_words(address, words, POISON, changed));
            }
        }
        for (zone, values, seed) in self.inputs() {
            let (count, changed) = (zone.bytes / 4, verdict(OPERANDS_CHANGED));
            work.push(launches.count_changed_values(zone.address, count, values, seed, changed));
        }
        work
    }

    fn poisoned(&self, workspaces: &[Zone]) -> impl Iterator<Item = Work> {
        let fill = |zone: &Zone| self.launches.fill_words(zone.address, zone.bytes / 4, POISON);
        workspaces.iter().map(fill)
    }

    fn mismatch(&self, verdicts: &Verdicts, bound: f64) -> Option<Mismatch> {
        let Scalars { alpha, beta } = self.uniform_run().scalars;
        let runs = [
            (&verdicts.small, "small integers, alpha = 1, beta = 0".to_owned(), 0.0),
            (&verdicts.uniform, format!("uniform values, alpha = {alpha}, beta = {beta}"), bound),
        ];
        for (verdict, check, bound) in runs {
            if verdict.wrong > 0 {
                return Some(Mismatch {
                    check,
                    at: Some(self.position(verdict.at)),
                    got: verdict.got,
                    expected: verdict.expected,
                    error: f64::from_bits(verdict.worst),
                    bound,
                    wrong: verdict.wrong,
                });
            }
        }
        let damages = [
            (verdicts.guards_changed, "words beside a buffer were overwritten"),
            (verdicts.operands_changed, "elements of A or B were overwritten"),
        ];
        damages.into_iter().find(|(changed, _)| *changed > 0).map(|(changed, what)| Mismatch {
            check: format!("{changed} {what}"),
            at: None,
            got: 0.0,
            expected: 0.0,
            error: changed as f64,
            bound: 0.0,
            wrong: changed,
        })
    }

    /// Product, row and column of an element of C.
    fn position(&self, at: u64) -> [u64; 3] {
        let (m, n) = (self.problem.shape.m, self.problem.shape.n);
        [at / (m * n), at / n % m, at % n]
    }

    fn operands_of(&self, [a, b]: [Zone; 2]) -> OperandAddresses {
        OperandAddresses { a: a.address, b: b.address, c: self.c.address }
    }

    /// The operands that a kernel must leave alone, and what they hold.
    fn inputs(&self) -> [(Zone, Values, u64); 4] {
        let [seed_a, seed_b] = self.seeds.operands();
        [
            (self.small[0], Values::Small, seed_a),
            (self.small[1], Values::Small, seed_b),
            (self.uniform[0], Values::Uniform, seed_a),
            (self.uniform[1], Values::Uniform, seed_b),
        ]
    }

    fn zones(&self) -> [Zone; 9] {
        let ([small_a, small_b], [uniform_a, uniform_b]) = (self.small, self.uniform);
        [
            small_a,
            small_b,
            uniform_a,
            uniform_b,
            self.c,
            self.small_sums,
            self.uniform_sums,
            self.magnitudes,
            self.verdicts,
        ]
    }

    fn uniform_run(&self) -> UniformRun {
        UniformRun {
            c: self.c.address,
            sums: self.uniform_sums.address,
            magnitudes: self.magnitudes.address,
            count: Sizes::of(&self.problem).c,
            scalars: uneven_scalars(self.problem.dtype),
            c_seed: self.seeds.c(),
            dtype: self.problem.dtype,
        }
    }
}

/// What a validation read back; `kernels.cu` has the layout.
struct Verdicts {
    small: Verdict,
    uniform: Verdict,
    guards_changed: u64,
    operands_changed: u64,
}

struct Verdict {
    wrong: u64,
    worst: u64,
    at: u64,
    got: f64,
    expected: f64,
}

impl Verdicts {
    fn from_bytes(bytes: &[u8]) -> Self {
        let word = |at: u64| {
            let bytes = bytes.get(at as usize..).and_then(|rest| rest.first_chunk::<8>());
            bytes.map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
        };
        let verdict = |at: u64| Verdict {
            wrong: word(at),
            worst: word(at + 8),
            at: word(at + 16),
            got: f64::from_bits(word(at + 24)),
            expected: f64::from_bits(word(at + 32)),
        };
        Self {
            small: verdict(SMALL),
            uniform: verdict(UNIFORM),
            guards_changed: word(GUARDS_CHANGED),
            operands_changed: word(OPERANDS_CHANGED),
        }
    }
}
