//! Validation of candidates on a GPU, for one problem.

use super::guarded_buffer::{GuardedBuffer, POISON};
use super::inputs::{OperandLines, Seeds, ValueKind};
use super::kernels::{FilledOperand, MatrixOperand, ValidationKernels, kernel_setups};
use super::parts::ReferenceRows;
use super::readback::{ValidationReadback, readback_bytes};
use super::region::{Operand, OperandValues};
use crate::arithmetic::{error_bound, error_bound_of_small_integers};
use crate::model::{Dtype, EpilogueOp, Mismatch, Problem, Validation};
use crate::worker::{
    EpilogueAddresses, Executor, OperandAddresses, Scalars, WorkItem, WorkerError,
};

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
    pub(super) problem: Problem,
    pub(super) seeds: Seeds,
    pub(super) launches: ValidationKernels,
    /// Memory that it may use, in bytes.
    memory: u64,
    pub(super) rows: ReferenceRows,
    pub(super) a: GuardedBuffer,
    pub(super) b: GuardedBuffer,
    pub(super) c: GuardedBuffer,
    /// Operands of the epilogue, in its order.
    pub(super) epilogue: Vec<(EpilogueOp, GuardedBuffer)>,
    /// Results, then references.
    pub(super) references: GuardedBuffer,
}

impl Validator {
    /// Device memory in bytes for validating `problem` with all references in memory, and for
    /// repeated runs.
    pub fn footprint(problem: &Problem) -> u64 {
        ReferenceRows::comfortable(problem)
    }

    /// Least device memory in bytes for validating `problem`: references in parts.
    pub fn least(problem: &Problem) -> u64 {
        ReferenceRows::fewest(problem).footprint(problem)
    }

    /// Loads the validation kernels (`image`, compiled from [`super::KERNELS`]), creates the
    /// operands and computes the references. With less than [`Self::footprint`] bytes of `memory`,
    /// references are computed in parts during each validation.
    ///
    /// # Errors
    /// [`WorkerError`], out of memory among them.
    pub fn prepare(
        executor: &mut dyn Executor,
        image: &[u8],
        problem: &Problem,
        seed: u64,
        memory: u64,
    ) -> Result<Self, WorkerError> {
        let module = executor.load(image, &kernel_setups())?.module;
        let mut validator = Self {
            problem: *problem,
            seeds: Seeds::of(seed),
            launches: ValidationKernels { module },
            memory,
            rows: ReferenceRows::within(problem, memory),
            a: GuardedBuffer::NONE,
            b: GuardedBuffer::NONE,
            c: GuardedBuffer::NONE,
            epilogue: Vec::new(),
            references: GuardedBuffer::NONE,
        };
        match validator.allocate(executor).and_then(|()| validator.refresh(executor)) {
            Ok(()) => Ok(validator),
            Err(error) if error.ends_worker() => Err(error),
            Err(error) => validator.release(executor).and(Err(error)),
        }
    }

