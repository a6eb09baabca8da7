//! The instructions of each warpgroup, which its four warps must execute alike (`.aligned`).

use std::collections::VecDeque;

use crate::cpu::checks::{LaneViolation, ViolationKind};

/// Warps of a warpgroup.
pub(super) const GROUP_WARPS: usize = 4;

/// A `wgmma` instruction, with the operands that its warps share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SharedStep {
    pub(super) step: usize,
    /// Both descriptors and `scale-d` of a product; zeros elsewhere.
    pub(super) operands: [u64; 3],
}

/// Instructions of a warpgroup that some of its warps have executed and others not yet.
#[derive(Debug, Clone, Default)]
struct GroupHistory {
    /// Instructions that all warps have executed, which are dropped.
    dropped: usize,
    steps: VecDeque<SharedStep>,
    /// Executed instructions of each warp.
    executed: [usize; GROUP_WARPS],
}

/// The warpgroups of a cluster.
#[derive(Debug)]
pub(super) struct WarpgroupHistories {
    groups: Vec<GroupHistory>,
    /// Warps and warpgroups of a block, the last one perhaps partial.
    warps_each: usize,
    groups_each: usize,
}

/// A warp that has ended without an instruction of its warpgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MissingStep {
    /// Number in the cluster.
    pub(super) warp: usize,
    pub(super) step: usize,
    pub(super) violation: LaneViolation,
}

fn divergence(text: impl Into<String>) -> LaneViolation {
    LaneViolation::of_warp(ViolationKind::BarrierDivergence, text)
}

impl WarpgroupHistories {
    pub(super) fn new(blocks: usize, warps_each: usize) -> Self {
        let groups_each = warps_each.div_ceil(GROUP_WARPS);
        let groups = vec![GroupHistory::default(); blocks * groups_each];
        Self { groups, warps_each, groups_each }
    }

    /// Clears the state for the next cluster.
    pub(super) fn reset(&mut self) {
        self.groups.fill(GroupHistory::default());
    }

    /// Records an instruction of a warp, and checks that it is that of the other warps. `line_of` returns the PTX line
    /// of a step.
    pub(super) fn record(
        &mut self,
        warp: usize,
        step: SharedStep,
        line_of: impl Fn(usize) -> u32,
    ) -> Result<(), LaneViolation> {
        let (block, index) = (warp / self.warps_each.max(1), warp % self.warps_each.max(1));
        if index / GROUP_WARPS * GROUP_WARPS + GROUP_WARPS > self.warps_each {
            let text = format!(
                "warp {index} of a block of {} warps is in no warpgroup of four",
                self.warps_each
            );
            return Err(divergence(text));
        }
        let Some(group) = self.groups.get_mut(block * self.groups_each + index / GROUP_WARPS)
        else {
            return Ok(());
        };
        let executed = group.executed[index % GROUP_WARPS];
        match group.steps.get(executed - group.dropped) {
            None => group.steps.push_back(step),
            Some(other) if *other == step => {}
            Some(other) if other.step != step.step => {
                return Err(divergence(format!(
                    "warp {index} executes this instruction where another warp of its warpgroup executes the one at \
                     PTX line {}",
                    line_of(other.step)
                )));
            }
            Some(_) => {
                return Err(divergence(
                    "the descriptors or `scale-d` differ between warps of a warpgroup",
                ));
            }
        }
        group.executed[index % GROUP_WARPS] += 1;
        while group.executed.iter().all(|executed| *executed > group.dropped) {
            group.steps.pop_front();
            group.dropped += 1;
        }
        Ok(())
    }

    /// A warp that has not executed an instruction that others have, at the end of a cluster.
    pub(super) fn missing(&self) -> Option<MissingStep> {
        let (at, group) = self.groups.iter().enumerate().find(|(_, it)| !it.steps.is_empty())?;
        let step = group.steps.front()?.step;
        let behind = group.executed.iter().position(|executed| *executed == group.dropped)?;
        let index = at % self.groups_each * GROUP_WARPS + behind;
        let text =
            format!("warp {index} ends without this instruction, which its warpgroup executes");
        let warp = at / self.groups_each * self.warps_each + index;
        Some(MissingStep { warp, step, violation: divergence(text) })
    }
}
