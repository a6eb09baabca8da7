//! Boxes of tensor maps: where their rows lie in global and in shared memory.

use super::bounds::check_alignment;
use super::cluster_state::ClusterState;
use super::warp::Warp;
use crate::cpu::checks::{LaneViolation, ViolationKind};
use crate::cpu::layout::PARAMETER_WINDOW;
use crate::cpu::operation::RegisterSlot;
use crate::cpu::swizzle::{row_bytes, swizzled};
use crate::cpu::tensor_map;
use crate::cpu::types::Space;
use crate::model::Swizzle;
use crate::model::tensor_map::{MAX_RANK, PlacedMap};

/// Alignment of a box in shared memory (ISA: tensors, shared memory address alignment).
pub(super) const BOX_ALIGNMENT: u32 = 128;

/// Alignment of a tensor map.
const MAP_ALIGNMENT: u32 = 64;

/// What the bytes before the first column of a box are a multiple of. An H200 ends a kernel that copies other boxes with an
/// illegal instruction; stores of such boxes were not tried there.
const COLUMN_ALIGNMENT: i64 = 16;

/// A box of a tensor map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TensorBox {
    pub(super) map: PlacedMap,
    /// Coordinates of the first element.
    first: [i64; MAX_RANK],
}

/// The part of a row of a box that is inside the tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BoxRow {
    /// Address in global memory.
    pub(super) address: u64,
    /// Byte in the box, without the swizzle.
    pub(super) place: usize,
    pub(super) bytes: usize,
}

pub(super) fn violation(lane: usize, address: u64, text: impl Into<String>) -> LaneViolation {
    LaneViolation::access(ViolationKind::CopyEngine, lane, address, text.into())
}

impl TensorBox {
    /// Bytes of the box in shared memory.
    pub(super) fn bytes(&self) -> u32 {
        let elements: u64 = self.map.tile.iter().map(|extent| u64::from(*extent)).product();
        u32::try_from(elements * self.map.dtype.bytes()).unwrap_or(u32::MAX)
    }

    /// Rows that are at least partly inside the tensor.
    pub(super) fn rows(&self) -> impl Iterator<Item = BoxRow> {
        let Self { map, first } = *self;
        let element = map.dtype.bytes();
        let [row, rest @ ..] = map.tile.map(i64::from);
        let rows: i64 = rest.iter().product();
        // Range of a row within the innermost extent.
        let begin = first[0].max(0);
        let end = (first[0] + row).min(map.extents[0] as i64);
        let inside = move |number: i64| {
            let mut address = map.address;
            let (mut left, mut inside) = (number, begin < end);
            for (dimension, extent) in rest.iter().enumerate() {
                let at = first[dimension + 1] + left % extent;
                left /= extent;
                inside &= (0..map.extents[dimension + 1] as i64).contains(&at);
                address = address.wrapping_add((at as u64).wrapping_mul(map.strides[dimension]));
            }
            let (skipped, length) = (begin - first[0], end - begin);
            inside.then(|| BoxRow {
                address: address.wrapping_add(begin as u64 * element),
                place: ((number * row + skipped) as u64 * element) as usize,
                bytes: (length as u64 * element) as usize,
            })
        };
        (0..rows).filter_map(inside)
    }
}

impl Warp {
    /// Box of a lane at coordinates, for a map at a generic address.
    pub(super) fn tensor_box(
        &self,
        cluster: &ClusterState<'_>,
        (lane, address): (usize, u64),
        coordinates: &[RegisterSlot],
    ) -> Result<TensorBox, LaneViolation> {
        let map = map_at(cluster, lane, address)?;
        if map.rank as usize != coordinates.len() {
            let text = format!(
                "a tensor map of {} dimensions is used with {} coordinates",
                map.rank,
                coordinates.len()
            );
            return Err(violation(lane, address, text));
        }
        check_rows(&map, lane, address)?;
        let mut first = [0; MAX_RANK];
        for (first, slot) in first.iter_mut().zip(coordinates) {
            *first = i64::from(self.registers.word(*slot)[lane].cast_signed());
        }
        check_column(&map, first[0], (lane, address))?;
        Ok(TensorBox { map, first })
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

/// Checks that a box begins at a multiple of 16 bytes of its rows.
fn check_column(
    map: &PlacedMap,
    column: i64,
    (lane, address): (usize, u64),
) -> Result<(), LaneViolation> {
    let byte = column * map.dtype.bytes() as i64;
    if byte % COLUMN_ALIGNMENT == 0 {
        return Ok(());
    }
    let text = format!(
        "the box begins at column {column}, byte {byte} of its rows: boxes begin at multiples of {COLUMN_ALIGNMENT} bytes"
    );
    Err(violation(lane, address, text))
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
pub(super) fn permute(words: &[u32], swizzle: Swizzle, to: u64) -> Vec<u32> {
    let source = |at: usize| {
        // A swizzle is its own inverse.
        let from = swizzled(swizzle, to + 4 * at as u64) - to;
        words.get(from as usize / 4).copied().unwrap_or(0)
    };
    (0..words.len()).map(source).collect()
}
