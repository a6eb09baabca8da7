//! PTX arithmetic that Rust does not provide: rounding modes, narrow floating-point formats, fused
//! multiply-add. All functions are exact or correctly rounded, and total.

pub(super) mod addition;
pub(super) mod convert;
pub(super) mod copy_rounding;
pub(super) mod float;
pub(super) mod tensor_sum;

/// Rounding mode (ISA section 7.7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    /// `.rn`
    NearestEven,
    /// `.rna`
    NearestAway,
    /// `.rz`
    Zero,
    /// `.rm`
    Down,
    /// `.rp`
    Up,
}
