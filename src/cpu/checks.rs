//! Checks of a launch, and the violations that a kernel can commit.

use std::fmt;

use thiserror::Error;

use super::error::SourceLine;

/// An optional check, which costs time.
///
/// Violations after which execution cannot continue are always detected: accesses out of bounds or
/// misaligned, deadlocks, and loops without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExecutionCheck {
    /// Reads of unwritten memory: shared memory, local memory, and global memory with
    /// [`super::WriteTracking::Written`].
    Unwritten,
    /// Data races in shared memory: accesses of two threads to the same place, one of them a write,
    /// without a barrier between them. Also accesses to another block's shared memory that no
    /// cluster barrier orders after the block's start and before its end. Also registers of asynchronous
    /// matrix products that are used without a fence or a wait.
    /// Also accesses to global memory before `griddepcontrol.wait` that conflict with those of a launch that may still
    /// run ([`super::LaunchOptions::unfinished`]).
    Race,
    /// Barriers that some threads of a warp or a block do not reach.
    Divergence,
}

/// A set of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExecutionChecks(u8);

impl ExecutionChecks {
    /// No checks: the fastest.
    pub const NONE: Self = Self(0);
    /// All checks.
    pub const ALL: Self = Self(0b111);

    /// Adds a check to the set.
    #[must_use]
    pub const fn with(self, check: ExecutionCheck) -> Self {
        Self(self.0 | 1 << check as u8)
    }

    /// Whether the set contains a check.
    pub const fn has(self, check: ExecutionCheck) -> bool {
        self.0 >> check as u8 & 1 == 1
    }
}

/// Kind of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ViolationKind {
    /// An access outside of all memory of its space.
    OutOfBounds,
    /// An access to an address that is no multiple of its size.
    Misaligned,
    /// A read of unwritten memory.
    Unwritten,
    /// Accesses of two threads that no barrier orders, or accesses before `griddepcontrol.wait` that conflict with an
    /// earlier launch.
    Race,
    /// A barrier or a lane exchange that some participating threads do not reach.
    BarrierDivergence,
    /// Threads wait for each other, or for a thread that has ended.
    Deadlock,
    /// More instructions than the budget of the launch.
    Runaway,
    /// The kernel executed `trap`.
    Trap,
    /// An invalid tensor map or mbarrier, or an invalid use of one.
    CopyEngine,
    /// An invalid matrix descriptor, or a register of an asynchronous matrix product that is used
    /// without the fence or the wait that the product needs.
    MatrixUnit,
}

impl ViolationKind {
    /// Short name for messages.
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
            Self::MatrixUnit => "matrix unit",
        }
    }
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A violation by a kernel, with its location.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{kind}: {text} (kernel `{kernel}`{}, PTX line {ptx_line}, block {block:?}{})",
    source_line.as_ref().map(|line| format!(", {line}")).unwrap_or_default(),
    thread.map(|thread| format!(", thread {thread:?}")).unwrap_or_default()
)]
pub struct Violation {
    /// Kind of the violation.
    pub kind: ViolationKind,
    /// Name of the kernel.
    pub kernel: String,
    /// Line of the CUDA source, where the compiler recorded it.
    pub source_line: Option<SourceLine>,
    /// Line of the PTX text.
    pub ptx_line: u32,
    /// Index of the block in x, y and z.
    pub block: [u32; 3],
    /// Index of the thread in x, y and z; `None` where the violation concerns a whole warp or
    /// block.
    pub thread: Option<[u32; 3]>,
    /// Address of the access, if any. In shared and local memory it counts from the start of that
    /// memory.
    pub address: Option<u64>,
    /// Description.
    pub text: String,
}

/// A violation whose location is not resolved yet: neither source line nor block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LaneViolation {
    pub(super) kind: ViolationKind,
    pub(super) lane: Option<usize>,
    pub(super) address: Option<u64>,
    pub(super) text: String,
}

impl LaneViolation {
    /// A violation by a whole warp.
    pub(super) fn of_warp(kind: ViolationKind, text: impl Into<String>) -> Self {
        Self { kind, lane: None, address: None, text: text.into() }
    }

    /// A violation by the access of one lane.
    pub(super) fn access(kind: ViolationKind, lane: usize, address: u64, text: String) -> Self {
        Self { kind, lane: Some(lane), address: Some(address), text }
    }
}
