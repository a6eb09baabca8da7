//! What the copy engine is told, and what is asked of the mbarriers that tell of it.

use super::operands::{Address, RegisterSlot};

/// `cp.async.bulk.tensor` from global to shared memory.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) struct TensorCopy {
    pub(in crate::cpu) to: Address,
    /// Where the tensor map is.
    pub(in crate::cpu) map: Address,
    /// Where the box begins, the innermost dimension first.
    pub(in crate::cpu) coordinates: Vec<RegisterSlot>,
    /// Where the mbarrier is that is told of the bytes.
    pub(in crate::cpu) barrier: Address,
}

/// What is done with an mbarrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum MbarrierOperation {
    /// For so many arrivals in each phase.
    Init {
        count: RegisterSlot,
    },
    Invalidate,
    /// Makes the phase wait for bytes.
    Expect {
        bytes: RegisterSlot,
    },
    /// Once, or `count` times; before that it makes the phase wait for bytes.
    Arrive {
        count: Option<RegisterSlot>,
        bytes: Option<RegisterSlot>,
        state: Option<RegisterSlot>,
    },
    /// Asks whether a phase is over. Who is `patient` is answered when it is.
    Wait {
        d: RegisterSlot,
        phase: PhaseOperand,
        patient: bool,
    },
}

/// Which phase of an mbarrier is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum PhaseOperand {
    /// The last one of this parity.
    Parity(RegisterSlot),
    /// The one that an mode told.
    State(RegisterSlot),
}
