//! What a launch did: instructions by class, and what every access to memory cost and moved.

use std::collections::BTreeMap;

use super::error::SourceLine;
use super::trace::MemoryAccess;

/// What kind of work an instruction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InstructionClass {
    /// Fused multiply-adds of f32.
    Fma,
    /// Other floating-point arithmetic.
    Float,
    /// Integer arithmetic, comparisons, moves and conversions.
    Integer,
    /// Loads from global memory.
    GlobalLoad,
    /// Stores to global memory.
    GlobalStore,
    /// Loads from shared memory, `ldmatrix` among them.
    SharedLoad,
    /// Stores to shared memory.
    SharedStore,
    /// Asynchronous copies from global to shared memory.
    AsyncCopy,
    /// Accesses to local memory, parameters and constants.
    OtherMemory,
    /// Atomic operations.
    Atomic,
    /// Matrix products.
    Matrix,
    /// Shuffles and votes.
    Warp,
    /// Barriers, fences and waits.
    Barrier,
    /// Branches and exits.
    Control,
}

impl InstructionClass {
    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fma => "fma",
            Self::Float => "float",
            Self::Integer => "integer",
            Self::GlobalLoad => "global load",
            Self::GlobalStore => "global store",
            Self::SharedLoad => "shared load",
            Self::SharedStore => "shared store",
            Self::AsyncCopy => "async copy",
            Self::OtherMemory => "other memory",
            Self::Atomic => "atomic",
            Self::Matrix => "matrix",
            Self::Warp => "warp",
            Self::Barrier => "barrier",
            Self::Control => "control",
        }
    }
}

/// What accesses to memory cost and moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryCounts {
    /// Instructions of a warp that reached memory.
    pub requests: u64,
    /// Distinct sectors of 32 bytes of global memory, summed over requests.
    pub sectors: u64,
    /// Passes over the 32 banks of shared memory.
    pub wavefronts: u64,
    /// Those of them that a layout without conflicts would not need.
    pub bank_conflicts: u64,
    /// Bytes that lanes asked for.
    pub bytes_useful: u64,
    /// Bytes that moved: whole sectors, and for shared memory whole wavefronts.
    pub bytes_moved: u64,
}

impl MemoryCounts {
    /// Adds what others did.
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.sectors += other.sectors;
        self.wavefronts += other.wavefronts;
        self.bank_conflicts += other.bank_conflicts;
        self.bytes_useful += other.bytes_useful;
        self.bytes_moved += other.bytes_moved;
    }
}

/// One kind of access of one source line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessSite {
    /// The line, where the compiler recorded it.
    pub source: Option<SourceLine>,
    /// The kind of access.
    pub class: InstructionClass,
}

/// What a launch did. Without counting, only [`Counts::blocks`] is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Blocks executed.
    pub blocks: u64,
    /// Instructions that warps executed, by class.
    pub instructions: BTreeMap<InstructionClass, u64>,
    /// Accesses by kind.
    pub memory: BTreeMap<InstructionClass, MemoryCounts>,
    /// Accesses by source line and kind.
    pub by_line: BTreeMap<AccessSite, MemoryCounts>,
    /// Every access but loads from shared memory, warp by warp as they took turns; nothing unless
    /// that was asked for.
    pub accesses: Vec<MemoryAccess>,
}

impl Counts {
    /// The accesses of a kind; zeros where there were none.
    pub fn of(&self, class: InstructionClass) -> MemoryCounts {
        self.memory.get(&class).copied().unwrap_or_default()
    }

    pub(super) fn add_instructions(&mut self, class: InstructionClass, count: u64) {
        *self.instructions.entry(class).or_default() += count;
    }

    pub(super) fn add_accesses(&mut self, site: AccessSite, counts: MemoryCounts) {
        self.memory.entry(site.class).or_default().add(counts);
        self.by_line.entry(site).or_default().add(counts);
    }
}
