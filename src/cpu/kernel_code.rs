//! Decoded code of a kernel: the output of `decode` and the input of `execute`.

use std::sync::Arc;

use super::error::SourceLine;
use super::operation::{KernelStep, Operation, RegisterSlot, SlotUse, SpecialRegister};
use super::parse::ClusterDirectives;

/// Decoded code of a kernel.
#[derive(Debug)]
pub(super) struct KernelCode {
    pub(super) name: String,
    pub(super) steps: Vec<KernelStep>,
    /// For each step, the registers of warpgroup products that it uses otherwise; empty without such products.
    pub(super) product_uses: Vec<Vec<(SlotUse, RegisterSlot)>>,
    pub(super) sources: Arc<[SourceLine]>,
    pub(super) slots: SlotCounts,
    pub(super) pinned: InitialSlots,
    /// Offset and bytes of each parameter.
    pub(super) parameters: Vec<(u64, u64)>,
    pub(super) segments: Vec<SharedSegment>,
    /// Static shared memory, without the guard bytes that this device puts between variables.
    pub(super) static_shared_bytes: u64,
    /// Offset of dynamic shared memory.
    pub(super) dynamic_shared: u64,
    pub(super) local_bytes: u64,
    pub(super) declared_registers: u64,
    /// Granularity of the checks of shared memory: the bytes of the kernel's smallest access.
    pub(super) granule: u32,
    pub(super) clusters: ClusterDirectives,
}

impl KernelCode {
    /// Whether instructions read shared memory after the warp has gone on.
    pub(super) fn reads_asynchronously(&self) -> bool {
        let stores = |step: &KernelStep| matches!(step.operation, Operation::TensorStore(_));
        !self.product_uses.is_empty() || self.steps.iter().any(stores)
    }
}

/// Slots of each class that a warp needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SlotCounts {
    pub(super) predicates: u32,
    pub(super) words: u32,
    pub(super) longs: u32,
}

/// Slots that are filled before a block begins: constants and special registers.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct InitialSlots {
    pub(super) words: Vec<(u32, RegisterSlot)>,
    pub(super) longs: Vec<(u64, RegisterSlot)>,
    pub(super) specials: Vec<(SpecialRegister, RegisterSlot)>,
    /// Slot of a predicate that is always true, if the kernel uses one.
    pub(super) always: Option<RegisterSlot>,
}

/// Range of shared memory that belongs to one variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SharedSegment {
    pub(super) name: String,
    pub(super) start: u64,
    pub(super) end: u64,
}

impl SharedSegment {
    /// Name of the memory that the launch, and no variable, gives its size.
    pub(super) const DYNAMIC: &str = "dynamic shared memory";

    pub(super) fn has(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// The name as messages have it: names of the source in backticks.
    pub(super) fn quoted(&self) -> String {
        if self.name == Self::DYNAMIC { self.name.clone() } else { format!("`{}`", self.name) }
    }
}
