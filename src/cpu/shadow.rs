//! Shadow memory of a cluster's shared memory: for every few bytes, the last writer and readers and
//! their time.
//!
//! Time is a vector clock per warp. A warp's own clock advances at every barrier; its other entries
//! say up to which time the barriers order the work of other warps before its own (FastTrack,
//! Flanagan and Freund 2009).
//!
//! The copy engine has one clock per mbarrier, which counts its copies. A warp that has waited for
//! a phase has observed the copies that arrived. [`AsyncReads`] has the reads of other engines.
//!
//! An asynchronous read needs a proxy fence after the ordinary writes that it follows. The fence may stand before or
//! after the barrier that orders them.
//!
//! Two readers of different threads are kept. With barriers of all warps that suffices to find
//! every race. With barriers of some warps, or of one block of a cluster, a race can go undetected.

use std::sync::Arc;

use super::async_reads::{AsyncEngine, AsyncReads, UnfinishedRead};
use super::checks::{ExecutionCheck, ExecutionChecks, LaneViolation, ViolationKind};
use super::error::SourceLine;
use super::kernel_code::SharedSegment;
use super::vector_clock::VectorClock;

/// Time of an access by a thread; a clock of 0 means never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Epoch {
    clock: u32,
    thread: u16,
    origin: AccessOrigin,
}

/// Source line of an access, and whether it is atomic, in 16 bits: a cell is as small as without the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AccessOrigin(u16);

impl AccessOrigin {
    const ATOMIC: u16 = 1 << 15;
    /// No line, or one of a number that does not fit.
    const UNKNOWN: Self = Self(Self::ATOMIC - 1);

    fn of_line(line: Option<u32>) -> Self {
        let line = line.and_then(|line| u16::try_from(line).ok());
        line.filter(|line| *line < Self::UNKNOWN.0).map_or(Self::UNKNOWN, Self)
    }

    fn atomic(self, atomic: bool) -> Self {
        Self(self.0 | u16::from(atomic) << 15)
    }

    fn is_atomic(self) -> bool {
        self.0 & Self::ATOMIC != 0
    }

    fn line(self) -> usize {
        usize::from(self.0 & !Self::ATOMIC)
    }
}

impl Default for AccessOrigin {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

/// What messages call the memory and the code of a kernel.
#[derive(Debug, Clone)]
pub(super) struct ShadowNames {
    /// Variables in the shared memory of a block.
    pub(super) segments: Vec<SharedSegment>,
    pub(super) sources: Arc<[SourceLine]>,
}

/// Shadow of one cell of shared memory.
#[derive(Debug, Clone, Copy, Default)]
struct ShadowCell {
    writer: Epoch,
    readers: [Epoch; 2],
}

/// Kind of an access to shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SharedAccess {
    Read,
    Write,
    /// An atomic read and write.
    Update,
    /// A write that takes effect at any time before the thread waits for it: `cp.async` at issue.
    Pending,
    /// A read through the async proxy, by an engine.
    Async,
}

/// Size of a cluster's shared memory, and the number of its users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SharedExtent {
    pub(super) blocks: usize,
    /// Bytes of each block.
    pub(super) bytes: u64,
    /// Warps of each block.
    pub(super) warps: usize,
}

/// Shadow of the shared memory of a cluster.
#[derive(Debug)]
pub(super) struct ShadowMemory {
    checks: ExecutionChecks,
    extent: SharedExtent,
    cells: Vec<ShadowCell>,
    /// Base-2 logarithm of the bytes of a cell.
    shift: u32,
    async_reads: AsyncReads,
    names: ShadowNames,
    /// That of the step that is executed.
    origin: AccessOrigin,
}

impl ShadowMemory {
    /// Creates a shadow with cells of `granule` bytes.
    pub(super) fn new(
        checks: ExecutionChecks,
        extent: SharedExtent,
        granule: u32,
        names: ShadowNames,
    ) -> Self {
        let shift = granule.max(1).ilog2();
        let wanted = checks.has(ExecutionCheck::Race) || checks.has(ExecutionCheck::Unwritten);
        let bytes = extent.blocks as u64 * extent.bytes;
        let count = if wanted { bytes.div_ceil(1 << shift) } else { 0 };
        let cells = vec![ShadowCell::default(); count as usize];
        let (async_reads, origin) = (AsyncReads::default(), AccessOrigin::UNKNOWN);
        Self { checks, extent, cells, shift, async_reads, names, origin }
    }

    /// Sets the source line of the accesses that follow, as the index of the kernel's sources.
    pub(super) fn set_line(&mut self, line: Option<u32>) {
        self.origin = AccessOrigin::of_line(line);
    }

    /// Prepares for reads of engines, which kernels without such instructions need not pay for.
    pub(super) fn expect_async_reads(&mut self) {
        if self.checks.has(ExecutionCheck::Race) {
            let SharedExtent { blocks, bytes, warps } = self.extent;
            self.async_reads = AsyncReads::new(blocks, bytes, warps);
        }
    }

