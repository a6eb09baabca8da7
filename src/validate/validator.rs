//! Validation of candidates on a GPU, for one problem.

use super::bound::relative_bound;
use super::guarded_buffer::{GuardedBuffer, POISON};
use super::inputs::{Seeds, ValueKind, uneven_scalars};
use super::kernels::{UniformRun, ValidationKernels, kernel_setups};
use super::readback::{
    GUARDS_CHANGED, OPERANDS_CHANGED, READBACK_BYTES, SMALL, UNIFORM, ValidationReadback,
};
use crate::model::{Dtype, Mismatch, Problem, Validation};
use crate::worker::{Executor, OperandAddresses, Scalars, WorkItem, WorkerError};

/// The computation to validate: the work for given operands and factors, and its workspaces.
pub struct ValidationSubject<'a> {
    /// Creates the work.
    pub work: &'a dyn Fn(OperandAddresses, Scalars) -> Vec<WorkItem>,
    /// Its workspaces.
    pub workspaces: &'a [GuardedBuffer],
}

/// Operands, references and results of one problem on one device.
#[derive(Debug)]
pub struct Validator {
    problem: Problem,
    seeds: Seeds,
    launches: ValidationKernels,
    small: [GuardedBuffer; 2],
    uniform: [GuardedBuffer; 2],
    c: GuardedBuffer,
    small_sums: GuardedBuffer,
    uniform_sums: GuardedBuffer,
    magnitudes: GuardedBuffer,
    results: GuardedBuffer,
}

#[derive(Debug, Clone, Copy)]
struct ElementCounts {
    a: u64,
    b: u64,
    c: u64,
}

impl ElementCounts {
    /// Number of elements over the whole batch.
    fn of(problem: &Problem) -> Self {
        Self {
            a: problem.a_elements() * problem.batch,
            b: problem.b_elements() * problem.batch,
            c: problem.c_elements() * problem.batch,
        }
    }

    fn buffers(self, dtype: Dtype) -> [u64; 9] {
        let element = dtype.bytes();
        let (a, b, c) = (self.a * element, self.b * element, self.c * element);
        [a, b, a, b, c, 4 * self.c, 8 * self.c, 4 * self.c, READBACK_BYTES]
    }
}

impl Validator {
    /// Device memory in bytes for validating `problem`.
    pub fn footprint(problem: &Problem) -> u64 {
        ElementCounts::of(problem)
            .buffers(problem.dtype)
            .into_iter()
            .map(GuardedBuffer::footprint)
            .sum()
    }

    /// Loads the validation kernels (`image`, compiled from [`super::KERNELS`]), creates the
    /// operands and computes the references.
    ///
    /// # Errors
    /// [`WorkerError`], out of memory among them.
    pub fn prepare(
        executor: &mut dyn Executor,
        image: &[u8],
        problem: &Problem,
        seed: u64,
    ) -> Result<Self, WorkerError> {
        let module = executor.load(image, &kernel_setups())?.module;
        let mut buffers = [GuardedBuffer { address: 0, bytes: 0 }; 9];
        for (buffer, bytes) in
            buffers.iter_mut().zip(ElementCounts::of(problem).buffers(problem.dtype))
        {
            *buffer = GuardedBuffer::allocate(executor, bytes)?;
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
            results,
        ] = buffers;
        let validator = Self {
            problem: *problem,
            seeds: Seeds::of(seed),
            launches: ValidationKernels { module },
            small: [small_a, small_b],
            uniform: [uniform_a, uniform_b],
            c,
            small_sums,
            uniform_sums,
            magnitudes,
            results,
        };
        validator.refresh(executor)?;
        Ok(validator)
    }

