//! Tensor copies of the copy engine: boxes of a tensor map from global to shared memory.

use std::sync::atomic::Ordering;

use super::bounds::{check_alignment, find};
use super::cluster_state::ClusterState;
use super::mbarrier_state::{CopyOrigin, PendingTensorCopy};
use super::remote_access::{RemoteAccess, RemoteCopy};
use super::tensor_box::{BOX_ALIGNMENT, TensorBox, permute, violation};
use super::warp::Warp;
use crate::cpu::access_record::GlobalAccess;
use crate::cpu::checks::{ExecutionCheck, LaneViolation, ViolationKind};
use crate::cpu::lanes::lanes;
use crate::cpu::layout::WINDOW_BYTES;
use crate::cpu::numeric::copy_rounding::round_copied;
use crate::cpu::operation::TensorCopy;
use crate::cpu::shadow::SharedAccess;
use crate::cpu::trace::Movement;
use crate::cpu::types::Space;

/// Most bytes that a warp instruction moves.
const MAX_WARP_BYTES: u32 = 32 * 16;

/// Contents of a box.
#[derive(Debug, Default)]
struct LoadedBox {
    words: Vec<u32>,
    /// Sectors and bytes read from global memory.
    sectors: u64,
    bytes: u64,
}

/// Addresses in shared memory of a copy: of the box and of the mbarrier.
type CopyTargets = (u64, u64);

impl Warp {
    /// `cp.async.bulk.tensor` to shared memory. Reads at issue and passes the box to the mbarrier, in whose phase it
    /// arrives.
    pub(super) fn copy_tensor<const CHECKED: bool, const COUNTED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        at: usize,
        copy: &TensorCopy,
        active: u32,
    ) -> Result<(), LaneViolation> {
        let [to, maps, barriers] =
            [copy.to, copy.map, copy.barrier].map(|address| self.addresses(address));
        for lane in lanes(active) {
            let tensor = self.tensor_box(cluster, (lane, maps[lane]), &copy.coordinates)?;
            check_alignment(Space::Shared, lane, to[lane], BOX_ALIGNMENT)?;
            let targets = match copy.blocks {
                None => vec![(to[lane], barriers[lane])],
                Some(slot) => {
                    let mask = self.registers.word(slot)[lane];
                    multicast(cluster, lane, (to[lane], barriers[lane]), mask)?
                }
            };
            self.note_box::<CHECKED>(cluster, GlobalAccess::Read, lane, &tensor)?;
            let loaded = load_box::<CHECKED>(cluster, lane, &tensor)?;
            if COUNTED {
                let LoadedBox { sectors, bytes: read, .. } = &loaded;
                let written = targets.len() as u64 * u64::from(tensor.bytes());
                cluster.counts[at].copied(*sectors, *read, written);
            }
            for (to, barrier) in targets {
                let words = self.start_copy::<CHECKED>(
                    cluster,
                    lane,
                    (to, barrier),
                    (&tensor, &loaded.words),
                )?;
                if COUNTED {
                    self.trace_copy(cluster, lane, to, &words);
                }
            }
            // Charges the budget as for plain copies of as many bytes, which bounds loops of tensor
            // copies.
            cluster.spend(u64::from(tensor.bytes() / MAX_WARP_BYTES));
        }
        Ok(())
    }

    /// Passes a box to an mbarrier of the same block. Returns its words in the order of memory.
    fn start_copy<const CHECKED: bool>(
        &self,
        cluster: &mut ClusterState<'_>,
        lane: usize,
        (to, barrier): CopyTargets,
        (tensor, words): (&TensorBox, &[u32]),
    ) -> Result<Vec<u32>, LaneViolation> {
        let bytes = tensor.bytes();
        let place = self.find_target::<CHECKED>(cluster, lane, to, bytes)?;
        let of_barrier = self.find_target::<CHECKED>(cluster, lane, barrier, 8)?;
        let rank = (place / cluster.shared_stride) as usize;
        if place / cluster.shared_stride != of_barrier / cluster.shared_stride {
            let text = "the mbarrier and the box are in different blocks";
            return Err(violation(lane, barrier, text));
        }
        if CHECKED {
            let number = self.position.number;
            for place in [(of_barrier, 8), (place, bytes)] {
                let touch = SharedAccess::Pending;
                cluster.shadow.touch(&self.clocks, number, lane, place, touch)?;
            }
        }
        let words = permute(words, tensor.map.swizzle, place % cluster.shared_stride);
        let from = CopyOrigin { warp: self.position.number, step: self.last_step(), lane };
        let in_flight = PendingTensorCopy { place, words: words.clone(), from };
        let (engine, clock) =
            cluster.mbarriers.at(of_barrier, lane, barrier)?.start(in_flight, barrier)?;
        if CHECKED {
            cluster.shadow.record_engine_write((place, bytes), engine, clock);
            if rank != self.position.rank {
                let address = place % cluster.shared_stride;
                let access = RemoteAccess { clock, step: from.step, lane, address };
                cluster.remote_accesses.copy(engine, RemoteCopy { rank, warp: from.warp, access });
            }
        }
        Ok(words)
    }

    /// Traces a copy: one lane moves the whole box in chunks of 16 bytes.
    fn trace_copy(&self, cluster: &mut ClusterState<'_>, lane: usize, to: u64, words: &[u32]) {
        for (chunk, words) in words.chunks(4).enumerate() {
            let mut moved = [[0; 32]; 4];
            moved.iter_mut().zip(words).for_each(|(moved, word)| moved[lane] = *word);
            let mut places = [0; 32];
            places[lane] = to + 16 * chunk as u64;
            cluster.trace(self, Movement::Copy, (&places, 1 << lane, 16), &moved);
        }
    }
}

