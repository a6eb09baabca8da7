//! Trace of the memory accesses of a block's warps, for pictures of data movement.

use super::access_cost::wavefronts;

/// Direction of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Movement {
    /// From global memory to registers.
    GlobalLoad,
    /// From registers to global memory.
    GlobalStore,
    /// From registers to shared memory.
    SharedStore,
    /// From global to shared memory, without registers.
    Copy,
}

/// One memory access of a warp. Loads from shared memory are not traced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryAccess {
    /// Direction of the access.
    pub movement: Movement,
    /// Index of the warp in its block.
    pub warp: usize,
    /// Number of barriers that the warp had passed.
    pub barriers: u32,
    /// Mask of the participating lanes.
    pub lanes: u32,
    /// Address of each lane; for a copy, its destination.
    pub addresses: [u64; 32],
    /// Bytes that each lane moved.
    pub bytes: u32,
    /// Words that each lane moved; zeros for a copy that reads nothing.
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
            bytes,
            words: words[..bytes.div_ceil(4) as usize].to_vec(),
            conflicts,
        }
    }
}