    /// Clears the shadow for the next cluster.
    pub(super) fn reset(&mut self) {
        self.cells.fill(ShadowCell::default());
        self.async_reads.reset();
    }

    /// As [`Self::touch`] for a read. Reads of what another access is ordered before, which nearly all are, need no
    /// message and are decided here.
    #[inline(always)]
    pub(super) fn touch_read(
        &mut self,
        clocks: &VectorClock,
        warp: usize,
        lane: usize,
        (address, bytes): (u64, u32),
    ) -> Result<(), LaneViolation> {
        let first = (address >> self.shift) as usize;
        let last = (address + u64::from(bytes)).div_ceil(1 << self.shift) as usize;
        let thread = (warp * 32 + lane) as u16;
        let now = Epoch { clock: clocks.now(warp), thread, origin: self.origin };
        for cell in self.cells.get_mut(first..last).unwrap_or_default() {
            let writer = cell.writer;
            if writer.clock == 0 || !clocks.is_before(writer, now, warp) {
                // What is already recorded is recorded again, with no effect.
                return self.touch(clocks, warp, lane, (address, bytes), SharedAccess::Read);
            }
            cell.note_reader(now, clocks.is_before(cell.readers[0], now, warp));
        }
        Ok(())
    }

    /// Records the access of a lane, or returns the violation that it commits. `warp` is the number
    /// of the warp in the cluster; addresses count from the start of the cluster's shared memory.
    pub(super) fn touch(
        &mut self,
        clocks: &VectorClock,
        warp: usize,
        lane: usize,
        (address, bytes): (u64, u32),
        touch: SharedAccess,
    ) -> Result<(), LaneViolation> {
        let first = (address >> self.shift) as usize;
        let last = (address + u64::from(bytes)).div_ceil(1 << self.shift) as usize;
        let thread = (warp * 32 + lane) as u16;
        let origin = self.origin.atomic(touch == SharedAccess::Update);
        let now = Epoch { clock: clocks.now(warp), thread, origin };
        let both_atomic = |then: Epoch| now.origin.is_atomic() && then.origin.is_atomic();
        let races = self.checks.has(ExecutionCheck::Race);
        let unwritten = self.checks.has(ExecutionCheck::Unwritten);
        let before = |then: Epoch| clocks.is_before(then, now, warp);
        let warps = self.extent.blocks * self.extent.warps;
        let is_unfenced = |writer: Epoch| {
            let other = usize::from(writer.thread / 32);
            other < warps && writer.clock > clocks.fenced(other)
        };
        for cell in self.cells.get_mut(first..last).unwrap_or_default() {
            let reads =
                matches!(touch, SharedAccess::Read | SharedAccess::Update | SharedAccess::Async);
            if reads && unwritten && cell.writer.clock == 0 {
                return Err(self.unwritten(lane, (address, bytes)));
            }
            if races {
                let writer = cell.writer;
                if !(before(writer) || both_atomic(writer)) {
                    return Err(self.race(lane, address, touch, ("written", writer)));
                }
                if touch == SharedAccess::Async && is_unfenced(writer) {
                    return Err(self.unfenced(lane, address, writer));
                }
                let reader = cell.readers.iter().find(|reader| !before(**reader));
                let reads_only = matches!(touch, SharedAccess::Read | SharedAccess::Async);
                if let (false, Some(reader)) = (reads_only, reader)
                    && !both_atomic(*reader)
                {
                    let before = ("read", *reader);
                    return Err(self.race(lane, address, touch, before));
                }
            }
            match touch {
                SharedAccess::Read => cell.note_reader(now, before(cell.readers[0])),
                SharedAccess::Write => {
                    *cell = ShadowCell { writer: now, readers: [Epoch::default(); 2] }
                }
                SharedAccess::Update => cell.writer = now,
                SharedAccess::Pending | SharedAccess::Async => {}
            }
        }
        let writes = !matches!(touch, SharedAccess::Read | SharedAccess::Async);
        if writes && races && !self.async_reads.is_empty() {
            return match self.async_reads.unfinished(clocks, (address, bytes)) {
                None => Ok(()),
                Some(read) => Err(self.overwritten(lane, read)),
            };
        }
        Ok(())
    }

    /// Records a read by an engine of a warp of the place's block, at the engine's time `clock`, or returns the
    /// violation that it commits.
    pub(super) fn touch_async(
        &mut self,
        clocks: &VectorClock,
        (warp, lane): (usize, usize),
        place: (u64, u32),
        (engine, clock): (AsyncEngine, u32),
    ) -> Result<(), LaneViolation> {
        self.touch(clocks, warp, lane, place, SharedAccess::Async)?;
        self.async_reads.record(place, engine, warp, clock);
        Ok(())
    }

