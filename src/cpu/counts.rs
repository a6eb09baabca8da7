//! Counts of a launch: instructions by class, and the cost and traffic of memory accesses.

use std::collections::BTreeMap;

use super::error::SourceLine;
use super::trace::MemoryAccess;

/// Class of an instruction.
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
    /// Loads from shared memory, including `ldmatrix`.
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
    /// Short name for reports.
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

/// Cost and traffic of memory accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryCounts {
    /// Warp instructions that accessed memory.
    pub requests: u64,
    /// Distinct 32-byte sectors of global memory, summed over requests.
    pub sectors: u64,
    /// Passes over the 32 banks of shared memory.
    pub wavefronts: u64,
    /// Wavefronts that a layout without bank conflicts would not need.
    pub bank_conflicts: u64,
    /// Bytes that lanes requested.
    pub bytes_useful: u64,
    /// Bytes that moved: whole sectors, and whole wavefronts of shared memory.
    pub bytes_moved: u64,
}

impl MemoryCounts {
    /// Adds other counts.
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.sectors += other.sectors;
        self.wavefronts += other.wavefronts;
        self.bank_conflicts += other.bank_conflicts;
        self.bytes_useful += other.bytes_useful;
        self.bytes_moved += other.bytes_moved;
    }
}

/// Accesses of one class at one source line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessSite {
    /// Source line, where the compiler recorded it.
    pub source: Option<SourceLine>,
    /// Class of the access.
    pub class: InstructionClass,
}

/// Clocks of the warps that do most, each as if it were alone.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WarpClocks {
    /// With operands from global memory at once.
    pub own: f64,
    /// Waits for global memory: times that a warp waits for the whole latency of an access.
    pub waits: f64,
}

/// Counts of a launch. Without counting, only [`Counts::blocks`] is set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    /// Executed blocks.
    pub blocks: u64,
    /// Warp instructions by class.
    pub instructions: BTreeMap<InstructionClass, u64>,
    /// Clocks of the warps that do most, each as if it were alone.
    pub warp_clocks: WarpClocks,
    /// Memory accesses by class.
    pub memory: BTreeMap<InstructionClass, MemoryCounts>,
    /// Memory accesses by source line and class.
    pub by_line: BTreeMap<AccessSite, MemoryCounts>,
    /// Every access except loads from shared memory, in the order of execution. Empty unless
    /// tracing is on.
    pub accesses: Vec<MemoryAccess>,
}

impl Counts {
    /// Counts of a class; zeros where there were no accesses.
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
