//! Registers that the hardware fills (ISA section 10), by name.

/// A register that differs between threads, blocks or launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::cpu) enum Special {
    ThreadX,
    ThreadY,
    ThreadZ,
    ThreadsX,
    ThreadsY,
    ThreadsZ,
    BlockX,
    BlockY,
    BlockZ,
    BlocksX,
    BlocksY,
    BlocksZ,
    Lane,
    Warp,
    Warps,
    LaneMaskEqual,
    LaneMaskBelow,
    LaneMaskUpTo,
    LaneMaskAbove,
    LaneMaskFrom,
    DynamicSharedBytes,
    SharedBytes,
}

impl Special {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "%tid.x" => Self::ThreadX,
            "%tid.y" => Self::ThreadY,
            "%tid.z" => Self::ThreadZ,
            "%ntid.x" => Self::ThreadsX,
            "%ntid.y" => Self::ThreadsY,
            "%ntid.z" => Self::ThreadsZ,
            "%ctaid.x" | "%clusterid.x" => Self::BlockX,
            "%ctaid.y" | "%clusterid.y" => Self::BlockY,
            "%ctaid.z" | "%clusterid.z" => Self::BlockZ,
            "%nctaid.x" | "%nclusterid.x" => Self::BlocksX,
            "%nctaid.y" | "%nclusterid.y" => Self::BlocksY,
            "%nctaid.z" | "%nclusterid.z" => Self::BlocksZ,
            "%laneid" => Self::Lane,
            "%warpid" => Self::Warp,
            "%nwarpid" => Self::Warps,
            "%lanemask_eq" => Self::LaneMaskEqual,
            "%lanemask_lt" => Self::LaneMaskBelow,
            "%lanemask_le" => Self::LaneMaskUpTo,
            "%lanemask_gt" => Self::LaneMaskAbove,
            "%lanemask_ge" => Self::LaneMaskFrom,
            "%dynamic_smem_size" => Self::DynamicSharedBytes,
            "%total_smem_size" | "%aggr_smem_size" => Self::SharedBytes,
            _ => return None,
        })
    }
}

/// What is the same for all threads here: there is one processor, and every block is a cluster of
/// its own.
pub(super) fn constant(name: &str) -> Option<u64> {
    Some(match name {
        "WARP_SZ" => 32,
        "%smid" | "%gridid" => 0,
        "%nsmid" => 1,
        "%cluster_ctarank" | "%cluster_ctaid.x" | "%cluster_ctaid.y" | "%cluster_ctaid.z" => 0,
        "%cluster_nctarank" | "%cluster_nctaid.x" | "%cluster_nctaid.y" | "%cluster_nctaid.z" => 1,
        _ => return None,
    })
}