    /// Reads the device's reference for uniform values, for tests that compare it with the host's.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn reference(&self, executor: &mut dyn Executor) -> Result<Vec<f64>, WorkerError> {
        let bytes = executor.read(self.uniform_sums.address, self.uniform_sums.bytes)?;
        let (words, _) = bytes.as_chunks::<8>();
        Ok(words.iter().map(|word| f64::from_le_bytes(*word)).collect())
    }

    /// Returns the words of C that a subject computes from the uniform values with the given
    /// factors, as [`HostValidator::result`](super::HostValidator::result) does.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn result(
        &self,
        executor: &mut dyn Executor,
        subject: &ValidationSubject<'_>,
        scalars: Scalars,
    ) -> Result<Vec<u32>, WorkerError> {
        let run = self.uniform_run();
        let fill = self.launches.fill_values(run.c, run.count, ValueKind::Uniform, run.c_seed);
        let mut work = vec![fill];
        work.extend((subject.work)(self.operands_of(self.uniform), scalars));
        executor.run(&work)?;
        let bytes = executor.read(self.c.address, self.c.bytes)?;
        let (words, _) = bytes.as_chunks::<4>();
        Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// Computes the uniform values of A and B on the host.
    pub fn host_operands(&self) -> [Vec<f64>; 2] {
        let sizes = ElementCounts::of(&self.problem);
        let values = |count: u64, seed: u64| {
            (0..count).map(|i| ValueKind::Uniform.at(self.problem.dtype, i, seed)).collect()
        };
        let [seed_a, seed_b] = self.seeds.operands();
        [values(sizes.a, seed_a), values(sizes.b, seed_b)]
    }

    /// Frees all device memory.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn release(self, executor: &mut dyn Executor) -> Result<(), WorkerError> {
        for buffer in self.buffers() {
            buffer.free(executor)?;
        }
        executor.unload(self.launches.module)
    }

    /// Fills other memory, such as the operands of timed launches, with uniform values.
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
        executor.run(&[self.launches.fill_values(address, count, ValueKind::Uniform, seed)])
    }

    /// Recreates operands, guard bytes and references: a wrong kernel may have written anywhere.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn refresh(&self, executor: &mut dyn Executor) -> Result<(), WorkerError> {
        let mut work = Vec::new();
        for (buffer, values, seed) in self.inputs() {
            work.push(self.launches.fill_values(buffer.address, buffer.bytes / 4, values, seed));
        }
        for buffer in self.buffers() {
            for (address, words) in buffer.guards() {
                work.push(self.launches.fill_words(address, words, POISON));
            }
        }
        let [small_a, small_b] = self.small.map(|buffer| buffer.address);
        let [a, b] = self.uniform.map(|buffer| buffer.address);
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

    /// Runs the subject twice and checks it: on small values with alpha = 1, beta = 0 and C full of
    /// NaN, where every bit must match; on uniform values with other factors, within the bound.
    /// Guard bytes and operands must be unchanged.
    ///
    /// # Errors
    /// [`WorkerError`] when the subject faults or hangs; a wrong result is `Ok(Err(...))`.
    pub fn validate(
        &self,
        executor: &mut dyn Executor,
        subject: &ValidationSubject<'_>,
    ) -> Result<Result<Validation, Mismatch>, WorkerError> {
        let bound = relative_bound(&self.problem);
        executor.run(&self.work(subject, bound))?;
        let results =
            ValidationReadback::from_bytes(&executor.read(self.results.address, READBACK_BYTES)?);
        if let Some(mismatch) = self.mismatch(&results, bound) {
            self.refresh(executor)?;
            return Ok(Err(mismatch));
        }
        let reference = match self.problem.dtype {
            Dtype::I32 => "exact integers on the device",
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 => "f64 on the device",
        };
        Ok(Ok(Validation {
            reference: reference.to_owned(),
            max_error: f64::from_bits(results.uniform.worst),
            bound,
        }))
    }

    /// Repeats a just validated subject on the uniform values: every bit must be the same, with
    /// freshly poisoned workspaces.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn repeat(
        &self,
        executor: &mut dyn Executor,
        subject: &ValidationSubject<'_>,
    ) -> Result<Result<(), Mismatch>, WorkerError> {
        let second = GuardedBuffer::allocate(executor, self.c.bytes)?;
        let run = self.uniform_run();
        let different = self.results.address;
        let c = second.address;
        let mut work = vec![self.launches.fill_words(different, 2, 0)];
        // Without poison, a run that reads partial results too early would find those of the
        // previous run.
        work.extend(self.poisoned(subject.workspaces));
        work.push(self.launches.fill_values(c, run.count, ValueKind::Uniform, run.c_seed));
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

    /// Creates both runs and all comparisons, as one sequence of work.
    fn work(&self, subject: &ValidationSubject<'_>, bound: f64) -> Vec<WorkItem> {
        let launches = self.launches;
        let result = |offset: u64| self.results.address + offset;
        let elements = ElementCounts::of(&self.problem).c;
        let mut work = vec![launches.fill_words(self.results.address, READBACK_BYTES / 4, 0)];
        for run in [SMALL, UNIFORM] {
            // The first index is found as a minimum, so it starts at the maximum.
            work.push(launches.fill_words(result(run + 16), 2, u32::MAX));
        }
        // Data of an earlier candidate must not look like a result.
        work.extend(self.poisoned(subject.workspaces));

        work.push(launches.fill_words(self.c.address, self.c.bytes / 4, POISON));
        work.extend((subject.work)(self.operands_of(self.small), Scalars::PLAIN));
        let sums = self.small_sums.address;
        work.extend(launches.compare_small(self.c.address, sums, elements, result(SMALL)));

        let run = self.uniform_run();
        work.push(launches.fill_values(run.c, run.count, ValueKind::Uniform, run.c_seed));
        work.extend((subject.work)(self.operands_of(self.uniform), run.scalars));
        work.extend(launches.compare_uniform(&run, bound as f32, result(UNIFORM)));

        for buffer in self.buffers().iter().chain(subject.workspaces) {
            for (address, words) in buffer.guards() {
                let changed = result(GUARDS_CHANGED);
                work.push(launches.count_changed_words(address, words, POISON, changed));
            }
        }
        for (buffer, values, seed) in self.inputs() {
            let (count, changed) = (buffer.bytes / 4, result(OPERANDS_CHANGED));
            work.push(launches.count_changed_values(buffer.address, count, values, seed, changed));
        }
        work
    }

    fn poisoned(&self, workspaces: &[GuardedBuffer]) -> impl Iterator<Item = WorkItem> {
        let fill = |buffer: &GuardedBuffer| {
            self.launches.fill_words(buffer.address, buffer.bytes / 4, POISON)
        };
        workspaces.iter().map(fill)
    }

    fn mismatch(&self, results: &ValidationReadback, bound: f64) -> Option<Mismatch> {
        let Scalars { alpha, beta } = self.uniform_run().scalars;
        let runs = [
            (&results.small, "small integers, alpha = 1, beta = 0".to_owned(), 0.0),
            (&results.uniform, format!("uniform values, alpha = {alpha}, beta = {beta}"), bound),
        ];
        for (result, check, bound) in runs {
            if result.wrong > 0 {
                return Some(Mismatch {
                    check,
                    at: Some(self.position(result.at)),
                    got: result.got,
                    expected: result.expected,
                    error: f64::from_bits(result.worst),
                    bound,
                    wrong: result.wrong,
                });
            }
        }
        let damages = [
            (results.guards_changed, "words beside a buffer were overwritten"),
            (results.operands_changed, "elements of A or B were overwritten"),
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

    fn operands_of(&self, [a, b]: [GuardedBuffer; 2]) -> OperandAddresses {
        OperandAddresses { a: a.address, b: b.address, c: self.c.address }
    }

    /// The operands that a kernel must not change, with their values.
    fn inputs(&self) -> [(GuardedBuffer, ValueKind, u64); 4] {
        let [seed_a, seed_b] = self.seeds.operands();
        [
            (self.small[0], ValueKind::Small, seed_a),
            (self.small[1], ValueKind::Small, seed_b),
            (self.uniform[0], ValueKind::Uniform, seed_a),
            (self.uniform[1], ValueKind::Uniform, seed_b),
        ]
    }

    fn buffers(&self) -> [GuardedBuffer; 9] {
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
            self.results,
        ]
    }

    fn uniform_run(&self) -> UniformRun {
        UniformRun {
            c: self.c.address,
            sums: self.uniform_sums.address,
            magnitudes: self.magnitudes.address,
            count: ElementCounts::of(&self.problem).c,
            scalars: uneven_scalars(self.problem.dtype),
            c_seed: self.seeds.c(),
            dtype: self.problem.dtype,
        }
    }
}
