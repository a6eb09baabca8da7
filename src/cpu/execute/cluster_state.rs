//! State that the warps of a cluster share: shared memory, barriers, checks, counters and the
//! budget.

use super::barrier_state::BarrierStates;
use super::context::LaunchContext;
use super::mbarrier_state::Mbarriers;
use super::remote_access::RemoteAccesses;
use super::warp::Warp;
use super::warpgroup_order::WarpgroupHistories;
use crate::cpu::kernel_code::SharedSegment;
use crate::cpu::operation::{Longs, Words};
use crate::cpu::shadow::ShadowMemory;
use crate::cpu::step_counts::StepCounts;
use crate::cpu::trace::{MemoryAccess, Movement};

/// Most instructions per poll of a cluster that counts as waiting for another one. A loop of one
/// warp takes about ten; 32 warps with a barrier in the loop take a few hundred.
const POLL_DISTANCE: u64 = 1 << 10;

/// State that the warps of a cluster share.
#[derive(Debug)]
pub(super) struct ClusterState<'a> {
    pub(super) launch: LaunchContext<'a>,
    /// Number in the order in which clusters begin.
    pub(super) number: usize,
    /// Blocks of the cluster.
    pub(super) blocks: usize,
    /// Shared memory of all blocks, in sequence.
    pub(super) shared: Vec<u32>,
    /// Distance between the shared memory of consecutive blocks.
    pub(super) shared_stride: u64,
    /// Variables in a block's shared memory.
    pub(super) segments: Vec<SharedSegment>,
    pub(super) shadow: ShadowMemory,
    pub(super) remote_accesses: RemoteAccesses,
    pub(super) counts: Vec<StepCounts>,
    /// Traced accesses, if tracing is on.
    pub(super) trace: Option<Vec<MemoryAccess>>,
    /// Remaining instructions of the budget.
    pub(super) budget: u64,
    /// Executed instructions.
    pub(super) executed: u64,
    /// Accesses that may poll for the work of another cluster.
    pub(super) polls: u64,
    pub(super) barriers: BarrierStates,
    pub(super) mbarriers: Mbarriers,
    pub(super) warpgroups: WarpgroupHistories,
}

impl ClusterState<'_> {
    /// Warps of the cluster.
    pub(super) fn warps(&self) -> usize {
        self.remote_accesses.warps
    }

    /// Yields to other clusters after a round of warps that only polled. The round costs no budget
    /// while an earlier cluster runs. The first cluster always pays, so every launch ends.
    pub(super) fn wait_for_others(&mut self, (executed, polls): (u64, u64)) {
        if executed <= POLL_DISTANCE * polls && self.launch.progress.runs_before(self.number) {
            self.budget += executed;
            std::thread::yield_now();
        }
    }

    /// Records an access, if tracing is on.
    pub(super) fn trace(
        &mut self,
        warp: &Warp,
        movement: Movement,
        access: (&Longs, u32, u32),
        words: &[Words],
    ) {
        if let Some(trace) = &mut self.trace
            && self.launch.order.is_selected(warp.block)
        {
            trace.push(MemoryAccess::new(
                movement,
                (warp.position.index, warp.barriers),
                access,
                words,
            ));
        }
    }

    /// Counts executed instructions and charges them to the budget.
    pub(super) fn spend(&mut self, instructions: u64) {
        self.executed += instructions;
        self.budget = self.budget.saturating_sub(instructions);
    }

    /// Instruction budget of the whole cluster.
    pub(super) fn whole_budget(&self) -> u64 {
        self.launch.options.instruction_budget.saturating_mul(self.blocks as u64)
    }
}
