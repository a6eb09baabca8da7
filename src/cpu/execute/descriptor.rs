//! Matrix descriptors of `wgmma`: the places in shared memory of the elements of a matrix.
//!
//! Elements lie in chunks of 16 bytes. Along the other dimension, eight chunks make a group (ISA: shared memory matrix
//! layout, strides, matrix descriptor format). A matrix has one row per M or N, and columns along K.

use crate::cpu::checks::{LaneViolation, ViolationKind};
use crate::cpu::operation::MajorDimension;
use crate::cpu::swizzle::{row_bytes, swizzled};
use crate::model::Swizzle;

/// Bytes of a chunk.
pub(super) const CHUNK_BYTES: u64 = 16;

/// Chunks of a group.
const GROUP: usize = 8;

/// Bits that belong to no field.
const UNUSED: u64 = 0x3ff1_c000_c000_c000;

/// A decoded matrix descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MatrixDescriptor {
    start: u64,
    /// Leading dimension and stride dimension byte offsets.
    leading: u64,
    stride: u64,
    swizzle: Swizzle,
}

/// A chunk: its address in the block's shared memory, and the row and column of its first element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MatrixChunk {
    pub(super) address: u64,
    pub(super) row: usize,
    pub(super) column: usize,
}

fn violation(text: impl Into<String>) -> LaneViolation {
    LaneViolation::of_warp(ViolationKind::MatrixUnit, text)
}

