//! Tensor copies, and operations on the mbarriers that track their completion.

use super::operands::{Address, RegisterSlot};

/// `cp.async.bulk.tensor` from global to shared memory.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) struct TensorCopy {
    pub(in crate::cpu) to: Address,
    /// Address of the tensor map.
    pub(in crate::cpu) map: Address,
    /// Coordinates of the box, the innermost dimension first.
    pub(in crate::cpu) coordinates: Vec<RegisterSlot>,
    /// Address of the mbarrier that counts the bytes.
    pub(in crate::cpu) barrier: Address,
    /// Mask of the blocks of the cluster that receive the box, if it is not one block only.
    pub(in crate::cpu) blocks: Option<RegisterSlot>,
}

/// `cp.async.bulk.tensor` or `cp.reduce.async.bulk.tensor` from shared to global memory.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) struct TensorStore {
    pub(in crate::cpu) from: Address,
    /// Address of the tensor map.
    pub(in crate::cpu) map: Address,
    /// Coordinates of the box, the innermost dimension first.
    pub(in crate::cpu) coordinates: Vec<RegisterSlot>,
    pub(in crate::cpu) effect: StoreEffect,
}

/// Effect of a tensor store on global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum StoreEffect {
    Replace,
    Add,
}

/// What a wait for bulk stores waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum StoreWait {
    /// Their reads of shared memory (`.read`).
    Reads,
    Writes,
}

/// An operation on an mbarrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum MbarrierOperation {
    /// Initialises it for a number of arrivals per phase.
    Init {
        count: RegisterSlot,
    },
    Invalidate,
    /// Adds bytes that the current phase waits for.
    Expect {
        bytes: RegisterSlot,
    },
    /// Arrives once or `count` times, after adding `bytes` to the expected bytes.
    Arrive {
        count: Option<RegisterSlot>,
        bytes: Option<RegisterSlot>,
        state: Option<RegisterSlot>,
    },
    /// Tests whether a phase is complete; `patient` (`try_wait`) suspends the warp until it is.
    Wait {
        d: RegisterSlot,
        phase: PhaseOperand,
        patient: bool,
    },
}

/// Operand that selects a phase of an mbarrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum PhaseOperand {
    /// The latest phase with this parity.
    Parity(RegisterSlot),
    /// The phase that an arrival returned.
    State(RegisterSlot),
}
