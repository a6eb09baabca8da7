//! Launch context: the input that all clusters of a launch share.

use super::cluster_order::ClusterOrder;
use super::limits::LaunchExtents;
use super::options::LaunchOptions;
use super::progress::LaunchProgress;
use crate::cpu::memory::GlobalMemory;
use crate::cpu::module::PtxKernel;

/// A validated launch.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaunchContext<'a> {
    pub(super) kernel: &'a PtxKernel,
    pub(super) extents: LaunchExtents,
    pub(super) parameters: &'a [u32],
    pub(super) memory: &'a GlobalMemory,
    pub(super) options: &'a LaunchOptions,
    pub(super) order: &'a ClusterOrder<'a>,
    pub(super) progress: &'a LaunchProgress,
}