impl MatrixDescriptor {
    /// Decodes a descriptor.
    pub(super) fn decode(bits: u64) -> Result<Self, LaneViolation> {
        let field = |shift: u32| (bits >> shift & 0x3fff) << 4;
        let swizzle = match bits >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::B128,
            2 => Swizzle::B64,
            _ => Swizzle::B32,
        };
        if bits & UNUSED != 0 {
            let text = format!(
                "the matrix descriptor {bits:#018x} has bits outside of its fields; an address or an offset exceeds \
                 18 bits"
            );
            return Err(violation(text));
        }
        if swizzle != Swizzle::None && bits >> 49 & 7 != 0 {
            let text = "this device does not support matrix descriptors with a base offset";
            return Err(violation(text));
        }
        Ok(Self { start: field(0), leading: field(16), stride: field(32), swizzle })
    }

    /// Chunks of `rows` x `depth` elements from row `first` on. `per_chunk` elements are in a chunk.
    pub(super) fn chunks(
        self,
        major: MajorDimension,
        (first, rows): (usize, usize),
        (depth, per_chunk): (usize, usize),
    ) -> impl Iterator<Item = MatrixChunk> {
        let (outer, inner) = match major {
            MajorDimension::Depth => (rows, depth / per_chunk),
            MajorDimension::Outer => (depth, rows / per_chunk),
        };
        (0..outer * inner).map(move |at| {
            let (row, column) = match major {
                MajorDimension::Depth => (first + at / inner, at % inner * per_chunk),
                MajorDimension::Outer => (first + at % inner * per_chunk, at / inner),
            };
            let offset = match major {
                MajorDimension::Depth => self.depth_major(row, column / per_chunk),
                MajorDimension::Outer => self.outer_major(row / per_chunk, column),
            };
            MatrixChunk { address: swizzled(self.swizzle, self.start + offset), row, column }
        })
    }

    /// Offset of a chunk of a row, with adjacent elements along K.
    fn depth_major(self, row: usize, chunk: usize) -> u64 {
        let (group, within) = ((row / GROUP) as u64, (row % GROUP) as u64);
        let next = if self.swizzle == Swizzle::None { self.leading } else { CHUNK_BYTES };
        group * self.stride + within * row_bytes(self.swizzle) + chunk as u64 * next
    }

    /// Offset of a chunk of a column, with adjacent elements along M or N.
    fn outer_major(self, chunk: usize, column: usize) -> u64 {
        let (group, within) = ((column / GROUP) as u64, (column % GROUP) as u64);
        // Chunks of a row of memory.
        let across = row_bytes(self.swizzle) / CHUNK_BYTES;
        let (far, near) = (chunk as u64 / across, chunk as u64 % across);
        let (of_group, of_far) = match self.swizzle {
            Swizzle::None => (self.leading, self.stride),
            _ => (self.stride, self.leading),
        };
        group * of_group + within * row_bytes(self.swizzle) + far * of_far + near * CHUNK_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a descriptor whose matrix begins at 0.
    fn descriptor(swizzle: u64, leading: u64, stride: u64) -> MatrixDescriptor {
        MatrixDescriptor::decode(leading >> 4 << 16 | stride >> 4 << 32 | swizzle << 62).unwrap()
    }

    /// Address of an element, without the swizzle, in elements. `T` elements are in a chunk.
    fn place(
        descriptor: MatrixDescriptor,
        major: MajorDimension,
        per_chunk: usize,
        (row, column): (usize, usize),
    ) -> u64 {
        let element = CHUNK_BYTES / per_chunk as u64;
        let chunks = descriptor.chunks(major, (0, 128), (2 * 8 * per_chunk, per_chunk));
        let found = chunks.filter_map(|chunk| {
            let within = match major {
                MajorDimension::Depth if chunk.row == row => column.checked_sub(chunk.column),
                MajorDimension::Outer if chunk.column == column => row.checked_sub(chunk.row),
                _ => None,
            }?;
            // A swizzle is its own inverse.
            let address = swizzled(descriptor.swizzle, chunk.address);
            (within < per_chunk).then_some(address / element + within as u64)
        });
        found.last().unwrap()
    }

    #[test]
    fn the_layouts_are_those_of_the_isa() {
        use MajorDimension::{Depth, Outer};
        // The examples of the ISA, as strides in elements of ((rows), (columns)).
        for (swizzle, major, per_chunk, (leading, stride), rows, columns) in [
            (0, Depth, 4, (64 * 4, 32 * 4), &[(8, 4), (2, 32)][..], &[(4, 1), (2, 64)][..]),
            (3, Depth, 4, (0, 64 * 4), &[(8, 8), (2, 64)], &[(4, 1), (2, 4)]),
            (0, Outer, 8, (128 * 2, 64 * 2), &[(8, 1), (2, 64)], &[(8, 8), (2, 128)]),
            (3, Outer, 8, (128 * 2, 256 * 2), &[(8, 1), (2, 8), (2, 128)], &[(8, 16), (2, 256)]),
            (2, Outer, 8, (256 * 2, 512 * 2), &[(8, 1), (4, 8), (2, 256)], &[(8, 32), (2, 512)]),
            // By the general form of the same table.
            (1, Outer, 8, (1024 * 2, 4096 * 2), &[(64, 1), (2, 1024)], &[(8, 64), (2, 4096)]),
            (1, Depth, 8, (0, 1024), &[(8, 64), (16, 512)], &[(64, 1)]),
            (2, Depth, 16, (0, 512), &[(8, 64), (16, 512)], &[(64, 1)]),
        ] {
            let count = |modes: &[(usize, u64)]| modes.iter().map(|(extent, _)| extent).product();
            let offset = |modes: &[(usize, u64)], mut at: usize| {
                let each = |(extent, stride): &(usize, u64)| {
                    let part = (at % extent) as u64 * stride;
                    at /= extent;
                    part
                };
                modes.iter().map(each).sum::<u64>()
            };
            let descriptor = descriptor(swizzle, leading, stride);
            let (of_rows, of_columns): (usize, usize) = (count(rows), count(columns));
            for at in 0..of_rows * of_columns {
                let (row, column) = (at / of_columns, at % of_columns);
                let expected = offset(rows, row) + offset(columns, column);
                let found = place(descriptor, major, per_chunk, (row, column));
                assert_eq!(found, expected, "{swizzle} {major:?} {row} {column}");
            }
        }
    }

    #[test]
    fn fields_beyond_their_bits_and_base_offsets_are_refused() {
        assert!(MatrixDescriptor::decode(0xc000_3fff_3fff_3fff).is_ok());
        assert!(MatrixDescriptor::decode(7 << 49).is_ok());
        for (bits, text) in [
            (1_u64 << 62 | 1 << 49, "base offset"),
            (1 << 14, "outside of its fields"),
            (1 << 31, "outside of its fields"),
            (1 << 46, "outside of its fields"),
            (1 << 48, "outside of its fields"),
            (1 << 52, "outside of its fields"),
            (1 << 61, "outside of its fields"),
        ] {
            let error = MatrixDescriptor::decode(bits).unwrap_err();
            assert!(error.text.contains(text), "{bits:#x}: {}", error.text);
        }
    }
}
