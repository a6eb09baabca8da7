//! Tensor maps: descriptions of an operand for the GPU's tensor memory accelerator, which copies a
//! box of it with one instruction. Invalid maps are rejected here, before anything runs; `gpu` and
//! `cpu` encode valid ones, each in its own form.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::launch::Argument;
use super::word::named_enum;
use super::{Dtype, GemmType};

/// Maximum of dimensions.
pub const MAX_RANK: usize = 5;

/// Maximum of elements of a box along a dimension.
const MAX_BOX: u32 = 256;

/// Alignment of addresses, rows of a box and strides in bytes.
pub const ADDRESS_ALIGNMENT: u64 = 16;

/// The largest extent of a dimension.
const MAX_EXTENT: u64 = u32::MAX as u64;

/// Exclusive limit of strides in bytes.
const END_OF_STRIDES: u64 = 1 << 40;

/// A tensor map of a launch plan, whose operand has no address yet. Elements outside the extents read
/// as zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMap {
    /// Name for arguments.
    pub name: String,
    /// The operand it describes: `A`, `B`, `C` or a workspace.
    pub operand: String,
    /// Dtype of the elements; nothing where it is the operand's, or that of A for a workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
    /// Bytes from the beginning of the operand to the first element.
    pub offset: u64,
    /// Elements along each dimension, the innermost first.
    pub extents: Vec<u64>,
    /// Elements between neighbours along each dimension from the second on.
    pub strides: Vec<u64>,
    /// Elements of the box that one copy moves, along each dimension.
    pub tile: Vec<u32>,
    /// Layout of a box in shared memory.
    pub swizzle: Swizzle,
    /// What copies to shared memory round elements of f32 to; nothing where they keep their bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_to: Option<CopyRounding>,
}

named_enum! {
    /// Type that the tensor memory accelerator rounds elements to as it copies them to shared memory. They keep their size.
    CopyRounding, "type that copies round to", {
        /// 19 bits of f32: to nearest, ties to even.
        Tf32 = "tf32",
    }
}

impl CopyRounding {
    /// The dtype whose elements are rounded to this type; others keep their bits.
    pub fn source(self) -> Dtype {
        match self {
            Self::Tf32 => Dtype::F32,
        }
    }
}

named_enum! {
    /// Permutation of 16-byte chunks of a box within rows of shared memory.
    Swizzle, "swizzle", {
        /// No permutation.
        None = "none",
        /// Within 32 bytes.
        B32 = "32B",
        /// Within 64 bytes.
        B64 = "64B",
        /// Within 128 bytes.
        B128 = "128B",
    }
}

impl Swizzle {
    /// Bytes of the permuted rows; `None` without a permutation.
    fn bytes(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::B32 => Some(32),
            Self::B64 => Some(64),
            Self::B128 => Some(128),
        }
    }
}

/// A tensor map of an operand with an address. Missing dimensions are 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlacedMap {
    /// Address of the first element.
    pub address: u64,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Dimensions, 1 to 5.
    pub rank: u32,
    /// Elements along each dimension, the innermost first.
    pub extents: [u64; MAX_RANK],
    /// Bytes between neighbours along each dimension from the second on.
    pub strides: [u64; MAX_RANK - 1],
    /// Elements of a box along each dimension.
    pub tile: [u32; MAX_RANK],
    /// Layout of a box in shared memory.
    pub swizzle: Swizzle,
    /// What copies to shared memory round elements to; nothing where they keep their bits.
    pub rounds_to: Option<CopyRounding>,
}

/// Error: a tensor map exceeds a limit of all devices.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("tensor map `{map}`: {what}")]
pub struct TensorMapLimit {
    /// Its name.
    pub map: String,
    /// The exceeded limit, with the figures.
    pub what: String,
}

/// The dtype of a map's elements that follows from its operand: that of A for a workspace.
pub fn operand_dtype(operand: &str, types: GemmType) -> Dtype {
    match Argument::from(operand.to_owned()) {
        Argument::B => types.b,
        Argument::C => types.d,
        _ => types.a,
    }
}

impl TensorMap {
    /// The dtype of its elements for a product of these types.
    pub fn element(&self, types: GemmType) -> Dtype {
        self.dtype.unwrap_or_else(|| operand_dtype(&self.operand, types))
    }

    /// Checks the requirements of devices (CUDA driver API, `cuTensorMapEncodeTiled`), and for a
    /// workspace of the given size that the map ends within it.
    ///
    /// # Errors
    /// The first exceeded limit.
    pub fn check(
        &self,
        types: GemmType,
        workspace_bytes: Option<u64>,
    ) -> Result<(), TensorMapLimit> {
        self.violation(self.element(types), workspace_bytes)
            .map_or(Ok(()), |what| Err(TensorMapLimit { map: self.name.clone(), what }))
    }

