//! A warp: its lanes' values, where its lanes are, and what they wait for.

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
    /// At the barrier of this number.
    Waiting(usize),
    Ended,
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

/// A warp of a block.
#[derive(Debug)]
pub(super) struct Warp {
    pub(super) index: usize,
    pub(super) registers: Registers,
    /// The lanes at different places, those to run next last. Below a frame lie the lanes that
    /// it meets.
    pub(super) frames: Vec<Frame>,
    /// Lanes that have not ended.
    pub(super) alive: u32,
    pub(super) state: State,
    /// Barriers of the block that it has passed.
    pub(super) barriers: u32,
    pub(super) local: Vec<u32>,
    /// For every 4 bytes of local memory, the bytes that were written.
    pub(super) local_written: Vec<u8>,
    pub(super) copies: Vec<PendingCopy>,
    /// Groups of copies that each lane has committed.
    pub(super) groups: Words,
    pub(super) clocks: Clocks,
}

impl Warp {
    pub(super) fn new(code: &Kernel, index: usize) -> Self {
        Self {
            index,
            registers: Registers::new(code.slots),
            frames: Vec::new(),
            alive: 0,
            state: State::Ready,
            barriers: 0,
            local: vec![0; (code.local_bytes.div_ceil(4) * 32) as usize],
            local_written: vec![0; (code.local_bytes.div_ceil(4) * 32) as usize],
            copies: Vec::new(),
            groups: [0; 32],
            clocks: Clocks::new(index + 1, index),
        }
    }

    /// Begins a block.
    pub(super) fn begin(&mut self, code: &Kernel, extents: Extents, block: [u32; 3]) {
        self.barriers = 0;
        let threads: u32 = extents.block.iter().product();
        let first = 32 * self.index as u32;
        let lanes = (threads - first).min(32);
        self.alive = u32::MAX >> (32 - lanes);
        self.frames.clear();
        self.frames.push(Frame { at: 0, lanes: self.alive, meet: u32::MAX });
        self.state = State::Ready;
        self.local.fill(0);
        self.local_written.fill(0);
        self.copies.clear();
        self.groups = [0; 32];
        self.clocks = Clocks::new(threads.div_ceil(32) as usize, self.index);
        self.registers.reset(&code.pinned);
        for (special, slot) in &code.pinned.specials {
            let values: Words = std::array::from_fn(|lane| {
                special_value(*special, code, extents, block, first + lane as u32)
            });
            self.registers.set_word(*slot, &values, u32::MAX);
        }
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
