//! Tensor copies of the copy engine: boxes of a tensor map from global to shared memory.

use std::sync::atomic::Ordering;

use super::bounds::{check_alignment, find};
use super::cluster_state::ClusterState;
use super::mbarrier_state::{CopyOrigin, PendingTensorCopy};
use super::warp::Warp;
use crate::cpu::checks::{ExecutionCheck, LaneViolation, ViolationKind};
use crate::cpu::lanes::lanes;
use crate::cpu::layout::PARAMETER_WINDOW;
use crate::cpu::operation::TensorCopy;
use crate::cpu::shadow::SharedAccess;
use crate::cpu::swizzle::{row_bytes, swizzled};
use crate::cpu::tensor_map;
use crate::cpu::trace::Movement;
use crate::cpu::types::Space;
use crate::model::Swizzle;
use crate::model::tensor_map::{MAX_RANK, PlacedMap};

/// Alignment of the destination in shared memory (ISA: tensors, shared memory address alignment).
const DESTINATION_ALIGNMENT: u32 = 128;

/// Alignment of a tensor map.
const MAP_ALIGNMENT: u32 = 64;

/// Most bytes that a warp instruction moves.
const MAX_WARP_BYTES: u32 = 32 * 16;

fn violation(lane: usize, address: u64, text: impl Into<String>) -> LaneViolation {
    LaneViolation::access(ViolationKind::CopyEngine, lane, address, text.into())
}

/// Contents of a box.
#[derive(Debug, Default)]
struct LoadedBox {
    words: Vec<u32>,
    /// Sectors and bytes read from global memory.
    sectors: u64,
    bytes: u64,
}

impl Warp {
    /// `cp.async.bulk.tensor`. Reads at issue and passes the box to the mbarrier, in whose phase it
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
            let map = map_at(cluster, lane, maps[lane])?;
            if map.rank as usize != copy.coordinates.len() {
                let text = format!(
                    "a tensor map of {} dimensions is used with {} coordinates",
                    map.rank,
                    copy.coordinates.len()
                );
                return Err(violation(lane, maps[lane], text));
            }
            check_rows(&map, lane, maps[lane])?;
            let mut first = [0; MAX_RANK];
            for (first, slot) in first.iter_mut().zip(&copy.coordinates) {
                *first = i64::from(self.registers.word(*slot)[lane].cast_signed());
            }
            check_alignment(Space::Shared, lane, to[lane], DESTINATION_ALIGNMENT)?;
            let elements: u64 = map.tile.iter().map(|extent| u64::from(*extent)).product();
            let bytes = u32::try_from(elements * map.dtype.bytes()).unwrap_or(u32::MAX);
            let place =
                self.find_shared::<CHECKED>(cluster, Space::Cluster, lane, to[lane], bytes)?;
            let barrier =
                self.find_shared::<CHECKED>(cluster, Space::Cluster, lane, barriers[lane], 8)?;
            if place / cluster.shared_stride != barrier / cluster.shared_stride {
                let text = "the mbarrier and the box are in different blocks";
                return Err(violation(lane, barriers[lane], text));
            }
            let from = CopyOrigin { warp: self.position.number, step: self.last_step(), lane };
            if CHECKED {
                let number = self.position.number;
                for place in [(barrier, 8), (place, bytes)] {
                    cluster.shadow.touch(
                        &self.clocks,
                        number,
                        lane,
                        place,
                        SharedAccess::Pending,
                    )?;
                }
            }
            let mut loaded = load_box::<CHECKED>(cluster, lane, &map, first)?;
            if map.swizzle != Swizzle::None {
                loaded.words = permute(&loaded.words, map.swizzle, place % cluster.shared_stride);
            }
            if COUNTED {
                let LoadedBox { sectors, bytes: read, words } = &loaded;
                cluster.counts[at].copied(*sectors, *read, u64::from(bytes));
                // One lane moves the whole box in chunks of 16 bytes.
                for (chunk, words) in words.chunks(4).enumerate() {
                    let mut moved = [[0; 32]; 4];
                    moved.iter_mut().zip(words).for_each(|(moved, word)| moved[lane] = *word);
                    let mut places = [0; 32];
                    places[lane] = to[lane] + 16 * chunk as u64;
                    cluster.trace(self, Movement::Copy, (&places, 1 << lane, 16), &moved);
                }
            }
            // Charges the budget as for plain copies of as many bytes, which bounds loops of tensor
            // copies.
            cluster.spend(u64::from(bytes / MAX_WARP_BYTES));
            let in_flight = PendingTensorCopy { place, words: loaded.words, from };
            let barrier = cluster.mbarriers.at(barrier, lane, barriers[lane])?;
            let (engine, clock) = barrier.start(in_flight, barriers[lane])?;
            if CHECKED {
                cluster.shadow.record_engine_write((place, bytes), engine, clock);
            }
        }
        Ok(())
    }
}

