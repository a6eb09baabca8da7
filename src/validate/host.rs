//! The validation of candidates that are executed on the `cpu` device, for one problem.
//!
//! As [`Validator`](super::Validator) does on a GPU, each candidate runs on small integers and on
//! uniform values. What guard zones and poison do there, the device does here by looking at every
//! access: A and B can only be read, and C counts as written by nothing. The reference is computed
//! for what was written only, so that some blocks of a large problem can be executed without the
//! others.

use rayon::prelude::*;
use thiserror::Error;

use super::inputs::{Seeds, Values};
use super::region::Region;
use super::sample::{self, Places};
use super::trial::Trial;
use super::zone::POISON;
use crate::cpu::{
    BlockSelection, CountingMode, Counts, ExecutionChecks, GlobalMemory, KernelParameter,
    LaunchError, LaunchOptions, MemoryError, PtxModule, WriteTracking, launch,
};
use crate::model::{
    Argument, Device, Dtype, KernelLaunch, LaunchPlan, Mismatch, Problem, Validation,
};
use crate::worker::{Launch, Operands, Scalars, bind};

/// Operands of one problem in the memory of the `cpu` device.
#[derive(Debug)]
pub struct HostValidator {
    problem: Problem,
    seeds: Seeds,
    memory: GlobalMemory,
    small: [u64; 2],
    uniform: [u64; 2],
    /// The most shared memory that a block may have, in bytes.
    shared_limit: u64,
}

/// A candidate that was executed and found right.
#[derive(Debug, Clone, PartialEq)]
pub struct Executed {
    /// How right it is.
    pub validation: Validation,
    /// What was executed.
    pub places: Places,
    /// What each launch of the plan did, as far as it was executed; nothing unless that was counted.
    pub counts: Vec<Counts>,
}

/// Why a candidate is not right, or was not executed.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum HostFailure {
    /// It broke a rule, or cannot be launched.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Its results are wrong.
    #[error("{0}")]
    Wrong(Box<Mismatch>),
    /// The host has not the memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// This device does not execute such a plan.
    #[error("{0}")]
    Unsupported(String),
}

/// The memory that one candidate sees.
struct Scratch {
    memory: GlobalMemory,
    c: u64,
    workspaces: Vec<u64>,
}

/// What is executed of a plan.
struct Part {
    /// Whether the kernels before the last one are, whole: they lay operands out anew.
    preparation: bool,
    /// The blocks of the last one.
    blocks: BlockSelection,
}

impl HostValidator {
    /// Bytes of host memory that validating `problem` takes beside workspaces and references: two
    /// sets of A and B and a C of four bytes an element, a bit for each of these bytes, a note for
    /// each element of C.
    pub fn footprint(problem: &Problem) -> u64 {
        let operands = (problem.a_elements() + problem.b_elements()) * problem.batch;
        let c = problem.c_elements() * problem.batch;
        (2 * operands + c) * 4 * 9 / 8 + c
    }

    /// Makes the operands. Candidates have the limits of `device`.
    ///
    /// # Errors
    /// [`HostFailure`] where the host has not the memory, or for elements of other than 32 bits.
    pub fn prepare(problem: &Problem, device: &Device, seed: u64) -> Result<Self, HostFailure> {
        if problem.dtype.bytes() != 4 {
            let what = format!("the cpu device does not validate {} yet", problem.dtype);
            return Err(HostFailure::Unsupported(what));
        }
        let seeds = Seeds::of(seed);
        let mut memory = GlobalMemory::new(WriteTracking::Written);
        let mut operand = |elements: u64, values: Values, seed: u64| {
            let count = elements * problem.batch;
            let address = memory.allocate(4 * count)?;
            memory.fill_with(address, count, |at| values.word_at(problem.dtype, at, seed))?;
            memory.protect(address)?;
            Ok::<u64, MemoryError>(address)
        };
        let (a, b) = (problem.a_elements(), problem.b_elements());
        let [seed_a, seed_b] = seeds.operands();
        let small = [operand(a, Values::Small, seed_a)?, operand(b, Values::Small, seed_b)?];
        let uniform = [operand(a, Values::Uniform, seed_a)?, operand(b, Values::Uniform, seed_b)?];
        let shared_limit = device.shared_bytes_per_block.into();
        Ok(Self { problem: *problem, seeds, memory, small, uniform, shared_limit })
    }

