//! Operands of matrix instructions.

use super::operands::{Address, RegisterSlot};

/// Element type of `mma` operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum MatrixElement {
    F16,
    Bf16,
    Tf32,
    S8,
    U8,
}

/// `mma.sync` of 16 x 8 x `depth`.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) struct MatrixProduct {
    /// Elements of A and of B, which differ for integers only.
    pub(in crate::cpu) elements: [MatrixElement; 2],
    pub(in crate::cpu) depth: usize,
    pub(in crate::cpu) d: Vec<RegisterSlot>,
    pub(in crate::cpu) a: Vec<RegisterSlot>,
    pub(in crate::cpu) b: Vec<RegisterSlot>,
    pub(in crate::cpu) c: Vec<RegisterSlot>,
    /// Format of C and D.
    pub(in crate::cpu) accumulator: AccumulatorFormat,
}

/// Accumulator format of `mma`; `F16` packs two elements into a register, `S32` wraps or saturates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum AccumulatorFormat {
    F32,
    F16,
    S32 { saturates: bool },
}

impl MatrixElement {
    /// Elements in a register.
    pub(in crate::cpu) fn per_register(self) -> usize {
        match self {
            Self::Tf32 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::S8 | Self::U8 => 4,
        }
    }
}

/// `ldmatrix` or `stmatrix`.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) struct MatrixMove {
    pub(in crate::cpu) direction: MatrixDirection,
    pub(in crate::cpu) transposed: bool,
    pub(in crate::cpu) address: Address,
    pub(in crate::cpu) registers: Vec<RegisterSlot>,
}

/// Direction of a matrix move, seen from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum MatrixDirection {
    Load,
    Store,
}
