//! Launches: clusters of blocks in parallel, the warps of a cluster in turn.

mod access;
mod atomics;
mod barriers;
mod bounds;
mod boxes;
mod cluster;
mod collective;
mod copies;
mod order;
mod phases;
mod registers;
mod shared;
mod step;
mod warp;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use super::checks::{Checks, Violation};
use super::counts::{AccessSite, Counts, StepCounts};
use super::layout::{MAX_CLUSTER, MAX_SHARED};
use super::map;
use super::memory::Memory;
use super::parse::Clusters;
use super::program::Kernel;
use super::trace::Access;
use crate::model::PlacedMap;
use cluster::Cluster;
use order::Order;

/// A value that a kernel is called with, as its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// A parameter of 4 bytes: `int`, `unsigned`, `float` by its bits.
    Word(u32),
    /// A parameter of 8 bytes: a pointer, `long long`, `double` by its bits.
    Long(u64),
    /// A tensor map, 128 bytes.
    Map(PlacedMap),
}

impl From<PlacedMap> for Parameter {
    fn from(map: PlacedMap) -> Self {
        Self::Map(map)
    }
}

impl From<i32> for Parameter {
    fn from(value: i32) -> Self {
        Self::Word(value.cast_unsigned())
    }
}

impl From<f32> for Parameter {
    fn from(value: f32) -> Self {
        Self::Word(value.to_bits())
    }
}

impl From<u64> for Parameter {
    fn from(value: u64) -> Self {
        Self::Long(value)
    }
}

impl From<i64> for Parameter {
    fn from(value: i64) -> Self {
        Self::Long(value.cast_unsigned())
    }
}

/// Whether a launch counts what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// It does not.
    #[default]
    Off,
    /// It does.
    On,
    /// It does, and keeps every access: for launches of one block.
    Traced,
}

/// Which blocks of a grid are executed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Blocks {
    /// All of them.
    #[default]
    All,
    /// Those with these indices in x, y and z, in this order and each once. With a block its whole
    /// cluster is executed, since its blocks work together, and counted; of what
    /// [`Counting::Traced`] keeps the others are left out.
    Chosen(Vec<[u32; 3]>),
}

/// How a launch is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What is looked for.
    pub checks: Checks,
    /// Whether it is counted.
    pub counting: Counting,
    /// How many instructions of a warp a block may execute, all its warps together; of a cluster,
    /// all its blocks together so many times as many. Those with which it waits for a block before
    /// it that still runs do not count.
    pub instruction_budget: u64,
    /// Which blocks are executed.
    pub blocks: Blocks,
}

impl Default for Options {
    /// All blocks, unwatched. The budget is what a block of 1024 threads needs for K = 10^6 with
    /// a thousand instructions each step; on one core that is hours.
    fn default() -> Self {
        Self {
            checks: Checks::NONE,
            counting: Counting::Off,
            instruction_budget: 1 << 35,
            blocks: Blocks::All,
        }
    }
}

/// A launch that did not come to its end.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum LaunchError {
    /// The kernel did something wrong. Of several blocks, the first in the order of execution
    /// that did.
    #[error(transparent)]
    Violation(#[from] Box<Violation>),
    /// The arguments are not those of the kernel.
    #[error("kernel `{kernel}` is called with {given}, but takes {wanted}")]
    Arguments {
        /// The kernel.
        kernel: String,
        /// The sizes of what it was called with.
        given: String,
        /// The sizes of its parameters.
        wanted: String,
    },
    /// No device accepts the launch.
    #[error("kernel `{kernel}` cannot be launched: {what}")]
    Limit {
        /// The kernel.
        kernel: String,
        /// Which limit is broken, with the figures.
        what: String,
    },
}

/// The extents of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extents {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) dynamic_shared: u32,
    /// Blocks of a cluster; without clusters one.
    pub(super) cluster: [u32; 3],
}

/// Runs a kernel and waits for its end.
///
/// `extents` are blocks of the grid and threads of a block in x, y and z; `dynamic_shared` is in
/// bytes.
///
/// # Errors
/// The first violation, or why the kernel was not started. Memory is left as it is then.
pub fn launch(
    kernel: &Kernel,
    (grid, block): ([u32; 3], [u32; 3]),
    dynamic_shared: u32,
    parameters: &[Parameter],
    memory: &Memory,
    options: &Options,
) -> Result<Counts, LaunchError> {
    let extents = Extents { grid, block, dynamic_shared, cluster: kernel.cluster() };
    check_extents(extents)
        .and_then(|()| check_cluster(kernel, extents))
        .and_then(|()| check_blocks(extents, &options.blocks))
        .map_err(|what| LaunchError::Limit { kernel: kernel.name().to_owned(), what })?;
    let parameters = lay_out(kernel, parameters)?;
    let progress = Progress::default();
    let order = Order::new(extents, &options.blocks);
    let parameters = &parameters;
    let job =
        Job { kernel, extents, parameters, memory, options, order: &order, progress: &progress };
    match (options.checks == Checks::NONE, options.counting) {
        (true, Counting::Off) => job.run::<false, false>(),
        (true, Counting::On | Counting::Traced) => job.run::<false, true>(),
        (false, Counting::Off) => job.run::<true, false>(),
        (false, Counting::On | Counting::Traced) => job.run::<true, true>(),
    }
}