    /// Executes a candidate and judges it: watched by all checks on small integers, and counted, if
    /// `counting` says so, on uniform values.
    ///
    /// # Errors
    /// See [`HostFailure`].
    pub fn validate(
        &self,
        program: &PtxModule,
        plan: &LaunchPlan,
        counting: CountingMode,
    ) -> Result<Executed, HostFailure> {
        let small = Trial::small(&self.problem, self.seeds);
        let scratch = self.scratch(plan)?;
        let chosen = self.first_run(program, plan, &small, &scratch)?;
        let marked = scratch.memory.written(scratch.c, self.c_elements())?;
        let region = Region::of(&self.problem, &marked);
        self.judge(&small, &scratch, &region)?;
        let uniform = Trial::uniform(&self.problem, self.seeds);
        let scratch = self.scratch(plan)?;
        let old = |at| uniform.old_word(at);
        scratch.memory.fill_with(scratch.c, self.c_elements(), old)?;
        let options = LaunchOptions { counting, ..self.options(plan) };
        let part = Part { preparation: true, blocks: chosen };
        let counts = self.run_part(program, plan, &uniform, &scratch, &options, part)?;
        // Chosen blocks bring the others of their clusters with them.
        let executed = counts.last().map_or(0, |counts| counts.blocks);
        let blocks = plan.kernels.last().map_or(0, |kernel| blocks_of(kernel.grid));
        let places = Places::of(&self.problem, executed, blocks, &region);
        self.check_complete(&places, &marked)?;
        let max_error = self.judge(&uniform, &scratch, &region)?;
        self.check_untouched(&uniform, &scratch, &marked)?;
        let reference = match self.problem.dtype {
            Dtype::I32 => format!("exact integers on the host, {places}"),
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 => format!("f64 on the host, {places}"),
        };
        Ok(Executed {
            validation: Validation { reference, max_error, bound: uniform.bound },
            places,
            counts: if counting == CountingMode::On { counts } else { Vec::new() },
        })
    }

    /// The words of C that a candidate computes from uniform values with the caller's factors. Every
    /// block is executed, with all checks. Where beta is not 0, C held uniform values before.
    ///
    /// # Errors
    /// See [`HostFailure`].
    pub fn result(
        &self,
        program: &PtxModule,
        plan: &LaunchPlan,
        scalars: Scalars,
    ) -> Result<Vec<u32>, HostFailure> {
        let mut trial = Trial::uniform(&self.problem, self.seeds);
        trial.scalars = scalars;
        let scratch = self.scratch(plan)?;
        if scalars.beta != 0.0 {
            let old = |at| trial.old_word(at);
            scratch.memory.fill_with(scratch.c, self.c_elements(), old)?;
        }
        let options = LaunchOptions { checks: ExecutionChecks::ALL, ..self.options(plan) };
        self.run(program, plan, &trial, &scratch, &options)?;
        Ok(scratch.memory.words(scratch.c, self.c_elements())?.collect())
    }

