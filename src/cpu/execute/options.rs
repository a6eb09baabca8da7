//! How a launch runs: which blocks, which checks, what is counted, and the instruction budget.

use crate::cpu::checks::ExecutionChecks;

/// Whether a launch counts what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CountingMode {
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
pub enum BlockSelection {
    /// All of them.
    #[default]
    All,
    /// Those with these indices in x, y and z, in this order and each once. With a block its whole
    /// cluster is executed, since its blocks work together, and counted; of what
    /// [`CountingMode::Traced`] keeps the others are left out.
    Selected(Vec<[u32; 3]>),
}

/// How a launch is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchOptions {
    /// What is looked for.
    pub checks: ExecutionChecks,
    /// Whether it is counted.
    pub counting: CountingMode,
    /// How many instructions of a warp a block may execute, all its warps together; of a cluster,
    /// all its blocks together so many times as many. Those with which it waits for a block before
    /// it that still runs do not count.
    pub instruction_budget: u64,
    /// Which blocks are executed.
    pub blocks: BlockSelection,
}

impl Default for LaunchOptions {
    /// All blocks, unwatched. The budget is what a block of 1024 threads needs for K = 10^6 with
    /// a thousand instructions each step; on one core that is hours.
    fn default() -> Self {
        Self {
            checks: ExecutionChecks::NONE,
            counting: CountingMode::Off,
            instruction_budget: 1 << 35,
            blocks: BlockSelection::All,
        }
    }
}
