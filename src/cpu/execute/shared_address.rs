//! Where a cluster has an address of shared memory: whose it is, whether it belongs to a variable,
//! and whether the block is there. Another block is not before it begins, nor after it ends;
//! barriers of the cluster must see to both (CUDA C++ Programming Guide, distributed shared
//! memory).

use super::cluster_state::ClusterState;
use super::remote_access::RemoteAccess;
use super::warp::Warp;
use crate::cpu::checks::{LaneViolation, ViolationKind};
use crate::cpu::layout::{CLUSTER_END, WINDOW_BYTES};
use crate::cpu::types::Space;

impl Warp {
    /// Where the shared memory of the cluster has an address of [`Space::Shared`] or
    /// [`Space::Cluster`] whose bytes are all within one variable.
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
        Ok(start + inside)
    }

    /// Where the shared memory begins that an address of `.shared::cluster` means, and what of the
    /// address counts from there.
    fn reach<const CHECKED: bool>(
        &self,
        cluster: &mut ClusterState<'_>,
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
                "the address belongs to no block of the cluster, which has {}",
                cluster.blocks
            );
            return wrong(ViolationKind::OutOfBounds, text);
        }
        if cluster.reaches.ended >> rank & 1 == 1 {
            let text =
                format!("block {rank} of the cluster has ended, and its shared memory with it");
            return wrong(ViolationKind::OutOfBounds, text);
        }
        if CHECKED && !cluster.reaches.last.is_empty() {
            let each = cluster.reaches.warps / cluster.blocks;
            if !self.clocks.know_any(rank * each..(rank + 1) * each) {
                let text = format!(
                    "no barrier of the cluster sees to it that block {rank} of it has begun before this \
                     access to its shared memory"
                );
                return wrong(ViolationKind::Race, text);
            }
            let clock = self.clocks.now(self.position.number);
            let step = self.last_step();
            let last = rank * cluster.reaches.warps + self.position.number;
            cluster.reaches.last[last] = RemoteAccess { clock, step, lane, address: inside };
        }
        Ok((rank as u64 * cluster.shared_stride, inside))
    }
}

/// Makes sure that an access of a block is within one of its variables.
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
        let text =
            "an address of `.shared::cluster` is used as one of the block's own shared memory";
        return LaneViolation::access(ViolationKind::OutOfBounds, lane, address, text.to_owned());
    }
    let before = cluster
        .segments
        .iter()
        .rev()
        .find(|segment| segment.start <= address && segment.start < segment.end);
    let text = match before {
        Some(segment) => format!(
            "{bytes} bytes of shared memory are {} bytes past the beginning of `{}`, which has {} bytes",
            address - segment.start,
            segment.name,
            segment.end - segment.start,
        ),
        None => format!("the block has no shared memory at {address:#x}"),
    };
    LaneViolation::access(ViolationKind::OutOfBounds, lane, address, text)
}
