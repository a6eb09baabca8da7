//! Code of a kernel, as decoding produces it and execution runs it.

use super::error::SourceLine;
use super::operation::{KernelStep, RegisterSlot, SpecialRegister};
use super::parse::ClusterDirectives;

/// A kernel's code, ready to run.
#[derive(Debug)]
pub(super) struct KernelCode {
    pub(super) name: String,
    pub(super) steps: Vec<KernelStep>,
    pub(super) sources: Vec<SourceLine>,
    pub(super) slots: SlotCounts,
    pub(super) pinned: InitialSlots,
    /// Where parameters begin, and their bytes.
    pub(super) parameters: Vec<(u64, u64)>,
    pub(super) segments: Vec<SharedSegment>,
    /// Static shared memory without what lies between variables here.
    pub(super) static_shared_bytes: u64,
    /// Where dynamic shared memory begins.
    pub(super) dynamic_shared: u64,
    pub(super) local_bytes: u64,
    pub(super) declared_registers: u64,
    /// The bytes that checks of shared memory tell apart: those of its smallest access.
    pub(super) granule: u32,
    pub(super) clusters: ClusterDirectives,
}

/// How many slots of each class a warp needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SlotCounts {
    pub(super) predicates: u32,
    pub(super) words: u32,
    pub(super) longs: u32,
}

/// What fills a slot before a block begins.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct InitialSlots {
    pub(super) words: Vec<(u32, RegisterSlot)>,
    pub(super) longs: Vec<(u64, RegisterSlot)>,
    pub(super) specials: Vec<(SpecialRegister, RegisterSlot)>,
    /// The predicate that always holds, where one is needed.
    pub(super) always: Option<RegisterSlot>,
}

/// A stretch of shared memory that a variable has to itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SharedSegment {
    pub(super) name: String,
    pub(super) start: u64,
    pub(super) end: u64,
}
