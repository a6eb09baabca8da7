//! What a kernel may do wrong, and which of it is looked for.

use std::fmt;

use thiserror::Error;

use super::error::SourceLine;

/// Something that costs time to look for, and so can be left out.
///
/// What else ends a launch is always found, since going on would make no sense: accesses out of
/// bounds or misaligned, deadlocks, loops that do not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExecutionCheck {
    /// Reads of memory that nothing wrote: shared and local memory, and global memory that
    /// remembers what was written ([`super::WriteTracking::Written`]).
    Unwritten,
    /// Accesses of two threads to the same place in shared memory, one of them a write, without
    /// a barrier between them; accesses to another block's shared memory that no barrier of the
    /// cluster keeps from coming before the block begins or after it ends.
    Race,
    /// Barriers that not all threads of a warp, or of a block, reach together.
    Divergence,
}

/// A set of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExecutionChecks(u8);

impl ExecutionChecks {
    /// None: the fastest.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self(0b111);

    /// This set and one more.
    #[must_use]
    pub const fn with(self, check: ExecutionCheck) -> Self {
        Self(self.0 | 1 << check as u8)
    }

    /// Whether a check is among them.
    pub const fn has(self, check: ExecutionCheck) -> bool {
        self.0 >> check as u8 & 1 == 1
    }
}

/// What a kernel did wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ViolationKind {
    /// An access to memory that belongs to nothing.
    OutOfBounds,
    /// An access to an address that is no multiple of its size.
    Misaligned,
    /// A read of memory that nothing wrote.
    Unwritten,
    /// Accesses of two threads that no barrier orders.
    Race,
    /// A barrier or an exchange between lanes that some threads do not reach with the others.
    BarrierDivergence,
    /// Threads wait for each other, or for one that has ended.
    Deadlock,
    /// More instructions than the launch may take.
    Runaway,
    /// The kernel trapped.
    Trap,
    /// A tensor map or an mbarrier that is none, or is used as it may not be.
    CopyEngine,
}

impl ViolationKind {
    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::OutOfBounds => "out of bounds",
            Self::Misaligned => "misaligned",
            Self::Unwritten => "unwritten memory",
            Self::Race => "race",
            Self::BarrierDivergence => "barrier divergence",
            Self::Deadlock => "deadlock",
            Self::Runaway => "runaway loop",
            Self::Trap => "trap",
            Self::CopyEngine => "copy engine",
        }
    }
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that a kernel did wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{kind}: {text} (kernel `{kernel}`{}, PTX line {ptx_line}, block {block:?}{})",
    source_line.as_ref().map(|line| format!(", {line}")).unwrap_or_default(),
    thread.map(|thread| format!(", thread {thread:?}")).unwrap_or_default()
)]
pub struct Violation {
    /// What kind of wrong.
    pub kind: ViolationKind,
    /// The kernel.
    pub kernel: String,
    /// The line of the CUDA source, where the compiler recorded it.
    pub source_line: Option<SourceLine>,
    /// The line of the PTX text.
    pub ptx_line: u32,
    /// The block, by its index in x, y and z.
    pub block: [u32; 3],
    /// The thread, likewise; none where it concerns a whole warp or block.
    pub thread: Option<[u32; 3]>,
    /// The address, where there is one. In shared and local memory it counts from their beginning.
    pub address: Option<u64>,
    /// What happened, in words.
    pub text: String,
}

/// A violation before its place in texts and grid is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LaneViolation {
    pub(super) kind: ViolationKind,
    pub(super) lane: Option<usize>,
    pub(super) address: Option<u64>,
    pub(super) text: String,
}

impl LaneViolation {
    /// What concerns a whole warp.
    pub(super) fn of_warp(kind: ViolationKind, text: impl Into<String>) -> Self {
        Self { kind, lane: None, address: None, text: text.into() }
    }

    /// An access of one lane.
    pub(super) fn access(kind: ViolationKind, lane: usize, address: u64, text: String) -> Self {
        Self { kind, lane: Some(lane), address: Some(address), text }
    }
}
