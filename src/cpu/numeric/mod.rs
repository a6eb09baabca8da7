//! Arithmetic as PTX defines it where Rust's differs: rounding modes, narrow floating-point
//! formats, fused multiply-add. All of it is exact or correctly rounded, and total.

pub(super) mod convert;
pub(super) mod float;

/// How a result that a format cannot hold is rounded (ISA section 7.7.2, `.rn` and its kin).
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