    /// Executes a candidate's first run: all blocks of a small problem, else a choice, which is
    /// given back.
    fn first_run(
        &self,
        program: &PtxModule,
        plan: &LaunchPlan,
        trial: &Trial,
        scratch: &Scratch,
    ) -> Result<BlockSelection, HostFailure> {
        let options = LaunchOptions { checks: ExecutionChecks::ALL, ..self.options(plan) };
        if sample::is_small(&self.problem) {
            self.run(program, plan, trial, scratch, &options)?;
            return Ok(BlockSelection::All);
        }
        let multiplies = |kernel: &&KernelLaunch| {
            kernel.arguments.iter().any(|argument| matches!(argument, Argument::A | Argument::B))
        };
        if plan.nondeterministic {
            return Err(HostFailure::Unsupported(format!(
                "{} is too large for the cpu device to execute whole, and of a plan whose blocks add to \
                 the same elements it cannot execute a part: sums would miss what is left out",
                self.problem
            )));
        }
        let Some(kernel) = plan.kernels.last().filter(multiplies) else {
            return Err(HostFailure::Unsupported(format!(
                "{} is too large for the cpu device to execute whole, and of a plan whose last \
                 kernel combines what others computed it cannot execute a part: that kernel would \
                 miss what is left out",
                self.problem
            )));
        };
        let some = |preparation, blocks| {
            let part = Part { preparation, blocks: BlockSelection::Selected(blocks) };
            self.run_part(program, plan, trial, scratch, &options, part)
        };
        let mut chosen = vec![[0; 3]];
        some(true, chosen.clone())?;
        let marked = scratch.memory.written(scratch.c, self.c_elements())?;
        let first = Region::of(&self.problem, &marked);
        let others = sample::choose(&self.problem, kernel.grid, &first, self.seeds.choice());
        if !others.is_empty() {
            some(false, others.clone())?;
        }
        chosen.extend(others);
        Ok(BlockSelection::Selected(chosen))
    }

