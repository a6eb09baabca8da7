//! State of a warp: registers, divergence stack, waits and pending copies.

use super::barrier_state::ReductionInput;
use super::bulk_stores::BulkStores;
use super::limits::LaunchExtents;
use super::mbarrier_state::PhaseWait;
use super::product_state::ProductState;
use super::registers::Registers;
use super::special_values::special_value;
use crate::cpu::kernel_code::KernelCode;
use crate::cpu::operation::{BarrierMode, ClusterBarrierStep, Words};
use crate::cpu::vector_clock::VectorClock;

/// Frame of the divergence stack: lanes at the same step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SimtFrame {
    /// Next step of the lanes.
    pub(super) at: u32,
    pub(super) lanes: u32,
    /// Step where the lanes reconverge with the frame below.
    pub(super) reconvergence: u32,
}

/// Scheduling state of a warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WarpState {
    Ready,
    Waiting(WarpWait),
    Ended,
}

/// Event that a warp waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WarpWait {
    /// A barrier of a block, by its index in the cluster.
    Barrier(usize),
    /// The cluster barrier.
    Cluster,
    /// The completion of a phase of an mbarrier.
    Phase(PhaseWait),
}

/// Reason why a warp paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WarpPause {
    /// Its turn has ended.
    Turn,
    Barrier {
        id: usize,
        threads: Option<u32>,
        mode: BarrierMode,
        reduction: Option<ReductionInput>,
    },
    Cluster(ClusterBarrierStep),
    /// A phase of an mbarrier is incomplete; the step is repeated after its completion.
    Phase(PhaseWait),
    Ended,
}

/// State of a warp at the cluster barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClusterArrival {
    NotArrived,
    /// Arrived, while others are missing.
    Arrived,
    /// All have arrived; a wait returns immediately.
    Released,
}

/// Arrivals of a warp at the cluster barrier.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClusterArrivals {
    count: u32,
    /// Times of the latest two, by the parity of their number.
    times: [u32; 2],
}

impl ClusterArrivals {
    /// Records an arrival at a time of the warp.
    pub(super) fn record(&mut self, time: u32) {
        self.count += 1;
        self.times[self.count as usize % 2] = time;
    }

    /// When another warp arrived at the phase of these latest arrivals; `None` if it has not.
    pub(super) fn time_of(&self, other: &Self) -> Option<u32> {
        (other.count >= self.count).then(|| other.times[self.count as usize % 2])
    }
}

/// An asynchronous copy in flight. Its bytes are read at issue and arrive at the wait, the latest
/// time that PTX allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingAsyncCopy {
    pub(super) lane: usize,
    pub(super) group: u32,
    pub(super) to: u64,
    pub(super) bytes: u32,
    pub(super) words: [u32; 4],
}

/// Position of a warp in its cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct WarpPosition {
    /// Number in the cluster.
    pub(super) number: usize,
    /// Index in the block.
    pub(super) index: usize,
    /// Rank of its block in the cluster.
    pub(super) rank: usize,
    /// Start of its block's shared memory in the cluster's.
    pub(super) shared: u64,
}

/// A warp of a block.
#[derive(Debug)]
pub(super) struct Warp {
    pub(super) position: WarpPosition,
    /// Index of its block.
    pub(super) block: [u32; 3],
    pub(super) registers: Registers,
    /// Divergence stack, the frame to run next last.
    pub(super) stack: Vec<SimtFrame>,
    /// Lanes that have not exited.
    pub(super) alive: u32,
    /// The latest step at which lanes have exited.
    pub(super) exit: usize,
    /// Lanes that have executed `griddepcontrol.wait`.
    pub(super) waited: u32,
    pub(super) state: WarpState,
    pub(super) cluster_arrival: ClusterArrival,
    /// Its arrivals at the cluster barrier, in checked runs.
    pub(super) arrivals: ClusterArrivals,
    /// Number of block and cluster barriers passed.
    pub(super) barriers: u32,
    pub(super) local: Vec<u32>,
    /// For every 4 bytes of local memory, a mask of the written bytes.
    pub(super) local_written: Vec<u8>,
    pub(super) copies: Vec<PendingAsyncCopy>,
    /// Committed copy groups of each lane.
    pub(super) groups: Words,
    pub(super) clocks: VectorClock,
    /// Clock at the last fence, in a cluster of several blocks.
    pub(super) fenced: Option<VectorClock>,
    pub(super) products: ProductState,
    pub(super) stores: BulkStores,
}

impl Warp {
    pub(super) fn new(code: &KernelCode, position: WarpPosition) -> Self {
        Self {
            position,
            block: [0; 3],
            registers: Registers::new(code.slots),
            stack: Vec::new(),
            alive: 0,
            exit: 0,
            waited: 0,
            state: WarpState::Ready,
            cluster_arrival: ClusterArrival::NotArrived,
            arrivals: ClusterArrivals::default(),
            barriers: 0,
            local: vec![0; (code.local_bytes.div_ceil(4) * 32) as usize],
            local_written: vec![0; (code.local_bytes.div_ceil(4) * 32) as usize],
            copies: Vec::new(),
            groups: [0; 32],
            clocks: VectorClock::new(position.number + 1, position.number),
            fenced: None,
            products: ProductState::new(code),
            stores: BulkStores::default(),
        }
    }

    /// Begins a block, in a cluster with `warps` warps.
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
        self.waited = 0;
        self.stack.clear();
        self.stack.push(SimtFrame { at: 0, lanes: self.alive, reconvergence: u32::MAX });
        self.state = WarpState::Ready;
        self.cluster_arrival = ClusterArrival::NotArrived;
        self.arrivals = ClusterArrivals::default();
        self.local.fill(0);
        self.local_written.fill(0);
        self.copies.clear();
        self.groups = [0; 32];
        self.clocks = VectorClock::new(warps, self.position.number);
        self.fenced = None;
        self.products.reset();
        self.stores = BulkStores::default();
        self.registers.reset(&code.pinned);
        for (special, slot) in &code.pinned.specials {
            let values: Words = std::array::from_fn(|lane| {
                special_value(*special, code, extents, block, first + lane as u32)
            });
            self.registers.set_word(*slot, &values, u32::MAX);
        }
    }

    /// The latest executed step.
    pub(super) fn last_step(&self) -> usize {
        self.stack.last().map_or(self.exit, |frame| frame.at.saturating_sub(1) as usize)
    }
}
