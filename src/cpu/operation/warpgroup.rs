//! Operands of matrix products of a warpgroup: `wgmma`.

use super::matrix::{AccumulatorFormat, MatrixElement};
use super::operands::{PredicateOperand, RegisterSlot};

/// `wgmma.mma_async` of 64 x `columns` x `depth`. Each warp computes 16 rows.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) struct WarpgroupProduct {
    /// Elements of A and of B, which differ for integers only.
    pub(in crate::cpu) elements: [MatrixElement; 2],
    /// Format of C and D.
    pub(in crate::cpu) accumulator: AccumulatorFormat,
    pub(in crate::cpu) columns: usize,
    pub(in crate::cpu) depth: usize,
    pub(in crate::cpu) d: Vec<RegisterSlot>,
    /// The registers of D, as those of the accumulator that is read.
    pub(in crate::cpu) c: Vec<RegisterSlot>,
    pub(in crate::cpu) a: FactorSource,
    pub(in crate::cpu) b: DescribedMatrix,
    /// Whether the accumulator is added (`scale-d`).
    pub(in crate::cpu) accumulates: PredicateOperand,
    /// Whether the elements of A and of B are negated (`imm-scale-a`, `imm-scale-b`).
    pub(in crate::cpu) negated: [bool; 2],
}

/// Source of A.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) enum FactorSource {
    Registers(Vec<RegisterSlot>),
    Shared(DescribedMatrix),
}

/// A matrix in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct DescribedMatrix {
    /// Its descriptor, of 64 bits.
    pub(in crate::cpu) descriptor: RegisterSlot,
    pub(in crate::cpu) major: MajorDimension,
}

/// Dimension along which elements of a matrix are adjacent in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum MajorDimension {
    /// Along K.
    Depth,
    /// Along M or N (`imm-trans-a`, `imm-trans-b`).
    Outer,
}

/// Synchronisation of a warpgroup's products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum WarpgroupOrder {
    /// Orders register accesses before products.
    Fence,
    Commit,
    /// Waits until at most `pending` groups are incomplete.
    Wait {
        pending: u32,
    },
}

impl WarpgroupProduct {
    /// Registers of A, if it is in registers.
    pub(in crate::cpu) fn fragment(&self) -> &[RegisterSlot] {
        match &self.a {
            FactorSource::Registers(registers) => registers,
            FactorSource::Shared(_) => &[],
        }
    }
}