    /// Executes a plan with alpha = 1 and beta = 0 and counts what each of its launches does,
    /// unwatched and unjudged: the whole grid of a small problem, or else the first block of each.
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
        let trial = Trial::small(&self.problem, self.seeds);
        self.run(program, plan, &trial, &self.scratch(plan)?, &options)
    }

    /// Launches a plan's kernels in order.
    fn run(
        &self,
        program: &PtxModule,
        plan: &LaunchPlan,
        trial: &Trial,
        scratch: &Scratch,
        options: &LaunchOptions,
    ) -> Result<Vec<Counts>, HostFailure> {
        let launches = self.launches(plan, trial, scratch)?;
        launches.iter().map(|one| self.execute(program, one, &scratch.memory, options)).collect()
    }

    /// Launches a part of a plan.
    fn run_part(
        &self,
        program: &PtxModule,
        plan: &LaunchPlan,
        trial: &Trial,
        scratch: &Scratch,
        options: &LaunchOptions,
        part: Part,
    ) -> Result<Vec<Counts>, HostFailure> {
        let launches = self.launches(plan, trial, scratch)?;
        let Some((last, before)) = launches.split_last() else { return Ok(Vec::new()) };
        let before = if part.preparation { before } else { &[] };
        let some = LaunchOptions { blocks: part.blocks, ..options.clone() };
        let with = before.iter().map(|one| (one, options)).chain([(last, &some)]);
        with.map(|(one, options)| self.execute(program, one, &scratch.memory, options)).collect()
    }

    /// The launches of a plan.
    fn launches(
        &self,
        plan: &LaunchPlan,
        trial: &Trial,
        scratch: &Scratch,
    ) -> Result<Vec<Launch>, HostFailure> {
        let [a, b] = match trial.values {
            Values::Small => self.small,
            Values::Uniform => self.uniform,
        };
        let operands = Operands { a, b, c: scratch.c };
        let workspaces = &scratch.workspaces;
        let launches = bind(plan, 0, &self.problem, operands, workspaces, trial.scalars);
        launches.map_err(|error| HostFailure::Unsupported(error.to_string()))
    }

    /// How a plan is run, unwatched. A block may take 16 times the instructions of its share of the
    /// multiply-adds, and for each step along K 2^15 more: a thousand for each of 32 warps.
    fn options(&self, plan: &LaunchPlan) -> LaunchOptions {
        let fewest = plan.kernels.iter().map(|kernel| blocks_of(kernel.grid)).min().unwrap_or(1);
        let share = self.problem.operations() / 64.0 / fewest.max(1) as f64;
        let budget = 16.0 * share + f64::from(1 << 15) * (self.problem.shape.k + 64) as f64;
        LaunchOptions { instruction_budget: budget as u64, ..LaunchOptions::default() }
    }

    /// Launches one kernel on the `cpu` device.
    fn execute(
        &self,
        program: &PtxModule,
        wanted: &Launch,
        memory: &GlobalMemory,
        options: &LaunchOptions,
    ) -> Result<Counts, HostFailure> {
        let kernel = program.kernel(&wanted.entry).ok_or_else(|| {
            HostFailure::Unsupported(format!("the program has no kernel `{}`", wanted.entry))
        })?;
        let shared = kernel.facts().static_shared_bytes + u64::from(wanted.dynamic_shared_bytes);
        if shared > self.shared_limit {
            return Err(HostFailure::Unsupported(format!(
                "kernel `{}` takes {shared} bytes of shared memory, a block has {} at most",
                wanted.entry, self.shared_limit
            )));
        }
        let parameters: Vec<KernelParameter> =
            wanted.arguments.iter().map(|argument| (*argument).into()).collect();
        let extents = (wanted.grid, wanted.block);
        Ok(launch(kernel, extents, wanted.dynamic_shared_bytes, &parameters, memory, options)?)
    }

    fn judge(&self, trial: &Trial, scratch: &Scratch, region: &Region) -> Result<f64, HostFailure> {
        let words = region.runs.iter().map(|run| {
            let address = scratch.c + 4 * run.index(&self.problem);
            Ok(scratch.memory.words(address, run.length)?.collect())
        });
        let words: Vec<Vec<u32>> = words.collect::<Result<_, MemoryError>>()?;
        trial.judge(region, &words).map_err(HostFailure::Wrong)
    }

    /// Blocks must write, and all of them together all of C.
    fn check_complete(&self, places: &Places, marked: &[bool]) -> Result<(), HostFailure> {
        let missing = self.c_elements() - places.elements;
        if places.elements > 0 && (missing == 0 || !places.whole()) {
            return Ok(());
        }
        let first = marked.iter().position(|marked| !marked).unwrap_or(0);
        let at = self.position(first as u64);
        let what = format!("{missing} elements that no thread wrote, the first {at}, of {places}");
        Err(damage(what, missing))
    }

    /// What the first run did not write, the second one must leave as it was.
    fn check_untouched(
        &self,
        trial: &Trial,
        scratch: &Scratch,
        marked: &[bool],
    ) -> Result<(), HostFailure> {
        let words = scratch.memory.words(scratch.c, self.c_elements())?;
        let touched = words.enumerate().find_first(|(at, word)| {
            !marked.get(*at).copied().unwrap_or(true) && *word != trial.old_word(*at as u64)
        });
        let Some((at, _)) = touched else { return Ok(()) };
        let at = self.position(at as u64);
        Err(damage(format!("{at} was written in one of two runs only"), 1))
    }

    /// An element of C by its row and column.
    fn position(&self, at: u64) -> String {
        let (m, n) = (self.problem.shape.m, self.problem.shape.n);
        let (product, row, column) = (at / (m * n), at / n % m, at % n);
        match product {
            0 => format!("C[{row}][{column}]"),
            _ => format!("C[{row}][{column}] of product {product}"),
        }
    }

    /// The memory of a candidate: the operands, and a C and workspaces that nothing wrote.
    fn scratch(&self, plan: &LaunchPlan) -> Result<Scratch, MemoryError> {
        let mut memory = self.memory.sharing();
        let mut poisoned = |bytes: u64| {
            let address = memory.allocate(bytes)?;
            memory.poison(address, POISON, bytes / 4)?;
            Ok::<u64, MemoryError>(address)
        };
        let c = poisoned(4 * self.c_elements())?;
        let workspaces = plan.workspaces.iter().map(|one| poisoned(one.bytes.next_multiple_of(4)));
        let workspaces = workspaces.collect::<Result<_, _>>()?;
        Ok(Scratch { memory, c, workspaces })
    }

    fn c_elements(&self) -> u64 {
        self.problem.c_elements() * self.problem.batch
    }
}

/// A result that is wrong beyond the values of elements.
fn damage(check: String, wrong: u64) -> HostFailure {
    let error = f64::INFINITY;
    let (got, expected, bound) = (f64::NAN, f64::NAN, 0.0);
    HostFailure::Wrong(Box::new(Mismatch { check, at: None, got, expected, error, bound, wrong }))
}

fn blocks_of(grid: [u32; 3]) -> u64 {
    grid.iter().map(|extent| u64::from(*extent)).product()
}
