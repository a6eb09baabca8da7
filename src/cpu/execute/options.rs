//! Launch options: blocks, checks, counting and the instruction budget.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::cpu::checks::ExecutionChecks;

/// Whether a launch counts instructions and memory traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CountingMode {
    /// No counting.
    #[default]
    Off,
    /// Counting.
    On,
    /// Counting, and a trace of every access: for launches of one block.
    Traced,
}

/// Blocks of the grid to execute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BlockSelection {
    /// All blocks.
    #[default]
    All,
    /// Blocks with these indices in x, y and z, in this order and without duplicates. The whole
    /// cluster of a block is executed and counted, since its blocks cooperate. The trace of
    /// [`CountingMode::Traced`] contains only the selected blocks.
    Selected(Vec<[u32; 3]>),
}

/// Options of a launch.
#[derive(Debug, Clone)]
pub struct LaunchOptions {
    /// Checks to perform.
    pub checks: ExecutionChecks,
    /// Counting mode.
    pub counting: CountingMode,
    /// Limit of the warp instructions of a block, or of a cluster per block. Polling for an earlier
    /// block that still runs is free.
    pub instruction_budget: u64,
    /// Blocks to execute.
    pub blocks: BlockSelection,
    /// Ends the launch before its next block once set.
    pub interrupted: Option<Arc<AtomicBool>>,
}

impl Default for LaunchOptions {
    /// All blocks without checks or counting. The budget suffices for a block of 1024 threads with
    /// K = 10^6 and a thousand instructions per step, which takes hours on one core.
    fn default() -> Self {
        Self {
            checks: ExecutionChecks::NONE,
            counting: CountingMode::Off,
            instruction_budget: 1 << 35,
            blocks: BlockSelection::All,
            interrupted: None,
        }
    }
}
