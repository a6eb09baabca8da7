//! What a kernel's lines move: requests, sectors of global memory, wavefronts and bank conflicts of
//! shared memory, as the `cpu` device counts them while it executes the kernel.

use std::collections::BTreeMap;

use super::inspected::{InspectError, InspectedKernel};
use crate::cpu::{Counts, InstructionClass, MemoryCounts};
use crate::validate::HostValidator;

/// The seed of the operands. What a kernel of this program moves does not depend on their values.
const SEED: u64 = 0;

/// What one launch did.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// The kernel.
    pub entry: String,
    /// Blocks that were executed: the whole grid, or the first alone where that would take long.
    pub executed: u64,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Instructions that warps executed, by class.
    pub instructions: BTreeMap<InstructionClass, u64>,
    /// Accesses by class.
    pub memory: BTreeMap<InstructionClass, MemoryCounts>,
    /// Accesses by line, in the order of the source.
    pub lines: Vec<LineTraffic>,
}

/// What the accesses of one class did that stand in one line.
#[derive(Debug, Clone, PartialEq)]
pub struct LineTraffic {
    /// The line of the source, from 1 on; `None` where the compiler noted none.
    pub line: Option<u32>,
    /// What stands there.
    pub text: String,
    /// The class of access.
    pub class: InstructionClass,
    /// What they did.
    pub counts: MemoryCounts,
}

/// Executes a subject's launches on the `cpu` device and counts. `ptx` is its compiled text, with
/// information on lines.
///
/// # Errors
/// [`InspectError::Program`] and [`InspectError::Execution`].
pub fn traffic(subject: &InspectedKernel, ptx: &[u8]) -> Result<Vec<Traffic>, InspectError> {
    let program = subject.program(ptx)?;
    let plan = &subject.rendered.plan;
    let host = HostValidator::prepare(&subject.problem, &subject.device, SEED)?;
    let counts = host.count(&program, plan)?;
    let launches = plan.kernels.iter().zip(counts);
    Ok(launches
        .map(|(launch, counts)| Traffic {
            entry: launch.entry.clone(),
            executed: counts.blocks,
            blocks: launch.grid.iter().map(|extent| u64::from(*extent)).product(),
            lines: lines(&counts, &subject.rendered.source),
            instructions: counts.instructions,
            memory: counts.memory,
        })
        .collect())
}

/// The accesses by line and class. What was inlined in several places is one.
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
    /// A count for a block, on average over those that were executed.
    pub fn per_block(&self, count: u64) -> f64 {
        count as f64 / self.executed.max(1) as f64
    }
}
