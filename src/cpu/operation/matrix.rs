//! Operands of matrix instructions.

use super::operands::{Address, RegisterSlot};

/// The elements that `mma` multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum MatrixElement {
    F16,
    Bf16,
    Tf32,
}

/// `mma.sync` of 16 x 8 x `depth`.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) struct MatrixProduct {
    pub(in crate::cpu) element: MatrixElement,
    pub(in crate::cpu) depth: usize,
    pub(in crate::cpu) d: Vec<RegisterSlot>,
    pub(in crate::cpu) a: Vec<RegisterSlot>,
    pub(in crate::cpu) b: Vec<RegisterSlot>,
    pub(in crate::cpu) c: Vec<RegisterSlot>,
    /// Whether C and D are f16 pairs rather than f32.
    pub(in crate::cpu) accumulator: AccumulatorFormat,
}

/// The format of an `mma`'s sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum AccumulatorFormat {
    F32,
    F16,
}

/// `ldmatrix` or `stmatrix`.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) struct MatrixMove {
    pub(in crate::cpu) direction: MatrixDirection,
    pub(in crate::cpu) transposed: bool,
    pub(in crate::cpu) address: Address,
    pub(in crate::cpu) registers: Vec<RegisterSlot>,
}

/// To or from registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum MatrixDirection {
    Load,
    Store,
}
