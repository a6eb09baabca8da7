//! Where a cluster has an address of shared memory: whose it is, whether it belongs to a variable,
//! and whether the block is there. Another block is not before it begins, nor after it ends;
//! barriers of the cluster must see to both (CUDA C++ Programming Guide, distributed shared
//! memory).

use super::cluster::Team;
use super::warp::Warp;
use crate::cpu::checks::{Check, Checks, ViolationKind, Wrong};
use crate::cpu::layout::{CLUSTER_END, WINDOW_BYTES};
use crate::cpu::shadow::Clocks;
use crate::cpu::types::Space;

/// The last access of a warp to the shared memory of a block that is not its own.
#[derive(Debug, Clone, Copy)]
struct Reach {
    /// The warp's time then; 0 where there was none.
    clock: u32,
    step: usize,
    lane: usize,
    address: u64,
}

/// Which blocks have ended, and who reached into which.
#[derive(Debug)]
pub(super) struct Reaches {
    /// A bit for each block.
    ended: u32,
    warps: usize,
    /// For each block, for each warp of the cluster; empty where nobody asks.
    last: Vec<Reach>,
}

/// An access that a block's end may have come before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Late {
    /// By its number in the cluster.
    pub(super) warp: usize,
    pub(super) step: usize,
    reach: Reach,
}

const NEVER: Reach = Reach { clock: 0, step: 0, lane: 0, address: 0 };

impl Reaches {
    /// For clusters of `blocks` blocks of `warps_each` warps.
    pub(super) fn new(checks: Checks, blocks: usize, warps_each: usize) -> Self {
        let warps = blocks * warps_each;
        let watched = blocks > 1 && checks.has(Check::Race);
        let last = vec![NEVER; if watched { blocks * warps } else { 0 }];
        Self { ended: 0, warps, last }
    }

    pub(super) fn reset(&mut self) {
        self.ended = 0;
        self.last.fill(NEVER);
    }

    /// The block of a rank ends.
    pub(super) fn end(&mut self, rank: usize) {
        self.ended |= 1 << rank;
    }

    /// An access to what a block had that no barrier puts before its end; `known` is what its warps
    /// knew at last.
    pub(super) fn late<'c>(
        &self,
        rank: usize,
        known: impl Iterator<Item = &'c Clocks> + Clone,
    ) -> Option<Late> {
        let last = self.last.get(rank * self.warps..(rank + 1) * self.warps)?;
        let is_late = |(warp, reach): &(usize, &Reach)| {
            reach.clock > 0 && !known.clone().any(|clocks| clocks.knows(*warp, reach.clock))
        };
        let (warp, reach) = last.iter().enumerate().find(is_late)?;
        Some(Late { warp, step: reach.step, reach: *reach })
    }
}

impl Late {
    pub(super) fn wrong(&self, rank: usize) -> Wrong {
        // The same kind whether the block has ended already or only may have.
        let text = format!(
            "no barrier of the cluster keeps block {rank} of it from ending before this access to its \
             shared memory"
        );
        Wrong::access(ViolationKind::OutOfBounds, self.reach.lane, self.reach.address, text)
    }
}

impl Warp {
    /// Where the shared memory of the cluster has an address of [`Space::Shared`] or
    /// [`Space::Cluster`] whose bytes are all within one variable.
    #[inline(always)]
    pub(super) fn find_shared<const CHECKED: bool>(
        &self,
        team: &mut Team<'_>,
        space: Space,
        lane: usize,
        address: u64,
        bytes: u32,
    ) -> Result<u64, Wrong> {
        let (start, inside) = match space {
            Space::Cluster => self.reach::<CHECKED>(team, lane, address)?,
            _ => (self.place.shared, address),
        };
        check_shared(team, lane, inside, bytes)?;
        Ok(start + inside)
    }

    /// Where the shared memory begins that an address of `.shared::cluster` means, and what of the
    /// address counts from there.
    fn reach<const CHECKED: bool>(
        &self,
        team: &mut Team<'_>,
        lane: usize,
        address: u64,
    ) -> Result<(u64, u64), Wrong> {
        let (window, inside) = (address / WINDOW_BYTES, address % WINDOW_BYTES);
        let rank = window.checked_sub(1).map_or(self.place.rank, |rank| rank as usize);
        if rank == self.place.rank {
            return Ok((self.place.shared, inside));
        }
        let wrong = |kind, text| Err(Wrong::access(kind, lane, address, text));
        if rank >= team.blocks {
            let text = format!(
                "the address belongs to no block of the cluster, which has {}",
                team.blocks
            );
            return wrong(ViolationKind::OutOfBounds, text);
        }
        if team.reaches.ended >> rank & 1 == 1 {
            let text =
                format!("block {rank} of the cluster has ended, and its shared memory with it");
            return wrong(ViolationKind::OutOfBounds, text);
        }
        if CHECKED && !team.reaches.last.is_empty() {
            let each = team.reaches.warps / team.blocks;
            if !self.clocks.know_any(rank * each..(rank + 1) * each) {
                let text = format!(
                    "no barrier of the cluster sees to it that block {rank} of it has begun before this \
                     access to its shared memory"
                );
                return wrong(ViolationKind::Race, text);
            }
            let clock = self.clocks.now(self.place.number);
            let step = self.last_step();
            let last = rank * team.reaches.warps + self.place.number;
            team.reaches.last[last] = Reach { clock, step, lane, address: inside };
        }
        Ok((rank as u64 * team.shared_stride, inside))
    }
}

/// Makes sure that an access of a block is within one of its variables.
#[inline(always)]
pub(super) fn check_shared(
    team: &Team<'_>,
    lane: usize,
    address: u64,
    bytes: u32,
) -> Result<(), Wrong> {
    let end = address.wrapping_add(bytes.into());
    let inside = team.segments.iter().any(|segment| segment.start <= address && end <= segment.end);
    if inside && address < end { Ok(()) } else { Err(outside_shared(team, lane, address, bytes)) }
}

#[cold]
fn outside_shared(team: &Team<'_>, lane: usize, address: u64, bytes: u32) -> Wrong {
    if (WINDOW_BYTES..CLUSTER_END).contains(&address) {
        let text =
            "an address of `.shared::cluster` is used as one of the block's own shared memory";
        return Wrong::access(ViolationKind::OutOfBounds, lane, address, text.to_owned());
    }
    let before = team
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
    Wrong::access(ViolationKind::OutOfBounds, lane, address, text)
}