    fn violation(&self, dtype: Dtype, workspace_bytes: Option<u64>) -> Option<String> {
        let Self { offset, extents, strides, tile, .. } = self;
        let element = dtype.bytes();
        let rank = extents.len();
        if !(1..=MAX_RANK).contains(&rank) {
            return Some(format!("it has {rank} dimensions, not within 1 to {MAX_RANK}"));
        }
        if strides.len() != rank - 1 || tile.len() != rank {
            return Some(format!(
                "{rank} dimensions need {} strides and a box of {rank} extents, not {} and {}",
                rank - 1,
                strides.len(),
                tile.len()
            ));
        }
        if let Some(extent) = extents.iter().find(|extent| !(1..=MAX_EXTENT).contains(*extent)) {
            return Some(format!("an extent is {extent}, not within 1 to {MAX_EXTENT}"));
        }
        if let Some(extent) = tile.iter().find(|extent| !(1..=MAX_BOX).contains(*extent)) {
            return Some(format!("its box has an extent of {extent}, not within 1 to {MAX_BOX}"));
        }
        let row = u64::from(tile[0]) * element;
        if !row.is_multiple_of(ADDRESS_ALIGNMENT) {
            return Some(format!(
                "a row of its box has {row} bytes, no multiple of {ADDRESS_ALIGNMENT}"
            ));
        }
        if offset % ADDRESS_ALIGNMENT != 0 {
            return Some(format!(
                "it begins {offset} bytes into `{}`, no multiple of {ADDRESS_ALIGNMENT}",
                self.operand
            ));
        }
        for stride in strides {
            let bytes = stride.saturating_mul(element);
            if bytes % ADDRESS_ALIGNMENT != 0 || bytes == 0 || bytes >= END_OF_STRIDES {
                return Some(format!(
                    "a stride is {bytes} bytes, not a multiple of {ADDRESS_ALIGNMENT} from {ADDRESS_ALIGNMENT} to below 2^40"
                ));
            }
        }
        if let Some(most) = self.swizzle.bytes().filter(|most| row > *most) {
            return Some(format!("a row of its box has {row} bytes, its swizzle takes {most}"));
        }
        if let Some(to) = self.rounds_to.filter(|to| to.source() != dtype) {
            return Some(format!(
                "it rounds elements to {to}, which takes {}, and its elements are {dtype}",
                to.source()
            ));
        }
        let last = extents[1..].iter().zip(strides).fold(extents[0], |last, (extent, stride)| {
            last.saturating_add((extent - 1).saturating_mul(*stride))
        });
        let end = last.saturating_mul(element).saturating_add(*offset);
        if let Some(bytes) = workspace_bytes.filter(|bytes| end > *bytes) {
            return Some(format!("it ends at byte {end} of `{}`, which has {bytes}", self.operand));
        }
        None
    }

    /// Returns the map for an operand at `address`; the map has been checked.
    pub fn placed(&self, address: u64, types: GemmType) -> PlacedMap {
        let dtype = self.element(types);
        let mut placed = PlacedMap {
            address: address.wrapping_add(self.offset),
            dtype,
            rank: self.extents.len() as u32,
            extents: [1; MAX_RANK],
            strides: [0; MAX_RANK - 1],
            tile: [1; MAX_RANK],
            swizzle: self.swizzle,
            rounds_to: self.rounds_to,
        };
        placed.extents.iter_mut().zip(&self.extents).for_each(|(to, from)| *to = *from);
        placed.tile.iter_mut().zip(&self.tile).for_each(|(to, from)| *to = *from);
        for (to, from) in placed.strides.iter_mut().zip(&self.strides) {
            *to = from * dtype.bytes();
        }
        placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> TensorMap {
        TensorMap {
            name: "a_map".to_owned(),
            operand: "packed".to_owned(),
            dtype: None,
            offset: 64,
            extents: vec![100, 30, 2],
            strides: vec![100, 3000],
            tile: vec![32, 16, 1],
            swizzle: Swizzle::None,
            rounds_to: Some(CopyRounding::Tf32),
        }
    }

    #[test]
    fn invalid_maps_are_refused_with_their_figures() {
        let bytes = 64 + 4 * 6000;
        assert_eq!(map().check(GemmType::of(Dtype::F32), Some(bytes)), Ok(()));
        assert_eq!(map().check(GemmType::of(Dtype::F32), None), Ok(()));
        let check = |change: fn(&mut TensorMap), expected: &str| {
            let mut map = map();
            change(&mut map);
            let error = map.check(GemmType::of(Dtype::F32), Some(bytes)).unwrap_err().to_string();
            assert_eq!(error, format!("tensor map `a_map`: {expected}"));
        };
        check(|map| map.extents.clear(), "it has 0 dimensions, not within 1 to 5");
        check(
            |map| map.strides.clear(),
            "3 dimensions need 2 strides and a box of 3 extents, not 0 and 3",
        );
        check(|map| map.extents[1] = 0, "an extent is 0, not within 1 to 4294967295");
        check(
            |map| map.extents[1] = 1 << 32,
            "an extent is 4294967296, not within 1 to 4294967295",
        );
        check(|map| map.tile[1] = 257, "its box has an extent of 257, not within 1 to 256");
        check(|map| map.tile[2] = 0, "its box has an extent of 0, not within 1 to 256");
        check(|map| map.tile[0] = 6, "a row of its box has 24 bytes, no multiple of 16");
        check(|map| map.offset = 8, "it begins 8 bytes into `packed`, no multiple of 16");
        let stride = |bytes: u64| {
            format!("a stride is {bytes} bytes, not a multiple of 16 from 16 to below 2^40")
        };
        check(|map| map.strides[0] = 101, &stride(404));
        check(|map| map.strides[0] = 0, &stride(0));
        check(|map| map.strides[1] = 1 << 38, &stride(1 << 40));
        check(
            |map| map.swizzle = Swizzle::B64,
            "a row of its box has 128 bytes, its swizzle takes 64",
        );
        check(
            |map| map.dtype = Some(Dtype::I32),
            "it rounds elements to tf32, which takes f32, and its elements are i32",
        );
        check(|map| map.offset = 80, "it ends at byte 24080 of `packed`, which has 24064");
    }

    #[test]
    fn a_map_is_placed_in_bytes() {
        let placed = map().placed(4096, GemmType::of(Dtype::F32));
        assert_eq!((placed.address, placed.rank), (4160, 3));
        assert_eq!(placed.extents, [100, 30, 2, 1, 1]);
        assert_eq!(placed.strides, [400, 12_000, 0, 0]);
        assert_eq!(placed.tile, [32, 16, 1, 1, 1]);
        assert_eq!(placed.rounds_to, Some(CopyRounding::Tf32));
    }
}
