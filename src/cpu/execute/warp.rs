//! A warp: its lanes' values, where its lanes are, and what they wait for.

use super::barrier_state::ReductionInput;
use super::limits::LaunchExtents;
use super::mbarrier_state::PhaseWait;
use super::registers::Registers;
use super::special_values::special_value;
use crate::cpu::kernel_code::KernelCode;
use crate::cpu::operation::{BarrierMode, ClusterBarrierStep, Words};
use crate::cpu::vector_clock::VectorClock;

/// Lanes that are at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SimtFrame {
    /// The step they execute next.
    pub(super) at: u32,
    pub(super) lanes: u32,
    /// The step where they meet the lanes of the frame below.
    pub(super) reconvergence: u32,
}

/// What a warp does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WarpState {
    Ready,
    Waiting(WarpWait),
    Ended,
}

/// Where a warp waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WarpWait {
    /// At a barrier of a block, by its number among those of the cluster.
    Barrier(usize),
    /// For the cluster.
    Cluster,
    /// For the end of a phase of an mbarrier.
    Phase(PhaseWait),
}

/// Why a warp stopped running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WarpPause {
    /// Its turn is over.
    Turn,
    Barrier {
        id: usize,
        threads: Option<u32>,
        mode: BarrierMode,
        reduction: Option<ReductionInput>,
    },
    Cluster(ClusterBarrierStep),
    /// The phase of an mbarrier is not over; the step is to be executed again when it is.
    Phase(PhaseWait),
    Ended,
}

/// How a warp stands to the barrier of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClusterArrival {
    NotArrived,
    /// It has come there, others have not.
    Arrived,
    /// All have come, and it need not wait.
    Released,
}

/// A copy to shared memory that is not waited for yet. The bytes are read when it is issued and
/// arrive when it is waited for, the latest moment that PTX allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingAsyncCopy {
    pub(super) lane: usize,
    pub(super) group: u32,
    pub(super) to: u64,
    pub(super) bytes: u32,
    pub(super) words: [u32; 4],
}

/// Where a warp belongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct WarpPosition {
    /// Among the warps of its cluster.
    pub(super) number: usize,
    /// Among the warps of its block.
    pub(super) index: usize,
    /// That of its block in the cluster.
    pub(super) rank: usize,
    /// Where its block's shared memory begins in the cluster's.
    pub(super) shared: u64,
}

/// A warp of a block.
#[derive(Debug)]
pub(super) struct Warp {
    pub(super) position: WarpPosition,
    /// The index of its block.
    pub(super) block: [u32; 3],
    pub(super) registers: Registers,
    /// The lanes at different places, those to run next last. Below a frame lie the lanes that
    /// it meets.
    pub(super) stack: Vec<SimtFrame>,
    /// Lanes that have not ended.
    pub(super) alive: u32,
    pub(super) state: WarpState,
    pub(super) cluster_arrival: ClusterArrival,
    /// Barriers of the block and of the cluster that it has passed.
    pub(super) barriers: u32,
    pub(super) local: Vec<u32>,
    /// For every 4 bytes of local memory, the bytes that were written.
    pub(super) local_written: Vec<u8>,
    pub(super) copies: Vec<PendingAsyncCopy>,
    /// Groups of copies that each lane has committed.
    pub(super) groups: Words,
    pub(super) clocks: VectorClock,
    /// What the clocks were at the last fence, in a cluster of several blocks.
    pub(super) fenced: Option<VectorClock>,
}

impl Warp {
    pub(super) fn new(code: &KernelCode, position: WarpPosition) -> Self {
        Self {
            position,
            block: [0; 3],
            registers: Registers::new(code.slots),
            stack: Vec::new(),
            alive: 0,
            state: WarpState::Ready,
            cluster_arrival: ClusterArrival::NotArrived,
            barriers: 0,
            local: vec![0; (code.local_bytes.div_ceil(4) * 32) as usize],
            local_written: vec![0; (code.local_bytes.div_ceil(4) * 32) as usize],
            copies: Vec::new(),
            groups: [0; 32],
            clocks: VectorClock::new(position.number + 1, position.number),
            fenced: None,
        }
    }

    /// Begins a block of a cluster with so many warps.
    pub(super) fn begin(
        &mut self,
        code: &KernelCode,
        extents: LaunchExtents,
        block: [u32; 3],
        warps: usize,
    ) {
        self.block = block;
        self.barriers = 0;
        let threads: u32 = extents.block.iter().product();
        let first = 32 * self.position.index as u32;
        let lanes = (threads - first).min(32);
        self.alive = u32::MAX >> (32 - lanes);
        self.stack.clear();
        self.stack.push(SimtFrame { at: 0, lanes: self.alive, reconvergence: u32::MAX });
        self.state = WarpState::Ready;
        self.cluster_arrival = ClusterArrival::NotArrived;
        self.local.fill(0);
        self.local_written.fill(0);
        self.copies.clear();
        self.groups = [0; 32];
        self.clocks = VectorClock::new(warps, self.position.number);
        self.fenced = None;
        self.registers.reset(&code.pinned);
        for (special, slot) in &code.pinned.specials {
            let values: Words = std::array::from_fn(|lane| {
                special_value(*special, code, extents, block, first + lane as u32)
            });
            self.registers.set_word(*slot, &values, u32::MAX);
        }
    }

    /// The step that it executed last.
    pub(super) fn last_step(&self) -> usize {
        self.stack.last().map_or(0, |frame| frame.at.saturating_sub(1) as usize)
    }
}
