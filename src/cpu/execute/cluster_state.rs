//! State that the warps of a cluster share: shared memory, barriers, checks, counters and the budget.

use super::barrier_state::BarrierStates;
use super::context::LaunchContext;
use super::mbarrier_state::Mbarriers;
use super::remote_access::RemoteAccesses;
use super::warp::Warp;
use crate::cpu::kernel_code::SharedSegment;
use crate::cpu::operation::{Longs, Words};
use crate::cpu::shadow::ShadowMemory;
use crate::cpu::step_counts::StepCounts;
use crate::cpu::trace::{MemoryAccess, Movement};

/// A cluster with a poll in this many instructions of its warps is taken to wait for another: a
/// loop of one warp has about ten, and 32 warps that meet at a barrier in it a few hundred.
const POLL_DISTANCE: u64 = 1 << 10;

/// What the warps of a cluster have in common.
#[derive(Debug)]
pub(super) struct ClusterState<'a> {
    pub(super) launch: LaunchContext<'a>,
    /// Its place in the order in which clusters begin.
    pub(super) number: usize,
    /// Blocks of a cluster.
    pub(super) blocks: usize,
    /// The shared memory of all blocks, one after the other.
    pub(super) shared: Vec<u32>,
    /// How far apart the shared memory of one block and of the next begin.
    pub(super) shared_stride: u64,
    /// What a block's shared memory is divided into.
    pub(super) segments: Vec<SharedSegment>,
    pub(super) shadow: ShadowMemory,
    pub(super) reaches: RemoteAccesses,
    pub(super) counts: Vec<StepCounts>,
    /// What was accessed, where that is kept.
    pub(super) trace: Option<Vec<MemoryAccess>>,
    /// Instructions that are left of the budget.
    pub(super) budget: u64,
    /// Instructions executed.
    pub(super) executed: u64,
    /// Accesses with which the cluster may be looking whether another has done something.
    pub(super) polls: u64,
    pub(super) barriers: BarrierStates,
    pub(super) mbarriers: Mbarriers,
}

impl ClusterState<'_> {
    /// Lets other clusters run if this one spent a round of its warps looking what they do. As long
    /// as one before it runs, that costs nothing: the first of all always pays, so that a launch
    /// ends.
    pub(super) fn wait_for_others(&mut self, (executed, polls): (u64, u64)) {
        if executed <= POLL_DISTANCE * polls && self.launch.progress.runs_before(self.number) {
            self.budget += executed;
            std::thread::yield_now();
        }
    }

    /// Keeps an access, if that is asked for.
    pub(super) fn trace(
        &mut self,
        warp: &Warp,
        movement: Movement,
        access: (&Longs, u32, u32),
        words: &[Words],
    ) {
        if let Some(trace) = &mut self.trace
            && self.launch.order.is_wanted(warp.block)
        {
            trace.push(MemoryAccess::new(
                movement,
                (warp.position.index, warp.barriers),
                access,
                words,
            ));
        }
    }

    /// Counts instructions that were executed.
    pub(super) fn spend(&mut self, instructions: u64) {
        self.executed += instructions;
        self.budget = self.budget.saturating_sub(instructions);
    }

    /// The budget of the whole cluster.
    pub(super) fn whole_budget(&self) -> u64 {
        self.launch.options.instruction_budget.saturating_mul(self.blocks as u64)
    }
}
