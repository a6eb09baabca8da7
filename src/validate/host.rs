//! Validation of candidates on the `cpu` device, for one problem.
//!
//! As with [`Validator`](super::Validator) on a GPU, each candidate runs on small integers and on mixed values. Rows may
//! be apart, as a [`Storage`] says: what lies between them must neither be read nor written. The device checks every access
//! in place of guard bytes and poison: A and B are read-only, and C counts as unwritten. The reference is computed only for
//! the written elements, so that a subset of the blocks of a large problem can be executed.

mod checks;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use thiserror::Error;

use super::element::bits_of;
use super::guarded_buffer::POISON;
use super::host_launches::execute_all;
use super::inputs::{Seeds, ValueKind};
use super::matrix::{Matrix, PitchedRows};
use super::references::References;
use super::region::{Operand, OperandValues, Region};
use super::run::ValidationRun;
use super::sample::{self, BlockCoverage};
use crate::cpu::{
    BlockSelection, CountingMode, Counts, ExecutionChecks, GlobalMemory, LaunchError,
    LaunchOptions, MemoryError, PtxModule, WriteTracking,
};
use crate::model::launch::WORKSPACE_ALIGNMENT;
use crate::model::{
    Argument, Device, Dtype, EpilogueOp, GemmType, KernelLaunch, LaunchPlan, Mismatch, Problem,
    Shape, Storage, Validation,
};
use crate::worker::{EpilogueAddresses, LaunchCommand, OperandAddresses, Scalars, bind_stored};

/// Operands of one problem in the memory of the `cpu` device.
#[derive(Debug)]
pub struct HostValidator {
    problem: Problem,
    storage: Storage,
    seeds: Seeds,
    memory: GlobalMemory,
    small: OperandAddresses,
    mixed: OperandAddresses,
    references: References,
    /// Maximum shared memory of a block in bytes.
    shared_limit: u64,
    /// Ends an execution once set.
    interrupted: Option<Arc<AtomicBool>>,
}

/// A candidate that was executed and passed.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutedCandidate {
    /// Accuracy of the result.
    pub validation: Validation,
    /// Blocks that were executed.
    pub coverage: BlockCoverage,
    /// Counts of each launch of the plan, for the executed blocks; empty unless counting was on.
    pub counts: Vec<Counts>,
}

/// Reason that a candidate failed or was not executed.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum HostFailure {
    /// It violated a check, or cannot be launched.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Its results are wrong.
    #[error("{0}")]
    Wrong(Box<Mismatch>),
    /// The host has too little memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// This device does not support the plan.
    #[error("{0}")]
    Unsupported(String),
}

/// Memory of one candidate.
struct Scratch {
    memory: GlobalMemory,
    c: u64,
    workspaces: Vec<u64>,
}

/// The part of a plan to execute.
struct PlanPart {
    /// Whether the kernels before the last one run, with all blocks: they pack operands.
    preparation: bool,
    /// BlockSelection of the last kernel.
    blocks: BlockSelection,
}

impl HostValidator {
    /// Host memory in bytes for validating `problem`, without workspaces and references: two sets
    /// of A and B and a C, a bit for each of these bytes, a flag per
    /// element of C.
    pub fn footprint(problem: &Problem) -> u64 {
        let [a, b, c] = problem.operand_bytes();
        let of_epilogue: u64 = problem.epilogue_bytes().map(|(_, bytes)| bytes).sum();
        (2 * (a + b + of_epilogue) + c) * 9 / 8 + problem.c_elements() * problem.batch
    }

    /// Creates packed operands. Candidates have the limits of `device`.
    ///
    /// # Errors
    /// [`HostFailure`] when the host has too little memory.
    pub fn prepare(problem: &Problem, device: &Device, seed: u64) -> Result<Self, HostFailure> {
        Self::prepare_stored(problem, &Storage::packed(problem), device, seed)
    }

