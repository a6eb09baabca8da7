//! Resolution of shared memory addresses in a cluster: the block, the bounds of its variables, and
//! its lifetime.
//!
//! A block's shared memory exists only between its start and its end. Cluster barriers must order
//! accesses of other blocks accordingly (CUDA C++ Programming Guide, distributed shared memory).

use super::cluster_state::ClusterState;
use super::remote_access::{RemoteAccess, RemoteAccesses};
use super::warp::Warp;
use crate::cpu::checks::{LaneViolation, ViolationKind};
use crate::cpu::layout::{CLUSTER_END, WINDOW_BYTES};
use crate::cpu::types::Space;

impl Warp {
    /// Position in the cluster's shared memory of an address of [`Space::Shared`] or
    /// [`Space::Cluster`], with bounds checked against one variable.
    #[inline(always)]
    pub(super) fn find_shared<const CHECKED: bool>(
        &self,
        cluster: &mut ClusterState<'_>,
        space: Space,
        lane: usize,
        address: u64,
        bytes: u32,
    ) -> Result<u64, LaneViolation> {
        let (start, inside) = match space {
            Space::Cluster => self.reach::<CHECKED>(cluster, lane, address)?,
            _ => (self.position.shared, address),
        };
        check_shared(cluster, lane, inside, bytes)?;
        if CHECKED && space == Space::Cluster && start != self.position.shared {
            self.record_remote_access(cluster, lane, (start, inside));
        }
        Ok(start + inside)
    }

    /// The same for the target of a tensor copy, which is in flight until the phase of its mbarrier ends.
    pub(super) fn find_target<const CHECKED: bool>(
        &self,
        cluster: &ClusterState<'_>,
        lane: usize,
        address: u64,
        bytes: u32,
    ) -> Result<u64, LaneViolation> {
        let (start, inside) = self.reach::<CHECKED>(cluster, lane, address)?;
        check_shared(cluster, lane, inside, bytes)?;
        Ok(start + inside)
    }

    /// Records an access to the shared memory of another block, which begins at `start`.
    fn record_remote_access(
        &self,
        cluster: &mut ClusterState<'_>,
        lane: usize,
        (start, address): (u64, u64),
    ) {
        let RemoteAccesses { warps, last, .. } = &mut cluster.remote_accesses;
        let rank = (start / cluster.shared_stride) as usize;
        if let Some(last) = last.get_mut(rank * *warps + self.position.number) {
            let clock = self.clocks.now(self.position.number);
            *last = RemoteAccess { clock, step: self.last_step(), lane, address };
        }
    }

    /// Resolves a `.shared::cluster` address to the start of its block's shared memory and the
    /// offset in it.
    fn reach<const CHECKED: bool>(
        &self,
        cluster: &ClusterState<'_>,
        lane: usize,
        address: u64,
    ) -> Result<(u64, u64), LaneViolation> {
        let (window, inside) = (address / WINDOW_BYTES, address % WINDOW_BYTES);
        let rank = window.checked_sub(1).map_or(self.position.rank, |rank| rank as usize);
        if rank == self.position.rank {
            return Ok((self.position.shared, inside));
        }
        let wrong = |kind, text| Err(LaneViolation::access(kind, lane, address, text));
        if rank >= cluster.blocks {
            let text = format!(
                "the address belongs to no block of the cluster of {} blocks",
                cluster.blocks
            );
            return wrong(ViolationKind::OutOfBounds, text);
        }
        if cluster.remote_accesses.ended >> rank & 1 == 1 {
            let text = format!(
                "block {rank} of the cluster has ended, so its shared memory no longer exists"
            );
            return wrong(ViolationKind::OutOfBounds, text);
        }
        if CHECKED && !cluster.remote_accesses.last.is_empty() {
            let each = cluster.remote_accesses.warps / cluster.blocks;
            if !self.clocks.covers_any(rank * each..(rank + 1) * each) {
                let text = format!(
                    "no cluster barrier orders the start of block {rank} before this access to its \
                     shared memory"
                );
                return wrong(ViolationKind::Race, text);
            }
        }
        Ok((rank as u64 * cluster.shared_stride, inside))
    }
}

/// Checks that an access is within one variable of the block.
#[inline(always)]
pub(super) fn check_shared(
    cluster: &ClusterState<'_>,
    lane: usize,
    address: u64,
    bytes: u32,
) -> Result<(), LaneViolation> {
    let end = address.wrapping_add(bytes.into());
    let inside =
        cluster.segments.iter().any(|segment| segment.start <= address && end <= segment.end);
    if inside && address < end {
        Ok(())
    } else {
        Err(outside_shared(cluster, lane, address, bytes))
    }
}

#[cold]
fn outside_shared(
    cluster: &ClusterState<'_>,
    lane: usize,
    address: u64,
    bytes: u32,
) -> LaneViolation {
    if (WINDOW_BYTES..CLUSTER_END).contains(&address) {
        let text = "a `.shared::cluster` address is used in `.shared::cta` memory";
        return LaneViolation::access(ViolationKind::OutOfBounds, lane, address, text.to_owned());
    }
    let before = cluster
        .segments
        .iter()
        .rev()
        .find(|segment| segment.start <= address && segment.start < segment.end);
    let text = match before {
        Some(segment) => format!(
            "{bytes} bytes of shared memory are {} bytes past the start of `{}`, which has {} bytes",
            address - segment.start,
            segment.name,
            segment.end - segment.start,
        ),
        None => format!("the block has no shared memory at {address:#x}"),
    };
    LaneViolation::access(ViolationKind::OutOfBounds, lane, address, text)
}