/// Targets in the blocks of a mask: the same offsets in the shared memory of each.
fn multicast(
    cluster: &ClusterState<'_>,
    lane: usize,
    (to, barrier): CopyTargets,
    mask: u32,
) -> Result<Vec<CopyTargets>, LaneViolation> {
    if mask == 0 || u64::from(mask) >> cluster.blocks != 0 {
        let text = format!(
            "the mask {mask:#x} of a multicast names no block, or one beyond the {} of the cluster",
            cluster.blocks
        );
        return Err(violation(lane, to, text));
    }
    let within =
        |address: u64, rank: usize| address % WINDOW_BYTES + (rank as u64 + 1) * WINDOW_BYTES;
    Ok(lanes(mask).map(|rank| (within(to, rank), within(barrier, rank))).collect())
}

/// Reads a box, and rounds its elements where the map says so. Elements outside of the map's extents are zero.
fn load_box<const CHECKED: bool>(
    cluster: &ClusterState<'_>,
    lane: usize,
    tensor: &TensorBox,
) -> Result<LoadedBox, LaneViolation> {
    let mut loaded = LoadedBox::default();
    let mut bytes = vec![0_u8; tensor.bytes() as usize];
    for row in tensor.rows() {
        let part = bytes.get_mut(row.place..row.place + row.bytes).unwrap_or_default();
        read::<CHECKED>(cluster, lane, row.address, part)?;
        let length = row.bytes as u64;
        loaded.sectors += (row.address + length - 1) / 32 - row.address / 32 + 1;
        loaded.bytes += length;
    }
    let words = bytes.as_chunks::<4>().0.iter();
    loaded.words = words.map(|word| u32::from_le_bytes(*word)).collect();
    if let Some(to) = tensor.map.rounds_to {
        loaded.words.iter_mut().for_each(|word| *word = round_copied(*word, to));
    }
    Ok(loaded)
}

/// Reads bytes from global memory.
fn read<const CHECKED: bool>(
    cluster: &ClusterState<'_>,
    lane: usize,
    address: u64,
    bytes: &mut [u8],
) -> Result<(), LaneViolation> {
    let (allocation, offset) = find(cluster, lane, address, bytes.len() as u32)?;
    let unwritten = CHECKED && cluster.launch.options.checks.has(ExecutionCheck::Unwritten);
    let mut words = allocation.words(offset & !3).iter();
    let mut word = [0; 4];
    for (at, byte) in (offset..).zip(bytes.iter_mut()) {
        if at % 4 == 0 || at == offset {
            word = words.next().map_or(0, |word| word.load(Ordering::Relaxed)).to_le_bytes();
        }
        if unwritten && !allocation.is_written(at, 1) {
            let text = "a tensor copy reads unwritten global memory".to_owned();
            return Err(LaneViolation::access(ViolationKind::Unwritten, lane, address, text));
        }
        *byte = word[at as usize % 4];
    }
    Ok(())
}
