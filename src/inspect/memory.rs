//! Memory traffic of a kernel's source lines: requests, sectors of global memory, wavefronts and
//! bank conflicts of shared memory, counted by the `cpu` device.

use std::collections::BTreeMap;

use super::inspected::{InspectError, InspectedKernel};
use crate::cpu::{Counts, InstructionClass, MemoryCounts};
use crate::validate::HostValidator;

/// Seed of the operands. The traffic of these kernels does not depend on values.
const SEED: u64 = 0;

/// Traffic of one launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// The kernel.
    pub entry: String,
    /// Executed blocks: the whole grid, or the first alone where the grid would take long.
    pub executed: u64,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Warp instructions by class.
    pub instructions: BTreeMap<InstructionClass, u64>,
    /// Accesses by class.
    pub memory: BTreeMap<InstructionClass, MemoryCounts>,
    /// Accesses by source line, in the order of the source.
    pub lines: Vec<LineTraffic>,
}

/// Traffic of the accesses of one class in one source line.
#[derive(Debug, Clone, PartialEq)]
pub struct LineTraffic {
    /// The source line, from 1; `None` where the compiler gave none.
    pub line: Option<u32>,
    /// Its text.
    pub text: String,
    /// The class of access.
    pub class: InstructionClass,
    /// Its counts.
    pub counts: MemoryCounts,
}

/// Executes a kernel's launches on the `cpu` device and counts. `ptx` is the compiled text with
/// line information.
///
/// # Errors
/// [`InspectError::Program`] and [`InspectError::Execution`].
pub fn traffic(subject: &InspectedKernel, ptx: &[u8]) -> Result<Vec<Traffic>, InspectError> {
    let program = subject.program(ptx)?;
    let plan = &subject.rendered.plan;
    let host = HostValidator::prepare(&subject.problem, &subject.device, SEED)?;
    let counts = host.count(&program, plan)?;
    let source = subject.source();
    let launches = plan.kernels.iter().zip(counts);
    Ok(launches
        .map(|(launch, counts)| Traffic {
            entry: launch.entry.clone(),
            executed: counts.blocks,
            blocks: launch.grid.iter().map(|extent| u64::from(*extent)).product(),
            lines: lines(&counts, &source),
            instructions: counts.instructions,
            memory: counts.memory,
        })
        .collect())
}

/// Accesses by line and class. Inlined copies of a line are summed.
fn lines(counts: &Counts, source: &str) -> Vec<LineTraffic> {
    let mut merged: BTreeMap<(Option<u32>, InstructionClass), MemoryCounts> = BTreeMap::new();
    for (site, counts) in &counts.by_line {
        let line = site.source.as_ref().map(|source| source.line);
        merged.entry((line, site.class)).or_default().add(*counts);
    }
    let texts: Vec<&str> = source.lines().collect();
    let text = |line: u32| texts.get(line as usize - 1).map_or("", |text| text.trim()).to_owned();
    merged
        .into_iter()
        .map(|((line, class), counts)| LineTraffic {
            text: line.map(text).unwrap_or_default(),
            line,
            class,
            counts,
        })
        .collect()
}

impl Traffic {
    /// Average of a count over the executed blocks.
    pub fn per_block(&self, count: u64) -> f64 {
        count as f64 / self.executed.max(1) as f64
    }
}