/// What of the extents no device accepts.
fn check_extents(extents: Extents) -> Result<(), String> {
    let threads: u64 = extents.block.iter().map(|extent| u64::from(*extent)).product();
    if threads == 0 || threads > 1024 || extents.block.iter().any(|extent| *extent > 1024) {
        return Err(format!("a block has 1 to 1024 threads, not {threads}"));
    }
    let [x, y, z] = extents.grid;
    if x == 0 || y == 0 || z == 0 || x > i32::MAX as u32 || y > 65_535 || z > 65_535 {
        return Err(format!("a grid of {x} x {y} x {z} blocks is beyond what CUDA takes"));
    }
    if u64::from(extents.dynamic_shared) > MAX_SHARED {
        return Err(format!(
            "{} bytes of dynamic shared memory are more than {MAX_SHARED}",
            extents.dynamic_shared
        ));
    }
    Ok(())
}

/// What of the clusters that a kernel asks for no device accepts.
fn check_cluster(kernel: &Kernel, extents: Extents) -> Result<(), String> {
    let Clusters { explicit, extents: given, most, .. } = kernel.code.clusters;
    if explicit && given.is_none() {
        return Err("it is compiled for clusters, but does not say of how many blocks".to_owned());
    }
    let blocks: u64 = extents.cluster.iter().map(|extent| u64::from(*extent)).product();
    let most = most.map_or(MAX_CLUSTER, |most| most.min(MAX_CLUSTER));
    if blocks == 0 || blocks > u64::from(most) {
        return Err(format!("a cluster has 1 to {most} blocks here, not {blocks}"));
    }
    let whole = extents.grid.iter().zip(extents.cluster).all(|(grid, cluster)| grid % cluster == 0);
    if !whole {
        let list = |[x, y, z]: [u32; 3]| format!("{x} x {y} x {z}");
        let (grid, cluster) = (list(extents.grid), list(extents.cluster));
        return Err(format!("a grid of {grid} blocks is no multiple of clusters of {cluster}"));
    }
    Ok(())
}

/// Blocks that are chosen must be there.
fn check_blocks(extents: Extents, blocks: &Blocks) -> Result<(), String> {
    let Blocks::Chosen(blocks) = blocks else { return Ok(()) };
    let inside = |block: &[u32; 3]| block.iter().zip(extents.grid).all(|(at, end)| *at < end);
    match blocks.iter().find(|block| !inside(block)) {
        None => Ok(()),
        Some(block) => Err(format!("block {block:?} is chosen, which is not in the grid")),
    }
}

/// The parameters where the kernel reads them, as words.
fn lay_out(kernel: &Kernel, parameters: &[Parameter]) -> Result<Vec<u32>, LaunchError> {
    let size = |parameter: &Parameter| match parameter {
        Parameter::Word(_) => 4,
        Parameter::Long(_) => 8,
        Parameter::Map(_) => 8 * map::WORDS as u64,
    };
    let wanted: Vec<u64> = kernel.code.parameters.iter().map(|(_, bytes)| *bytes).collect();
    let given: Vec<u64> = parameters.iter().map(size).collect();
    if wanted != given {
        let list = |sizes: &[u64]| {
            let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
            format!("parameters of [{}] bytes", sizes.join(", "))
        };
        return Err(LaunchError::Arguments {
            kernel: kernel.name().to_owned(),
            given: list(&given),
            wanted: list(&wanted),
        });
    }
    let end = kernel.code.parameters.last().map_or(0, |(start, bytes)| start + bytes);
    let mut words = vec![0; end.div_ceil(4) as usize];
    for ((start, _), parameter) in kernel.code.parameters.iter().zip(parameters) {
        let at = *start as usize / 4;
        match parameter {
            Parameter::Word(value) => words[at] = *value,
            Parameter::Long(value) => {
                words[at] = *value as u32;
                words[at + 1] = (value >> 32) as u32;
            }
            Parameter::Map(map) => {
                let halves = map::encode(map)
                    .into_iter()
                    .flat_map(|word| [word as u32, (word >> 32) as u32]);
                words[at..].iter_mut().zip(halves).for_each(|(to, half)| *to = half);
            }
        }
    }
    Ok(words)
}

