//! What a block's warps bring from and to memory, access by access: for pictures of who moves what.

use super::access_cost::wavefronts;

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Movement {
    /// Global memory is read into registers.
    GlobalLoad,
    /// Registers are written to global memory.
    GlobalStore,
    /// Registers are written to shared memory.
    SharedStore,
    /// Global memory is copied to shared memory, without registers.
    Copy,
}

/// One instruction of a warp that moved something. Loads from shared memory are not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryAccess {
    /// What it does.
    pub movement: Movement,
    /// The warp, by its place in the block.
    pub warp: usize,
    /// How many barriers of the block the warp had passed.
    pub barriers: u32,
    /// The lanes that took part, a bit each.
    pub lanes: u32,
    /// The address of each lane; of a copy, where it goes to.
    pub addresses: [u64; 32],
    /// The words that each lane moved; of a copy that reads nothing, zeros.
    pub words: Vec<[u32; 32]>,
    /// Wavefronts of shared memory that a layout without bank conflicts would not need.
    pub conflicts: u64,
}

impl MemoryAccess {
    pub(super) fn new(
        movement: Movement,
        (warp, barriers): (usize, u32),
        (addresses, lanes, bytes): (&[u64; 32], u32, u32),
        words: &[[u32; 32]],
    ) -> Self {
        let conflicts = match movement {
            Movement::SharedStore | Movement::Copy => {
                let (wavefronts, needed) = wavefronts(addresses, lanes, bytes);
                wavefronts - needed
            }
            Movement::GlobalLoad | Movement::GlobalStore => 0,
        };
        Self {
            movement,
            warp,
            barriers,
            lanes,
            addresses: *addresses,
            words: words[..bytes.div_ceil(4) as usize].to_vec(),
            conflicts,
        }
    }
}
