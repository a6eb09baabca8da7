//! Launches: workers execute clusters in parallel and merge their counts.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use super::arguments::{KernelParameter, parameter_words};
use super::cluster::Cluster;
use super::cluster_order::ClusterOrder;
use super::context::LaunchContext;
use super::error::LaunchError;
use super::limits::{LaunchExtents, check_blocks, check_cluster, check_extents};
use super::options::{CountingMode, LaunchOptions};
use super::progress::LaunchProgress;
use crate::cpu::checks::{ExecutionChecks, Violation};
use crate::cpu::counts::{AccessSite, Counts};
use crate::cpu::latency::warp_clocks;
use crate::cpu::memory::GlobalMemory;
use crate::cpu::module::PtxKernel;
use crate::cpu::step_counts::StepCounts;
use crate::cpu::trace::MemoryAccess;

/// Runs a kernel to its end.
///
/// The extents are blocks of the grid and threads of a block, in x, y and z. `dynamic_shared` is in
/// bytes.
///
/// # Errors
/// The first violation, or the reason why the kernel was not started. Memory keeps the state at
/// that time.
pub fn launch(
    kernel: &PtxKernel,
    (grid, block): ([u32; 3], [u32; 3]),
    dynamic_shared: u32,
    parameters: &[KernelParameter],
    memory: &GlobalMemory,
    options: &LaunchOptions,
) -> Result<Counts, LaunchError> {
    let extents = LaunchExtents { grid, block, dynamic_shared, cluster: kernel.cluster() };
    check_extents(extents)
        .and_then(|()| check_cluster(kernel, extents))
        .and_then(|()| check_blocks(extents, &options.blocks))
        .map_err(|what| LaunchError::Limit { kernel: kernel.name().to_owned(), what })?;
    let parameters = parameter_words(kernel, parameters)?;
    if let Some(record) = &options.record {
        record.begin(&kernel.variables).map_err(|error| LaunchError::Limit {
            kernel: kernel.name().to_owned(),
            what: error.to_string(),
        })?;
    }
    let progress = LaunchProgress::default();
    let order = ClusterOrder::new(extents, &options.blocks);
    let parameters = &parameters;
    let context = LaunchContext {
        kernel,
        extents,
        parameters,
        memory,
        options,
        order: &order,
        progress: &progress,
    };
    let unchecked = options.checks == ExecutionChecks::NONE && options.record.is_none();
    match (unchecked, options.counting) {
        (true, CountingMode::Off) => context.run::<false, false>(),
        (true, CountingMode::On | CountingMode::Traced) => context.run::<false, true>(),
        (false, CountingMode::Off) => context.run::<true, false>(),
        (false, CountingMode::On | CountingMode::Traced) => context.run::<true, true>(),
    }
}

impl LaunchContext<'_> {
    /// Runs all clusters. They begin in order, so a block may wait for earlier blocks, as kernels
    /// do that pass sums from block to block.
    fn run<const CHECKED: bool, const COUNTED: bool>(self) -> Result<Counts, LaunchError> {
        let count = self.order.count();
        let results = Mutex::new(WorkerResults::default());
        let work = || {
            let mut cluster = Cluster::new(self);
            let mut first_violation = None;
            while let Some(number) = self.progress.begin(count) {
                if self.is_interrupted() {
                    self.progress.end(number, &Ok(()));
                    break;
                }
                cluster.begin(number);
                let outcome = cluster.run::<CHECKED, COUNTED>();
                self.progress.end(number, &outcome);
                first_violation = outcome.err().map(|violation| (number, violation));
            }
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            let (steps, accesses) = cluster.into_counts();
            results.merge(first_violation, steps, accesses);
        };
        let workers = rayon::current_num_threads().min(count).max(1);
        rayon::scope(|scope| {
            for _ in 1..workers {
                scope.spawn(|_| work());
            }
            work();
        });
        if self.is_interrupted() {
            return Err(LaunchError::Interrupted);
        }
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

    fn is_interrupted(&self) -> bool {
        let flag = self.options.interrupted.as_ref();
        flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    fn summary<const COUNTED: bool>(&self, blocks: usize, steps: &[StepCounts]) -> Counts {
        let mut counts = Counts { blocks: blocks as u64, ..Counts::default() };
        if !COUNTED {
            return counts;
        }
        let code = &self.kernel.code;
        counts.warp_clocks = warp_clocks(&code.steps, steps);
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

/// Results of the workers.
#[derive(Debug, Default)]
struct WorkerResults {
    violation: Option<(usize, Box<Violation>)>,
    steps: Vec<StepCounts>,
    accesses: Vec<MemoryAccess>,
}

impl WorkerResults {
    fn merge(
        &mut self,
        violation: Option<(usize, Box<Violation>)>,
        steps: Vec<StepCounts>,
        accesses: Vec<MemoryAccess>,
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