/// A launch that can run.
#[derive(Debug, Clone, Copy)]
struct Job<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) extents: Extents,
    pub(super) parameters: &'a [u32],
    pub(super) memory: &'a Memory,
    pub(super) options: &'a Options,
    pub(super) order: &'a Order<'a>,
    pub(super) progress: &'a Progress,
}

/// How far the clusters of a launch are, by their numbers in the order in which they begin.
#[derive(Debug)]
pub(super) struct Progress {
    next: AtomicUsize,
    running: Mutex<BTreeSet<usize>>,
    /// The first that did something wrong.
    first_wrong: AtomicUsize,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            next: AtomicUsize::new(0),
            running: Mutex::default(),
            first_wrong: AtomicUsize::new(usize::MAX),
        }
    }
}

impl Progress {
    /// Nothing that holds the lock panics; were it so, a set of numbers is still one.
    fn running(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cluster to begin now, of so many.
    fn begin(&self, count: usize) -> Option<usize> {
        let mut running = self.running();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let begins = number < count && !self.is_over(number);
        (begins && running.insert(number)).then_some(number)
    }

    fn end(&self, number: usize, outcome: &Result<(), Box<Violation>>) {
        self.running().remove(&number);
        if outcome.is_err() {
            self.first_wrong.fetch_min(number, Ordering::Relaxed);
        }
    }

    /// Whether a cluster runs that began before this one.
    fn runs_before(&self, number: usize) -> bool {
        self.running().first().is_some_and(|first| *first < number)
    }

    /// Whether a launch ends without this cluster: one before it did something wrong.
    fn is_over(&self, number: usize) -> bool {
        self.first_wrong.load(Ordering::Relaxed) < number
    }
}

impl Job<'_> {
    /// Blocks begin in order, so that one may wait for those before it, as kernels do that hand
    /// sums on from block to block.
    fn run<const CHECKED: bool, const COUNTED: bool>(self) -> Result<Counts, LaunchError> {
        let count = self.order.count();
        let results = Mutex::new(Results::default());
        let work = || {
            let mut cluster = Cluster::new(self);
            let mut first_violation = None;
            while let Some(number) = self.progress.begin(count) {
                cluster.begin(number);
                let outcome = cluster.run::<CHECKED, COUNTED>();
                self.progress.end(number, &outcome);
                first_violation = outcome.err().map(|violation| (number, violation));
            }
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            let (steps, accesses) = cluster.into_counts();
            results.take_over(first_violation, steps, accesses);
        };
        let workers = rayon::current_num_threads().min(count).max(1);
        rayon::scope(|scope| {
            for _ in 1..workers {
                scope.spawn(|_| work());
            }
            work();
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        match results.violation {
            Some((_, violation)) => Err(LaunchError::Violation(violation)),
            None => {
                let counts =
                    self.summary::<COUNTED>(count * self.order.blocks_each(), &results.steps);
                Ok(Counts { accesses: results.accesses, ..counts })
            }
        }
    }

    fn summary<const COUNTED: bool>(&self, blocks: usize, steps: &[StepCounts]) -> Counts {
        let mut counts = Counts { blocks: blocks as u64, ..Counts::default() };
        if !COUNTED {
            return counts;
        }
        let code = &self.kernel.code;
        for (step, counted) in code.steps.iter().zip(steps) {
            if step.begins && counted.executed > 0 {
                counts.add_instructions(step.class, counted.executed);
            }
            if counted.memory.requests > 0 {
                let source = step.source.and_then(|at| code.sources.get(at as usize)).cloned();
                counts.add_accesses(AccessSite { source, class: step.class }, counted.memory);
            }
        }
        counts
    }
}

/// What the workers found.
#[derive(Debug, Default)]
struct Results {
    violation: Option<(usize, Box<Violation>)>,
    steps: Vec<StepCounts>,
    accesses: Vec<Access>,
}

impl Results {
    fn take_over(
        &mut self,
        violation: Option<(usize, Box<Violation>)>,
        steps: Vec<StepCounts>,
        accesses: Vec<Access>,
    ) {
        self.accesses.extend(accesses);
        if let Some((number, _)) = &violation
            && self.violation.as_ref().is_none_or(|(first, _)| number < first)
        {
            self.violation = violation;
        }
        if self.steps.is_empty() {
            self.steps = steps;
        } else {
            self.steps.iter_mut().zip(&steps).for_each(|(to, from)| to.add(from));
        }
    }
}
