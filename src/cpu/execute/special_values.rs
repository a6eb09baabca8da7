//! Values of the special registers of a thread (ISA section 10).

use super::limits::LaunchExtents;
use crate::cpu::kernel_code::KernelCode;
use crate::cpu::operation::SpecialRegister;

/// Index of a thread in x, y and z.
pub(super) fn thread_index(block: [u32; 3], thread: u32) -> [u32; 3] {
    [thread % block[0], thread / block[0] % block[1], thread / block[0] / block[1]]
}

pub(super) fn special_value(
    special: SpecialRegister,
    code: &KernelCode,
    extents: LaunchExtents,
    block: [u32; 3],
    thread: u32,
) -> u32 {
    let index = thread_index(extents.block, thread);
    let cluster = extents.cluster;
    let within: [u32; 3] = std::array::from_fn(|at| block[at] % cluster[at]);
    let lane = thread % 32;
    let below = (1_u32 << lane) - 1;
    match special {
        SpecialRegister::ThreadX => index[0],
        SpecialRegister::ThreadY => index[1],
        SpecialRegister::ThreadZ => index[2],
        SpecialRegister::ThreadsX => extents.block[0],
        SpecialRegister::ThreadsY => extents.block[1],
        SpecialRegister::ThreadsZ => extents.block[2],
        SpecialRegister::BlockX => block[0],
        SpecialRegister::BlockY => block[1],
        SpecialRegister::BlockZ => block[2],
        SpecialRegister::BlocksX => extents.grid[0],
        SpecialRegister::BlocksY => extents.grid[1],
        SpecialRegister::BlocksZ => extents.grid[2],
        SpecialRegister::ClusterX => block[0] / cluster[0],
        SpecialRegister::ClusterY => block[1] / cluster[1],
        SpecialRegister::ClusterZ => block[2] / cluster[2],
        SpecialRegister::ClustersX => extents.grid[0] / cluster[0],
        SpecialRegister::ClustersY => extents.grid[1] / cluster[1],
        SpecialRegister::ClustersZ => extents.grid[2] / cluster[2],
        SpecialRegister::BlockOfClusterX => within[0],
        SpecialRegister::BlockOfClusterY => within[1],
        SpecialRegister::BlockOfClusterZ => within[2],
        SpecialRegister::BlocksOfClusterX => cluster[0],
        SpecialRegister::BlocksOfClusterY => cluster[1],
        SpecialRegister::BlocksOfClusterZ => cluster[2],
        SpecialRegister::Rank => within[0] + cluster[0] * (within[1] + cluster[1] * within[2]),
        SpecialRegister::Ranks => cluster.iter().product(),
        SpecialRegister::Lane => lane,
        SpecialRegister::Warp => thread / 32,
        SpecialRegister::Warps => extents.block.iter().product::<u32>().div_ceil(32),
        SpecialRegister::LaneMaskEqual => 1 << lane,
        SpecialRegister::LaneMaskBelow => below,
        SpecialRegister::LaneMaskUpTo => below | 1 << lane,
        SpecialRegister::LaneMaskAbove => !(below | 1 << lane),
        SpecialRegister::LaneMaskFrom => !below,
        SpecialRegister::DynamicSharedBytes => extents.dynamic_shared,
        SpecialRegister::SharedBytes => {
            (code.static_shared_bytes as u32).saturating_add(extents.dynamic_shared)
        }
    }
}