/// Tensor map at a generic address, which must be a kernel parameter.
fn map_at(
    cluster: &ClusterState<'_>,
    lane: usize,
    address: u64,
) -> Result<PlacedMap, LaneViolation> {
    check_alignment(Space::Parameter, lane, address, MAP_ALIGNMENT)?;
    let parameters = cluster.launch.parameters;
    let at = address.wrapping_sub(PARAMETER_WINDOW) / 4;
    let words =
        usize::try_from(at).ok().and_then(|at| parameters.get(at..at + 2 * tensor_map::WORDS));
    let Some(words) = words else {
        let text = "the address is not in the kernel's parameters";
        return Err(violation(lane, address, text));
    };
    let long = |at: usize| u64::from(words[2 * at]) | u64::from(words[2 * at + 1]) << 32;
    let map = tensor_map::decode(&std::array::from_fn(long));
    let map = map.ok_or_else(|| {
        violation(lane, address, "the parameter at this address is not a tensor map")
    })?;
    Ok(map)
}

/// Checks that the rows of a box fill the rows of its swizzle. The chunks of other boxes have no documented place.
fn check_rows(map: &PlacedMap, lane: usize, address: u64) -> Result<(), LaneViolation> {
    let (row, wanted) = (u64::from(map.tile[0]) * map.dtype.bytes(), row_bytes(map.swizzle));
    if map.swizzle == Swizzle::None || row == wanted {
        return Ok(());
    }
    let text = format!(
        "a row of the box has {row} bytes; this device supports only rows of {wanted} bytes with this swizzle"
    );
    Err(violation(lane, address, text))
}

/// Moves the chunks of a box from where they are without a swizzle to their places. `to` is the address of the box in
/// its block.
fn permute(words: &[u32], swizzle: Swizzle, to: u64) -> Vec<u32> {
    let source = |at: usize| {
        // A swizzle is its own inverse.
        let from = swizzled(swizzle, to + 4 * at as u64) - to;
        words.get(from as usize / 4).copied().unwrap_or(0)
    };
    (0..words.len()).map(source).collect()
}

/// Reads a box. Elements outside of the map's extents are zero.
fn load_box<const CHECKED: bool>(
    cluster: &ClusterState<'_>,
    lane: usize,
    map: &PlacedMap,
    first: [i64; MAX_RANK],
) -> Result<LoadedBox, LaneViolation> {
    let element = map.dtype.bytes();
    let [row, rest @ ..] = map.tile.map(i64::from);
    let rows: i64 = rest.iter().product();
    let row_bytes = (row as u64 * element) as usize;
    let mut loaded = LoadedBox::default();
    let mut bytes = vec![0_u8; rows as usize * row_bytes];
    // Range of a row within the innermost extent.
    let begin = first[0].max(0);
    let end = (first[0] + row).min(map.extents[0] as i64);
    for (number, line) in bytes.chunks_exact_mut(row_bytes).enumerate() {
        let mut address = map.address;
        let (mut left, mut inside) = (number as i64, begin < end);
        for (dimension, extent) in rest.iter().enumerate() {
            let at = first[dimension + 1] + left % extent;
            left /= extent;
            inside &= (0..map.extents[dimension + 1] as i64).contains(&at);
            address = address.wrapping_add((at as u64).wrapping_mul(map.strides[dimension]));
        }
        if inside {
            let address = address.wrapping_add(begin as u64 * element);
            let length = (end - begin) as u64 * element;
            let place = ((begin - first[0]) as u64 * element) as usize;
            read::<CHECKED>(cluster, lane, address, &mut line[place..][..length as usize])?;
            loaded.sectors += (address + length - 1) / 32 - address / 32 + 1;
            loaded.bytes += length;
        }
    }
    let words = bytes.as_chunks::<4>().0.iter();
    loaded.words = words.map(|word| u32::from_le_bytes(*word)).collect();
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
