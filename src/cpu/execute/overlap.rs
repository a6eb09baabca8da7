//! Programmatic dependent launch: a launch may begin while earlier ones still run, and its threads wait for them with
//! `griddepcontrol.wait`. Checks accesses to global memory before the wait, and records those of a launch for the
//! checks of later ones.

use super::bounds::find;
use super::cluster_state::ClusterState;
use super::context::LaunchContext;
use super::tensor_box::TensorBox;
use super::warp::Warp;
use crate::cpu::access_record::GlobalAccess;
use crate::cpu::allocation::Allocation;
use crate::cpu::checks::{ExecutionCheck, LaneViolation, ViolationKind};
use crate::cpu::lanes::lanes;
use crate::cpu::operation::Longs;
use crate::cpu::types::Space;

impl LaunchContext<'_> {
    /// Whether accesses to global memory are recorded, or checked against those of earlier launches.
    #[inline(always)]
    pub(super) fn overlaps(&self) -> bool {
        let options = self.options;
        options.record.is_some() || !options.unfinished.is_empty() || options.follows_unknown
    }
}

impl Warp {
    /// Checks and records the accesses of lanes to global memory. Accesses to other spaces have no effect.
    #[inline(always)]
    pub(super) fn note_global<const CHECKED: bool>(
        &self,
        cluster: &ClusterState<'_>,
        access: GlobalAccess,
        (space, addresses, mask): (Space, &Longs, u32),
        bytes: u32,
    ) -> Result<(), LaneViolation> {
        let is_global = matches!(space, Space::Global | Space::Constant | Space::Generic);
        if CHECKED && is_global && cluster.launch.overlaps() {
            // After the wait there is nothing to check.
            let recorded = cluster.launch.options.record.is_some();
            let mask = if recorded { mask } else { mask & !self.waited };
            return self.note_lanes(cluster, access, (addresses, mask), bytes);
        }
        Ok(())
    }

    #[inline(never)]
    fn note_lanes(
        &self,
        cluster: &ClusterState<'_>,
        access: GlobalAccess,
        (addresses, mask): (&Longs, u32),
        bytes: u32,
    ) -> Result<(), LaneViolation> {
        lanes(mask)
            .try_for_each(|lane| self.note_range(cluster, access, (lane, addresses[lane]), bytes))
    }

    /// Checks and records the access of a lane to a box in global memory.
    pub(super) fn note_box<const CHECKED: bool>(
        &self,
        cluster: &ClusterState<'_>,
        access: GlobalAccess,
        lane: usize,
        tensor: &TensorBox,
    ) -> Result<(), LaneViolation> {
        if !CHECKED || !cluster.launch.overlaps() {
            return Ok(());
        }
        tensor.rows().try_for_each(|row| {
            self.note_range(cluster, access, (lane, row.address), row.bytes as u32)
        })
    }

    /// Checks and records the access of a lane to a range of global memory. The access itself reports bytes out of
    /// bounds.
    fn note_range(
        &self,
        cluster: &ClusterState<'_>,
        access: GlobalAccess,
        (lane, address): (usize, u64),
        bytes: u32,
    ) -> Result<(), LaneViolation> {
        let Ok(place) = find(cluster, lane, address, bytes) else { return Ok(()) };
        if self.waited >> lane & 1 == 0 {
            Self::check_early(cluster, access, place, (lane, address, bytes))?;
        }
        if let Some(record) = &cluster.launch.options.record {
            record.note(access, place, bytes.into());
        }
        Ok(())
    }

    /// Checks an access of a lane that has not waited against the accesses of launches that may still run.
    fn check_early(
        cluster: &ClusterState<'_>,
        access: GlobalAccess,
        place: (&Allocation, u64),
        (lane, address, bytes): (usize, u64, u32),
    ) -> Result<(), LaneViolation> {
        let options = cluster.launch.options;
        if !options.checks.has(ExecutionCheck::Race) {
            return Ok(());
        }
        for (later, earlier) in options.unfinished.iter().rev().enumerate() {
            if let Some(conflict) = earlier.conflict(access, place, bytes.into()) {
                let launch = match later {
                    0 => "the launch before".to_owned(),
                    _ => format!("the launch {} before this one", later + 1),
                };
                let why = format!("are {} by {launch}, which may still run", verb(conflict));
                return Err(early(access, (lane, address, bytes), &why));
            }
        }
        if options.follows_unknown {
            let why = "launches before the first one of the program may still run and use them";
            return Err(early(access, (lane, address, bytes), why));
        }
        Ok(())
    }
}

/// Violation for an access before `griddepcontrol.wait`.
#[cold]
fn early(
    access: GlobalAccess,
    (lane, address, bytes): (usize, u64, u32),
    why: &str,
) -> LaneViolation {
    let text = format!(
        "{bytes} bytes of global memory at {address:#x} are {} by a thread that has not executed \
         `griddepcontrol.wait`, and {why}",
        verb(access),
    );
    LaneViolation::access(ViolationKind::Race, lane, address, text)
}

fn verb(access: GlobalAccess) -> &'static str {
    match access {
        GlobalAccess::Read => "read",
        GlobalAccess::Write => "written",
    }
}