    /// Creates operands that are stored as given: rows are apart, and addresses aligned as said and no more. Plans are
    /// to be of the same storage.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn prepare_stored(
        problem: &Problem,
        storage: &Storage,
        device: &Device,
        seed: u64,
    ) -> Result<Self, HostFailure> {
        let seeds = Seeds::of(seed);
        let mut memory = GlobalMemory::new(WriteTracking::Written);
        type Values<'a> = &'a (dyn Fn(u64) -> f64 + Sync);
        let mut operand = |name: &str, rows: PitchedRows, dtype: Dtype, value: Values<'_>| {
            let bytes = dtype.bytes();
            let offset = offset_of(storage, dtype);
            let base = memory.allocate(offset + rows.span() * bytes)?;
            memory.name(base, name)?;
            let matrix = Matrix { address: base + offset, bytes: bytes as u32, rows };
            matrix.fill(&memory, |at| bits_of(dtype, value(at)))?;
            memory.protect(base)?;
            Ok::<u64, MemoryError>(matrix.address)
        };
        let GemmType { a, b, .. } = problem.types;
        let [rows_of_a, rows_of_b, rows_of_c] = rows_of(problem, storage);
        let mut all = |values: ValueKind| {
            let source = OperandValues { values, seeds: seeds.operands() };
            let mut epilogue = EpilogueAddresses::default();
            for operation in problem.epilogue.operands() {
                let rows = match operation {
                    // As D is stored.
                    EpilogueOp::Residual | EpilogueOp::Mul => rows_of_c,
                    _ => {
                        let count = problem.epilogue_elements(operation).unwrap_or(0);
                        PitchedRows::new(1, count, count)
                    }
                };
                let dtype = operation.operand_dtype(problem.types);
                let seed = seeds.epilogue_operand(operation);
                let value = |at| values.beside().at(dtype, at, seed);
                epilogue.set(operation, operand(operation.name(), rows, dtype, &value)?);
            }
            let value = |at| source.at(problem, Operand::A, at);
            let a = operand("A", rows_of_a, a, &value)?;
            let value = |at| source.at(problem, Operand::B, at);
            let b = operand("B", rows_of_b, b, &value)?;
            Ok::<_, MemoryError>(OperandAddresses { a, b, c: 0, epilogue })
        };
        let (small, mixed) = (all(ValueKind::Small)?, all(ValueKind::Mixed)?);
        let shared_limit = device.shared_bytes_per_block.into();
        Ok(Self {
            problem: *problem,
            storage: *storage,
            seeds,
            memory,
            small,
            mixed,
            references: References::default(),
            shared_limit,
            interrupted: None,
        })
    }

    /// Ends executions with [`LaunchError::Interrupted`] once `flag` is set.
    #[must_use]
    pub fn interrupted_by(self, flag: Arc<AtomicBool>) -> Self {
        Self { interrupted: Some(flag), ..self }
    }

    /// Executes a candidate and checks it, with all device checks: on small integers, where C is only written, and on
    /// mixed values, where C is read too. The second run is counted if `counting` requests it.
    ///
    /// # Errors
    /// See [`HostFailure`].
    pub fn validate(
        &self,
        program: &PtxModule,
        plan: &LaunchPlan,
        counting: CountingMode,
    ) -> Result<ExecutedCandidate, HostFailure> {
        let small = ValidationRun::small(&self.problem, self.seeds);
        let scratch = self.scratch(plan)?;
        let chosen = self.first_run(program, plan, &small, &scratch)?;
        let marked = self.c(&scratch).written(&scratch.memory)?;
        let region = Region::of(&self.problem, &marked);
        self.judge(&small, &scratch, &region)?;
        self.check_gaps(&scratch)?;
        let mixed = ValidationRun::mixed(&self.problem, self.seeds);
        let scratch = self.scratch(plan)?;
        self.c(&scratch).fill(&scratch.memory, |at| mixed.old_bits(at))?;
        let options =
            LaunchOptions { checks: ExecutionChecks::ALL, counting, ..self.options(plan) };
        let part = PlanPart { preparation: true, blocks: chosen };
        let counts = self.run_part(program, plan, &mixed, &scratch, &options, part)?;
        // Selected blocks also execute the other blocks of their clusters.
        let executed = counts.last().map_or(0, |counts| counts.blocks);
        let blocks = plan.kernels.last().map_or(0, |kernel| blocks_of(kernel.grid));
        let coverage = BlockCoverage::of(&self.problem, executed, blocks, &region);
        self.check_complete(&coverage, &marked)?;
        let max_error = self.judge(&mixed, &scratch, &region)?;
        self.check_untouched(&mixed, &scratch, &marked)?;
        self.check_gaps(&scratch)?;
        let reference = match self.problem.types.accumulator() {
            Dtype::I32 => format!("exact integers on the host, {coverage}"),
            _ => format!("f64 on the host, {coverage}"),
        };
        Ok(ExecutedCandidate {
            validation: Validation { reference, max_error, bound: mixed.bound },
            coverage,
            counts: if counting == CountingMode::On { counts } else { Vec::new() },
        })
    }

    /// Returns the bits of the elements of C that a candidate computes from mixed values with the given factors.
    /// All blocks run with all checks. If beta is not 0, C held uniform values before.
    ///
    /// # Errors
    /// See [`HostFailure`].
    pub fn result(
        &self,
        program: &PtxModule,
        plan: &LaunchPlan,
        scalars: Scalars,
    ) -> Result<Vec<u32>, HostFailure> {
        let mut run = ValidationRun::mixed(&self.problem, self.seeds);
        run.scalars = scalars;
        let scratch = self.scratch(plan)?;
        if scalars.beta != 0.0 {
            self.c(&scratch).fill(&scratch.memory, |at| run.old_bits(at))?;
        }
        let options = LaunchOptions { checks: ExecutionChecks::ALL, ..self.options(plan) };
        self.run(program, plan, &run, &scratch, &options)?;
        Ok(self.c(&scratch).bits(&scratch.memory)?)
    }

    /// Executes a candidate's first run and returns its blocks: all of a small problem, else a
    /// sample.
    fn first_run(
        &self,
        program: &PtxModule,
        plan: &LaunchPlan,
        run: &ValidationRun,
        scratch: &Scratch,
    ) -> Result<BlockSelection, HostFailure> {
        let options = LaunchOptions { checks: ExecutionChecks::ALL, ..self.options(plan) };
        if sample::is_small(&self.problem) {
            self.run(program, plan, run, scratch, &options)?;
            return Ok(BlockSelection::All);
        }
        let multiplies = |kernel: &&KernelLaunch| {
            kernel.arguments.iter().any(|argument| matches!(argument, Argument::A | Argument::B))
        };
        if plan.nondeterministic {
            return Err(HostFailure::Unsupported(format!(
                "{} is too large to execute completely on the cpu device, and a part of the plan \
                 cannot be validated: its blocks add to the same elements, and sums would miss \
                 the skipped blocks",
                self.problem
            )));
        }
        let Some(kernel) = plan.kernels.last().filter(multiplies) else {
            return Err(HostFailure::Unsupported(format!(
                "{} is too large to execute completely on the cpu device, and a part of the plan \
                 cannot be validated: its last kernel combines results of others, and would \
                 miss the skipped blocks",
                self.problem
            )));
        };
        let some = |preparation, blocks| {
            let part = PlanPart { preparation, blocks: BlockSelection::Selected(blocks) };
            self.run_part(program, plan, run, scratch, &options, part)
        };
        let mut chosen = vec![[0; 3]];
        some(true, chosen.clone())?;
        let marked = self.c(scratch).written(&scratch.memory)?;
        let first = Region::of(&self.problem, &marked);
        let others = sample::choose(&self.problem, kernel.grid, &first, self.seeds.choice());
        if !others.is_empty() {
            some(false, others.clone())?;
        }
        chosen.extend(others);
        Ok(BlockSelection::Selected(chosen))
    }

    /// Executes a plan with alpha = 1 and beta = 0 and counts the work of each launch, without
    /// checks: all blocks of a small problem, else the first block of each launch.
    ///
    /// # Errors
    /// See [`HostFailure`].
    pub fn count(
        &self,
        program: &PtxModule,
        plan: &LaunchPlan,
    ) -> Result<Vec<Counts>, HostFailure> {
        let whole = sample::is_small(&self.problem);
        let blocks =
            if whole { BlockSelection::All } else { BlockSelection::Selected(vec![[0; 3]]) };
        let options = LaunchOptions { counting: CountingMode::On, blocks, ..self.options(plan) };
        let run = ValidationRun::small(&self.problem, self.seeds);
        self.run(program, plan, &run, &self.scratch(plan)?, &options)
    }

    /// Launches the kernels of a plan in order.
    fn run(
        &self,
        program: &PtxModule,
        plan: &LaunchPlan,
        run: &ValidationRun,
        scratch: &Scratch,
        options: &LaunchOptions,
    ) -> Result<Vec<Counts>, HostFailure> {
        let launches = self.launches(plan, run, scratch)?;
        let with: Vec<_> = launches.iter().map(|one| (one, options)).collect();
        execute_all(program, &scratch.memory, &with, self.shared_limit)
    }

    /// Launches a part of a plan.
    fn run_part(
        &self,
        program: &PtxModule,
        plan: &LaunchPlan,
        run: &ValidationRun,
        scratch: &Scratch,
        options: &LaunchOptions,
        part: PlanPart,
    ) -> Result<Vec<Counts>, HostFailure> {
        let launches = self.launches(plan, run, scratch)?;
        let Some((last, before)) = launches.split_last() else { return Ok(Vec::new()) };
        let before = if part.preparation { before } else { &[] };
        let some = LaunchOptions { blocks: part.blocks, ..options.clone() };
        let with: Vec<_> = before.iter().map(|one| (one, options)).chain([(last, &some)]).collect();
        execute_all(program, &scratch.memory, &with, self.shared_limit)
    }

    /// Binds the launches of a plan.
    fn launches(
        &self,
        plan: &LaunchPlan,
        run: &ValidationRun,
        scratch: &Scratch,
    ) -> Result<Vec<LaunchCommand>, HostFailure> {
        let inputs = match run.values {
            ValueKind::Small => self.small,
            ValueKind::Uniform | ValueKind::Mixed => self.mixed,
        };
        let operands = OperandAddresses { c: scratch.c, ..inputs };
        let workspaces = &scratch.workspaces;
        let stored = (&self.problem, &self.storage);
        let launches = bind_stored(plan, 0, stored, operands, workspaces, run.scalars);
        launches.map_err(|error| HostFailure::Unsupported(error.to_string()))
    }

    /// LaunchOptions of a run without checks. The instruction budget of a block is 16 times its share of
    /// the multiply-adds, plus 2^15 per step along K: a thousand for each of 32 warps.
    fn options(&self, plan: &LaunchPlan) -> LaunchOptions {
        let fewest = plan.kernels.iter().map(|kernel| blocks_of(kernel.grid)).min().unwrap_or(1);
        let share = self.problem.operations() / 64.0 / fewest.max(1) as f64;
        let budget = 16.0 * share + f64::from(1 << 15) * (self.problem.shape.k + 64) as f64;
        let interrupted = self.interrupted.clone();
        LaunchOptions {
            instruction_budget: budget as u64,
            interrupted,
            follows_unknown: plan.begins_early(),
            ..LaunchOptions::default()
        }
    }

    /// Creates the memory of a candidate: the operands, and an unwritten C and workspaces.
    fn scratch(&self, plan: &LaunchPlan) -> Result<Scratch, MemoryError> {
        let mut memory = self.memory.sharing();
        let mut poisoned = |name: &str, bytes: u64| {
            let address = memory.allocate(bytes)?;
            memory.name(address, name)?;
            memory.poison(address, POISON, bytes / 4)?;
            Ok::<u64, MemoryError>(address)
        };
        let [.., rows] = rows_of(&self.problem, &self.storage);
        let offset = offset_of(&self.storage, self.problem.types.d);
        let c = poisoned("C", offset + rows.span() * self.problem.types.d.bytes())? + offset;
        let workspaces = plan.workspaces.iter().map(|one| {
            // An address that is aligned as declared and no more, so that a kernel that needs more is found.
            let bytes = one.bytes.next_multiple_of(4);
            match u64::from(one.align) {
                align if one.align < WORKSPACE_ALIGNMENT => {
                    let before = align.max(4);
                    Ok(poisoned(&one.name, before + bytes)? + before)
                }
                _ => poisoned(&one.name, bytes),
            }
        });
        let workspaces = workspaces.collect::<Result<_, _>>()?;
        Ok(Scratch { memory, c, workspaces })
    }

    /// C as it is stored.
    fn c(&self, scratch: &Scratch) -> Matrix {
        let [.., rows] = rows_of(&self.problem, &self.storage);
        Matrix { address: scratch.c, bytes: self.problem.types.d.bytes() as u32, rows }
    }

    fn c_elements(&self) -> u64 {
        self.problem.c_elements() * self.problem.batch
    }
}

/// The rows of A, B and C over the whole batch.
fn rows_of(problem: &Problem, storage: &Storage) -> [PitchedRows; 3] {
    let Shape { m, n, .. } = problem.shape;
    let stored = [problem.stored_a(), problem.stored_b(), [m, n]];
    let pitches = [storage.lda, storage.ldb, storage.ldc];
    std::array::from_fn(|at| {
        let [count, width] = stored[at];
        PitchedRows::new(problem.batch * count, width, pitches[at])
    })
}

/// Bytes from the begin of an allocation to an operand that is aligned as said, and no more. Scales are f32 whatever the
/// others are.
fn offset_of(storage: &Storage, dtype: Dtype) -> u64 {
    let alignment = storage.alignment.max(dtype.bytes());
    if alignment < Storage::ALLOCATED { alignment } else { 0 }
}

fn blocks_of(grid: [u32; 3]) -> u64 {
    grid.iter().map(|extent| u64::from(*extent)).product()
}
