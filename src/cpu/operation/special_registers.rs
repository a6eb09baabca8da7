//! Special registers (ISA section 10).

/// A special register that differs between threads, blocks or launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::cpu) enum SpecialRegister {
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
    ClusterX,
    ClusterY,
    ClusterZ,
    ClustersX,
    ClustersY,
    ClustersZ,
    BlockOfClusterX,
    BlockOfClusterY,
    BlockOfClusterZ,
    BlocksOfClusterX,
    BlocksOfClusterY,
    BlocksOfClusterZ,
    Rank,
    Ranks,
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

impl SpecialRegister {
    pub(in crate::cpu) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "%tid.x" => Self::ThreadX,
            "%tid.y" => Self::ThreadY,
            "%tid.z" => Self::ThreadZ,
            "%ntid.x" => Self::ThreadsX,
            "%ntid.y" => Self::ThreadsY,
            "%ntid.z" => Self::ThreadsZ,
            "%ctaid.x" => Self::BlockX,
            "%ctaid.y" => Self::BlockY,
            "%ctaid.z" => Self::BlockZ,
            "%nctaid.x" => Self::BlocksX,
            "%nctaid.y" => Self::BlocksY,
            "%nctaid.z" => Self::BlocksZ,
            "%clusterid.x" => Self::ClusterX,
            "%clusterid.y" => Self::ClusterY,
            "%clusterid.z" => Self::ClusterZ,
            "%nclusterid.x" => Self::ClustersX,
            "%nclusterid.y" => Self::ClustersY,
            "%nclusterid.z" => Self::ClustersZ,
            "%cluster_ctaid.x" => Self::BlockOfClusterX,
            "%cluster_ctaid.y" => Self::BlockOfClusterY,
            "%cluster_ctaid.z" => Self::BlockOfClusterZ,
            "%cluster_nctaid.x" => Self::BlocksOfClusterX,
            "%cluster_nctaid.y" => Self::BlocksOfClusterY,
            "%cluster_nctaid.z" => Self::BlocksOfClusterZ,
            "%cluster_ctarank" => Self::Rank,
            "%cluster_nctarank" => Self::Ranks,
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

/// Value of a special register that is constant on this device, which has one processor.
pub(in crate::cpu) fn special_constant(name: &str) -> Option<u64> {
    Some(match name {
        "WARP_SZ" => 32,
        "%smid" | "%gridid" => 0,
        "%nsmid" => 1,
        _ => return None,
    })
}
