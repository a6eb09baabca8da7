//! Address spaces of an access: the space of each lane's generic address, and the counters of each
//! space.

use super::cluster_state::ClusterState;
use crate::cpu::lanes::lanes;
use crate::cpu::layout::{CLUSTER_END, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use crate::cpu::operation::Longs;
use crate::cpu::types::Space;

/// Groups the lanes of an access by the space of their address, and converts generic addresses to
/// those of the space.
#[inline(always)]
pub(super) fn split(
    space: Space,
    addresses: &mut Longs,
    active: u32,
) -> impl Iterator<Item = (Space, u32)> + use<> {
    let mut parts = [(space, active), (Space::Shared, 0), (Space::Local, 0), (Space::Cluster, 0)];
    if space == Space::Generic {
        parts[0] = (Space::Global, active);
        for lane in lanes(active) {
            for (part, window, bytes) in [
                (1, SHARED_WINDOW, WINDOW_BYTES),
                (2, LOCAL_WINDOW, WINDOW_BYTES),
                (3, SHARED_WINDOW, CLUSTER_END),
            ] {
                let inside = addresses[lane].wrapping_sub(window);
                if inside < bytes {
                    addresses[lane] = inside;
                    parts[part].1 |= 1 << lane;
                    parts[0].1 &= !(1 << lane);
                    break;
                }
            }
        }
    }
    let found = if space == Space::Generic { parts.len() } else { 1 };
    parts.into_iter().take(found).filter(|(_, mask)| *mask != 0)
}

/// Counts an access whose bounds have been checked.
pub(super) fn count(
    cluster: &mut ClusterState<'_>,
    at: usize,
    space: Space,
    addresses: &Longs,
    mask: u32,
    bytes: u32,
) {
    match space {
        Space::Global | Space::Generic => cluster.counts[at].global(addresses, mask, bytes),
        Space::Shared | Space::Cluster => cluster.counts[at].shared(addresses, mask, bytes),
        Space::Local | Space::Constant | Space::Parameter => {}
    }
}
