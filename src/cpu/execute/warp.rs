//! A warp: its lanes' values, where its lanes are, and what they wait for.

use super::phases::Awaited;
use super::registers::Registers;
use crate::cpu::decode::{Kernel, Special};
use crate::cpu::operation::Words;
use crate::cpu::shadow::Clocks;

use super::Extents;

/// Lanes that are at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// The step they execute next.
    pub(super) at: u32,
    pub(super) lanes: u32,
    /// The step where they meet the lanes of the frame below.
    pub(super) meet: u32,
}

/// What a warp does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    Waiting(Wait),
    Ended,
}

/// Where a warp waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// At a barrier of a block, by its number among those of the cluster.
    Barrier(usize),
    /// For the cluster.
    Cluster,
    /// For the end of a phase of an mbarrier.
    Phase(Awaited),
}

/// How a warp stands to the barrier of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meeting {
    Away,
    /// It has come there, others have not.
    Come,
    /// All have come, and it need not wait.
    Met,
}

/// A copy to shared memory that is not waited for yet. The bytes are read when it is issued and
/// arrive when it is waited for, the latest moment that PTX allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingCopy {
    pub(super) lane: usize,
    pub(super) group: u32,
    pub(super) to: u64,
    pub(super) bytes: u32,
    pub(super) words: [u32; 4],
}

/// Where a warp belongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
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
    pub(super) place: Place,
    /// The index of its block.
    pub(super) block: [u32; 3],
    pub(super) registers: Registers,
    /// The lanes at different places, those to run next last. Below a frame lie the lanes that
    /// it meets.
    pub(super) frames: Vec<Frame>,
    /// Lanes that have not ended.
    pub(super) alive: u32,
    pub(super) state: State,
    pub(super) meeting: Meeting,
    /// Barriers of the block and of the cluster that it has passed.
    pub(super) barriers: u32,
    pub(super) local: Vec<u32>,
    /// For every 4 bytes of local memory, the bytes that were written.
    pub(super) local_written: Vec<u8>,
    pub(super) copies: Vec<PendingCopy>,
    /// Groups of copies that each lane has committed.
    pub(super) groups: Words,
    pub(super) clocks: Clocks,
    /// What the clocks were at the last fence, in a cluster of several blocks.
    pub(super) fenced: Option<Clocks>,
}

impl Warp {
    pub(super) fn new(code: &Kernel, place: Place) -> Self {
        Self {
            place,
            block: [0; 3],
            registers: Registers::new(code.slots),
            frames: Vec::new(),
            alive: 0,
            state: State::Ready,
            meeting: Meeting::Away,
            barriers: 0,
            local: vec![0; (code.local_bytes.div_ceil(4) * 32) as usize],
            local_written: vec![0; (code.local_bytes.div_ceil(4) * 32) as usize],
            copies: Vec::new(),
            groups: [0; 32],
            clocks: Clocks::new(place.number + 1, place.number),
            fenced: None,
        }
    }

    /// Begins a block of a cluster with so many warps.
    pub(super) fn begin(&mut self, code: &Kernel, extents: Extents, block: [u32; 3], warps: usize) {
        self.block = block;
        self.barriers = 0;
        let threads: u32 = extents.block.iter().product();
        let first = 32 * self.place.index as u32;
        let lanes = (threads - first).min(32);
        self.alive = u32::MAX >> (32 - lanes);
        self.frames.clear();
        self.frames.push(Frame { at: 0, lanes: self.alive, meet: u32::MAX });
        self.state = State::Ready;
        self.meeting = Meeting::Away;
        self.local.fill(0);
        self.local_written.fill(0);
        self.copies.clear();
        self.groups = [0; 32];
        self.clocks = Clocks::new(warps, self.place.number);
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
        self.frames.last().map_or(0, |frame| frame.at.saturating_sub(1) as usize)
    }
}

/// The index of a thread in x, y and z.
pub(super) fn thread_index(block: [u32; 3], thread: u32) -> [u32; 3] {
    [thread % block[0], thread / block[0] % block[1], thread / block[0] / block[1]]
}

fn special_value(
    special: Special,
    code: &Kernel,
    extents: Extents,
    block: [u32; 3],
    thread: u32,
) -> u32 {
    let index = thread_index(extents.block, thread);
    let cluster = extents.cluster;
    let within: [u32; 3] = std::array::from_fn(|at| block[at] % cluster[at]);
    let lane = thread % 32;
    let below = (1_u32 << lane) - 1;
    match special {
        Special::ThreadX => index[0],
        Special::ThreadY => index[1],
        Special::ThreadZ => index[2],
        Special::ThreadsX => extents.block[0],
        Special::ThreadsY => extents.block[1],
        Special::ThreadsZ => extents.block[2],
        Special::BlockX => block[0],
        Special::BlockY => block[1],
        Special::BlockZ => block[2],
        Special::BlocksX => extents.grid[0],
        Special::BlocksY => extents.grid[1],
        Special::BlocksZ => extents.grid[2],
        Special::ClusterX => block[0] / cluster[0],
        Special::ClusterY => block[1] / cluster[1],
        Special::ClusterZ => block[2] / cluster[2],
        Special::ClustersX => extents.grid[0] / cluster[0],
        Special::ClustersY => extents.grid[1] / cluster[1],
        Special::ClustersZ => extents.grid[2] / cluster[2],
        Special::BlockOfClusterX => within[0],
        Special::BlockOfClusterY => within[1],
        Special::BlockOfClusterZ => within[2],
        Special::BlocksOfClusterX => cluster[0],
        Special::BlocksOfClusterY => cluster[1],
        Special::BlocksOfClusterZ => cluster[2],
        Special::Rank => within[0] + cluster[0] * (within[1] + cluster[1] * within[2]),
        Special::Ranks => cluster.iter().product(),
        Special::Lane => lane,
        Special::Warp => thread / 32,
        Special::Warps => extents.block.iter().product::<u32>().div_ceil(32),
        Special::LaneMaskEqual => 1 << lane,
        Special::LaneMaskBelow => below,
        Special::LaneMaskUpTo => below | 1 << lane,
        Special::LaneMaskAbove => !(below | 1 << lane),
        Special::LaneMaskFrom => !below,
        Special::DynamicSharedBytes => extents.dynamic_shared,
        Special::SharedBytes => {
            (code.static_shared_bytes as u32).saturating_add(extents.dynamic_shared)
        }
    }
}