    /// Switches to another problem of the same GEMM type and epilogue or to other values. Its memory replaces the
    /// present one; after an error only another switch or a release is allowed.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn switch(
        &mut self,
        executor: &mut dyn Executor,
        problem: &Problem,
        seed: u64,
    ) -> Result<(), WorkerError> {
        let seeds = Seeds::of(seed);
        let is_there = self.buffers().iter().all(|buffer| *buffer != GuardedBuffer::NONE);
        if is_there && (self.problem, self.seeds) == (*problem, seeds) {
            return Ok(());
        }
        let is_same = is_there && self.problem == *problem;
        (self.problem, self.seeds) = (*problem, seeds);
        if !is_same {
            self.free(executor)?;
            self.rows = ReferenceRows::within(problem, self.memory);
            self.allocate(executor)?;
        }
        match self.refresh(executor) {
            Err(error) if !error.ends_worker() => self.free(executor).and(Err(error)),
            refreshed => refreshed,
        }
    }

    fn allocate(&mut self, executor: &mut dyn Executor) -> Result<(), WorkerError> {
        let [a, b, c] = self.problem.operand_bytes();
        self.a = GuardedBuffer::allocate(executor, a)?;
        self.b = GuardedBuffer::allocate(executor, b)?;
        self.c = GuardedBuffer::allocate(executor, c)?;
        self.references = GuardedBuffer::allocate(executor, self.rows.bytes(&self.problem))?;
        for (operation, bytes) in self.problem.epilogue_bytes() {
            self.epilogue.push((operation, GuardedBuffer::allocate(executor, bytes)?));
        }
        Ok(())
    }

    fn free(&mut self, executor: &mut dyn Executor) -> Result<(), WorkerError> {
        for buffer in [&mut self.a, &mut self.b, &mut self.c, &mut self.references] {
            std::mem::replace(buffer, GuardedBuffer::NONE).free(executor)?;
        }
        for (_, buffer) in std::mem::take(&mut self.epilogue) {
            buffer.free(executor)?;
        }
        Ok(())
    }

    /// Whether references are computed in parts, during each validation.
    pub fn is_in_parts(&self) -> bool {
        !self.rows.are_all(&self.problem)
    }

    /// The operands. They have uniform values, and C those of the last run, except during a
    /// validation.
    pub fn operands(&self) -> OperandAddresses {
        let mut epilogue = EpilogueAddresses::default();
        for (operation, buffer) in &self.epilogue {
            epilogue.set(*operation, buffer.address);
        }
        OperandAddresses { a: self.a.address, b: self.b.address, c: self.c.address, epilogue }
    }

    /// Reads the device's reference for mixed values, for tests that compare it with the host's.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn reference(&self, executor: &mut dyn Executor) -> Result<Vec<f64>, WorkerError> {
        let mut sums = Vec::new();
        executor.run(&self.factors_filled(ValueKind::Mixed))?;
        for part in self.rows.parts(&self.problem) {
            executor.run(&[self.reference_of(&part, ValueKind::Mixed)])?;
            let [start, _] = self.mixed_reference();
            let bytes = executor.read(start, 8 * part.elements(&self.problem))?;
            let (words, _) = bytes.as_chunks::<8>();
            sums.extend(words.iter().map(|word| f64::from_le_bytes(*word)));
        }
        executor.run(&self.factors_filled(ValueKind::Uniform))?;
        Ok(sums)
    }

    /// Returns the bits of the elements of C that a subject computes from mixed values with the given
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
        let mut work = vec![self.old_c(self.c)];
        work.extend(self.factors_filled(ValueKind::Mixed));
        work.extend((subject.work)(self.operands(), scalars));
        work.extend(self.factors_filled(ValueKind::Uniform));
        executor.run(&work)?;
        let bytes = executor.read(self.c.address, self.c.bytes)?;
        let element =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
        Ok(bytes.chunks_exact(self.problem.types.d.bytes() as usize).map(element).collect())
    }

    /// Computes the mixed values of A and B on the host.
    pub fn host_operands(&self) -> [Vec<f64>; 2] {
        let problem = &self.problem;
        let source = OperandValues { values: ValueKind::Mixed, seeds: self.seeds.operands() };
        let values = |operand, elements: u64| {
            (0..elements * problem.batch).map(|at| source.at(problem, operand, at)).collect()
        };
        [values(Operand::A, problem.a_elements()), values(Operand::B, problem.b_elements())]
    }

    /// Frees all device memory.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn release(mut self, executor: &mut dyn Executor) -> Result<(), WorkerError> {
        self.free(executor)?;
        executor.unload(self.launches.module)
    }

    /// Fills the operands of timed launches with uniform values: A and B of one dtype, and a C that is not read.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn fill_uniform(
        &self,
        executor: &mut dyn Executor,
        address: u64,
        bytes: u64,
    ) -> Result<(), WorkerError> {
        let count = bytes / self.problem.types.a.bytes();
        let [lines, _] = OperandLines::of(&self.problem);
        let (operand, seed) = (MatrixOperand::A(lines), self.seeds.timed());
        let filled = FilledOperand { operand, address, count, seed };
        executor.run(&[self.launches.fill_values(&filled, ValueKind::Uniform)])
    }

    /// Recreates operands, guard bytes and references: a wrong kernel may have written anywhere.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn refresh(&self, executor: &mut dyn Executor) -> Result<(), WorkerError> {
        let mut work = Vec::new();
        for buffer in self.buffers() {
            for (address, words) in buffer.guards() {
                work.push(self.launches.fill_words(address, words, POISON));
            }
        }
        for values in [ValueKind::Small, ValueKind::Mixed] {
            work.extend(self.filled(values));
            if !self.is_in_parts() {
                let parts = self.rows.parts(&self.problem);
                work.extend(parts.iter().map(|part| self.reference_of(part, values)));
            }
        }
        work.extend(self.factors_filled(ValueKind::Uniform));
        executor.run(&work)
    }

    /// Runs the subject twice and checks it: on small values with alpha = 1, beta = 0 and C full of
    /// NaN, where every bit must match; on mixed values with other factors, within the bound.
    /// Guard bytes and operands must be unchanged.
    ///
    /// # Errors
    /// [`WorkerError`] when the subject faults or hangs; a wrong result is `Ok(Err(...))`.
    pub fn validate(
        &self,
        executor: &mut dyn Executor,
        subject: &ValidationSubject<'_>,
    ) -> Result<Result<Validation, Mismatch>, WorkerError> {
        let bound = error_bound(&self.problem);
        executor.run(&self.work(subject, bound))?;
        let parts = self.rows.parts(&self.problem);
        let bytes = executor.read(self.references.address, readback_bytes(parts.len()))?;
        let results = ValidationReadback::from_bytes(&bytes, &self.problem, &parts);
        if let Some(mismatch) = self.mismatch(&results, bound) {
            self.refresh(executor)?;
            return Ok(Err(mismatch));
        }
        let reference = match self.problem.types.accumulator() {
            Dtype::I32 => "exact integers on the device",
            _ => "f64 on the device",
        };
        Ok(Ok(Validation {
            reference: reference.to_owned(),
            max_error: f64::from_bits(results.mixed.worst),
            bound,
        }))
    }

    /// Repeats a just validated subject on the mixed values: every bit must be the same, with
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
        let different = self.references.address;
        let c = second.address;
        let mut work = vec![self.launches.fill_words(different, 2, 0)];
        // Without poison, a run that reads partial results too early would find those of the
        // previous run.
        work.extend(self.poisoned(subject.workspaces));
        work.push(self.old_c(second));
        work.extend(self.factors_filled(ValueKind::Mixed));
        let operands = OperandAddresses { c, ..self.operands() };
        work.extend((subject.work)(operands, self.uneven_scalars()));
        work.extend(self.factors_filled(ValueKind::Uniform));
        let both = [self.c.address, c];
        work.push(self.launches.count_different_words(both, self.c.words(), different));
        let bytes = executor.run(&work).and_then(|()| executor.read(different, 8));
        if !bytes.as_ref().is_err_and(WorkerError::ends_worker) {
            second.free(executor)?;
        }
        let bytes = bytes?;
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

    fn mismatch(&self, results: &ValidationReadback, bound: f64) -> Option<Mismatch> {
        let Scalars { alpha, beta } = self.uneven_scalars();
        let runs = [
            (
                &results.small,
                "small integers, alpha = 1, beta = 0".to_owned(),
                error_bound_of_small_integers(&self.problem),
            ),
            (
                &results.mixed,
                format!("values of mixed kinds, alpha = {alpha}, beta = {beta}"),
                bound,
            ),
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
}