    #[cold]
    fn unfenced(&self, lane: usize, address: u64, writer: Epoch) -> LaneViolation {
        let text = format!(
            "{} is read through the async proxy after {} has written it{}, with no `fence.proxy.async` in between",
            self.name(address),
            self.thread(writer),
            self.place(writer)
        );
        LaneViolation::access(ViolationKind::Race, lane, address % self.extent.bytes, text)
    }

    #[cold]
    fn overwritten(&self, lane: usize, read: UnfinishedRead) -> LaneViolation {
        let (what, wait) = match read.engine {
            AsyncEngine::Products => ("matrix product", "wgmma.wait_group"),
            AsyncEngine::Stores => ("bulk store", "cp.async.bulk.wait_group.read"),
        };
        let text = format!(
            "{} is written while a {what} of warp {} may read it; no `{wait}` of that warp is ordered before this",
            self.name(read.place),
            read.warp % self.extent.warps
        );
        LaneViolation::access(ViolationKind::Race, lane, read.place % self.extent.bytes, text)
    }

    /// Records that an engine writes a range until the engine's time `clock`.
    pub(super) fn record_engine_write(
        &mut self,
        (address, bytes): (u64, u32),
        engine: usize,
        clock: u32,
    ) {
        let first = (address >> self.shift) as usize;
        let last = (address + u64::from(bytes)).div_ceil(1 << self.shift) as usize;
        let thread = (engine * 32) as u16;
        let writer = Epoch { clock, thread, origin: AccessOrigin::UNKNOWN };
        let cells = self.cells.get_mut(first..last).unwrap_or_default();
        cells.fill(ShadowCell { writer, readers: [Epoch::default(); 2] });
    }

    #[cold]
    fn unwritten(&self, lane: usize, (address, bytes): (u64, u32)) -> LaneViolation {
        let text = format!("{bytes} unwritten bytes of {} are read", self.name(address));
        LaneViolation::access(ViolationKind::Unwritten, lane, address % self.extent.bytes, text)
    }

    #[cold]
    fn race(
        &self,
        lane: usize,
        address: u64,
        touch: SharedAccess,
        (before, other): (&str, Epoch),
    ) -> LaneViolation {
        let now = match touch {
            SharedAccess::Read | SharedAccess::Async => "read",
            SharedAccess::Write | SharedAccess::Pending => "written",
            SharedAccess::Update => "updated",
        };
        let warp = usize::from(other.thread / 32);
        if warp >= self.extent.blocks * self.extent.warps {
            let text = format!(
                "{} is {now} while a tensor copy may write it; this thread has not waited for the phase of its \
                 mbarrier",
                self.name(address)
            );
            return LaneViolation::access(
                ViolationKind::Race,
                lane,
                address % self.extent.bytes,
                text,
            );
        }
        let text = format!(
            "{} is {now} after {} has {before} it{}, with no barrier in between",
            self.name(address),
            self.thread(other),
            self.place(other)
        );
        LaneViolation::access(ViolationKind::Race, lane, address % self.extent.bytes, text)
    }

    /// Name of the thread of an access.
    fn thread(&self, access: Epoch) -> String {
        let (warp, lane) = (usize::from(access.thread / 32), access.thread % 32);
        let (rank, warp) = (warp / self.extent.warps, warp % self.extent.warps);
        let block =
            if self.extent.blocks == 1 { String::new() } else { format!(" of block {rank}") };
        format!("lane {lane} of warp {warp}{block}")
    }

    /// Source line of an access, with ` at ` before it; empty where there is none.
    fn place(&self, access: Epoch) -> String {
        let line = self.names.sources.get(access.origin.line());
        line.map_or_else(String::new, |line| format!(" at {line}"))
    }

    /// Name of the shared memory that contains an address, and of the variable.
    fn name(&self, address: u64) -> String {
        let (block, inside) = (address / self.extent.bytes, address % self.extent.bytes);
        let of_block = match self.extent.blocks {
            1 => String::new(),
            _ => format!(" of block {block} of the cluster"),
        };
        let variable = self.names.segments.iter().find(|segment| segment.has(inside));
        let variable = variable.map_or_else(String::new, |segment| {
            format!(" (byte {} of {})", inside - segment.start, segment.quoted())
        });
        format!("shared memory{of_block}{variable}")
    }
}

impl VectorClock {
    /// Whether an access is ordered before one of a warp now, or is of the same thread.
    #[inline(always)]
    fn is_before(&self, then: Epoch, now: Epoch, warp: usize) -> bool {
        let other = usize::from(then.thread / 32);
        then.clock < self.of(other) + u32::from(other != warp) || then.thread == now.thread
    }
}

impl ShadowCell {
    #[inline(always)]
    fn note_reader(&mut self, now: Epoch, first_is_over: bool) {
        if first_is_over || self.readers[0].clock == 0 {
            self.readers[0] = now;
        } else {
            self.readers[1] = now;
        }
    }
}
