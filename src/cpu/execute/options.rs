//! Launch options: blocks, checks, counting and the instruction budget.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::cpu::access_record::AccessRecord;
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
    /// Receives the accesses to global memory, with checks or without, for [`Self::unfinished`] of later launches. Parts
    /// of a launch may share a record.
    pub record: Option<Arc<AccessRecord>>,
    /// Records of the launches that may still run when this one begins, in their order; empty for a launch that begins
    /// after the end of all others.
    ///
    /// A CUDA launch with the attribute programmatic stream serialization may begin before the end of the launch before
    /// it (CUDA C++ Programming Guide, programmatic dependent launch). If that launch has the attribute too, the one
    /// before it may also still run: blocks may execute `griddepcontrol.launch_dependents` before they wait. The list
    /// therefore has all launches from the latest one without the attribute on.
    ///
    /// [`crate::cpu::ExecutionCheck::Race`] reports conflicting accesses of threads that have not executed
    /// `griddepcontrol.wait`: accesses to memory that a listed launch writes, and writes to memory that it reads. Each
    /// thread must wait itself; a barrier after the wait of another one does not suffice. Other accesses are valid before
    /// the wait. Launches still run in turn on this device, so the results are the same.
    pub unfinished: Vec<Arc<AccessRecord>>,
    /// Whether launches may still run of which nothing is known, as when the first launch of a program has the attribute.
    /// Any access of a thread that has not waited is a violation then.
    pub follows_unknown: bool,
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
            record: None,
            unfinished: Vec::new(),
            follows_unknown: false,
        }
    }
}
