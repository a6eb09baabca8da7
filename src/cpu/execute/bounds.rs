//! Validity of accesses to memory: alignment and bounds, and the violations that report them.

use super::cluster_state::ClusterState;
use crate::cpu::allocation::Allocation;
use crate::cpu::checks::{LaneViolation, ViolationKind};
use crate::cpu::layout::MODULE_BASE;
use crate::cpu::types::Space;

/// Checks that an address is a multiple of the access size, a power of two.
#[inline(always)]
pub(super) fn check_alignment(
    space: Space,
    lane: usize,
    address: u64,
    bytes: u32,
) -> Result<(), LaneViolation> {
    if address & u64::from(bytes - 1) == 0 {
        return Ok(());
    }
    Err(misaligned(space, lane, address, bytes))
}

#[cold]
fn misaligned(space: Space, lane: usize, address: u64, bytes: u32) -> LaneViolation {
    let text = format!(
        "{bytes}-byte access to {} at address {address:#x}, {} bytes past a multiple of {bytes}",
        name(space),
        address % u64::from(bytes),
    );
    LaneViolation::access(ViolationKind::Misaligned, lane, address, text)
}

fn name(space: Space) -> &'static str {
    match space {
        Space::Global | Space::Generic => "global memory",
        Space::Shared | Space::Cluster => "shared memory",
        Space::Local => "local memory",
        Space::Constant => "constant memory",
        Space::Parameter => "the parameters",
    }
}

/// Violation for an access outside of its space.
#[cold]
pub(super) fn outside(
    space: Space,
    lane: usize,
    address: u64,
    bytes: u32,
    what: &str,
) -> LaneViolation {
    let text = format!("{bytes} bytes of {} at {address:#x} are outside of {what}", name(space));
    LaneViolation::access(ViolationKind::OutOfBounds, lane, address, text)
}

/// Allocation that contains all bytes of an access.
#[inline(always)]
pub(super) fn find<'a>(
    cluster: &ClusterState<'a>,
    lane: usize,
    address: u64,
    bytes: u32,
) -> Result<(&'a Allocation, u64), LaneViolation> {
    let found = cluster.launch.memory.find(address);
    if let Some(allocation) = found {
        let offset = address - allocation.base;
        if offset + u64::from(bytes) <= allocation.bytes {
            return Ok((allocation, offset));
        }
    }
    let variables: &'a Allocation = &cluster.launch.kernel.variables;
    if let Some(offset) = address.checked_sub(MODULE_BASE)
        && offset.checked_add(bytes.into()).is_some_and(|end| end <= variables.bytes)
    {
        return Ok((variables, offset));
    }
    Err(unmapped(cluster, lane, address, bytes))
}

/// As [`find`], for a write.
#[inline(always)]
pub(super) fn find_writable<'a>(
    cluster: &ClusterState<'a>,
    lane: usize,
    address: u64,
    bytes: u32,
) -> Result<(&'a Allocation, u64), LaneViolation> {
    let found = find(cluster, lane, address, bytes)?;
    if found.0.read_only {
        let name = found.0.name.as_deref().map(|name| format!(", {name}")).unwrap_or_default();
        let text = format!("{bytes} bytes are written to read-only memory{name}");
        return Err(LaneViolation::access(ViolationKind::OutOfBounds, lane, address, text));
    }
    Ok(found)
}

#[cold]
fn unmapped(cluster: &ClusterState<'_>, lane: usize, address: u64, bytes: u32) -> LaneViolation {
    let text = match cluster.launch.memory.find(address) {
        Some(allocation) => {
            let (past, length) = (address - allocation.base, allocation.bytes);
            let what = match &allocation.name {
                Some(name) => format!("{name}, which has {length} bytes"),
                None => format!("an allocation of {length} bytes"),
            };
            format!("{bytes} bytes of global memory are {past} bytes past the start of {what}")
        }
        None => format!("no global memory is mapped at {address:#x}"),
    };
    LaneViolation::access(ViolationKind::OutOfBounds, lane, address, text)
}
