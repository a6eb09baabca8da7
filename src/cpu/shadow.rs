//! What checks remember of shared memory: for every few bytes, who wrote and read them last, and
//! when. Time is counted by warps: each has a clock that goes on at every barrier, and knows up to
//! which time of every other warp the barriers order what was done (after FastTrack, Flanagan and
//! Freund 2009).
//!
//! The copy engine has a clock for each mbarrier, which counts its copies: who waited for a phase knows
//! which of them have arrived.
//!
//! Of readers two are kept, of different threads: with barriers of all warps that is enough to find
//! every race of a place; with barriers of some warps, or of one block of a cluster, one may escape.

use super::checks::{ExecutionCheck, ExecutionChecks, LaneViolation, ViolationKind};
use super::vector_clock::VectorClock;

/// When a thread did something; a clock of 0 is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Epoch {
    clock: u32,
    thread: u16,
    atomic: bool,
}

/// What is known of a place.
#[derive(Debug, Clone, Copy, Default)]
struct ShadowCell {
    writer: Epoch,
    readers: [Epoch; 2],
}

/// How memory is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SharedAccess {
    Read,
    Write,
    /// Both, in one piece.
    Update,
    /// A write that will happen until the thread waits for it: `cp.async` when it is issued.
    Pending,
}

/// What a cluster has of shared memory, and who uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SharedExtent {
    pub(super) blocks: usize,
    /// Bytes of each block.
    pub(super) bytes: u64,
    /// Warps of each block.
    pub(super) warps: usize,
}

/// The memory of what happened to the shared memory of a cluster.
#[derive(Debug)]
pub(super) struct ShadowMemory {
    checks: ExecutionChecks,
    extent: SharedExtent,
    places: Vec<ShadowCell>,
    /// A place has two to the power of this many bytes.
    shift: u32,
}

impl ShadowMemory {
    /// For shared memory that is told apart by `granule` bytes.
    pub(super) fn new(checks: ExecutionChecks, extent: SharedExtent, granule: u32) -> Self {
        let shift = granule.max(1).ilog2();
        let wanted = checks.has(ExecutionCheck::Race) || checks.has(ExecutionCheck::Unwritten);
        let bytes = extent.blocks as u64 * extent.bytes;
        let count = if wanted { bytes.div_ceil(1 << shift) } else { 0 };
        Self { checks, extent, places: vec![ShadowCell::default(); count as usize], shift }
    }

    /// Forgets everything: another cluster begins.
    pub(super) fn reset(&mut self) {
        self.places.fill(ShadowCell::default());
    }

    /// Notes what a lane does, and says what is wrong with it. Warps are known by their number in
    /// the cluster, addresses count from the beginning of its shared memory.
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
        let now = Epoch { clock: clocks.now(warp), thread, atomic: touch == SharedAccess::Update };
        let races = self.checks.has(ExecutionCheck::Race);
        let unwritten = self.checks.has(ExecutionCheck::Unwritten);
        let before = |then: Epoch| {
            let other = usize::from(then.thread / 32);
            let known = clocks.of(other);
            then.clock < known + u32::from(other != warp) || then.thread == thread
        };
        for place in self.places.get_mut(first..last).unwrap_or_default() {
            let reads = matches!(touch, SharedAccess::Read | SharedAccess::Update);
            if reads && unwritten && place.writer.clock == 0 {
                return Err(self.unwritten(lane, (address, bytes)));
            }
            if races {
                let writer = place.writer;
                if !(before(writer) || now.atomic && writer.atomic) {
                    return Err(self.race(lane, address, touch, ("written", writer)));
                }
                let reader = place.readers.iter().find(|reader| !before(**reader));
                if let (true, Some(reader)) = (touch != SharedAccess::Read, reader)
                    && !(now.atomic && reader.atomic)
                {
                    let before = ("read", *reader);
                    return Err(self.race(lane, address, touch, before));
                }
            }
            match touch {
                SharedAccess::Read => place.note_reader(now, before(place.readers[0])),
                SharedAccess::Write => {
                    *place = ShadowCell { writer: now, readers: [Epoch::default(); 2] }
                }
                SharedAccess::Update => place.writer = now,
                SharedAccess::Pending => {}
            }
        }
        Ok(())
    }

    /// Notes that an engine writes a range, from now on until the time `clock` of the engine.
    pub(super) fn hand_over(&mut self, (address, bytes): (u64, u32), engine: usize, clock: u32) {
        let first = (address >> self.shift) as usize;
        let last = (address + u64::from(bytes)).div_ceil(1 << self.shift) as usize;
        let writer = Epoch { clock, thread: (engine * 32) as u16, atomic: false };
        let places = self.places.get_mut(first..last).unwrap_or_default();
        places.fill(ShadowCell { writer, readers: [Epoch::default(); 2] });
    }

    #[cold]
    fn unwritten(&self, lane: usize, (address, bytes): (u64, u32)) -> LaneViolation {
        let text = format!("{bytes} bytes of {} are read that nothing wrote", self.name(address));
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
            SharedAccess::Read => "read",
            SharedAccess::Write | SharedAccess::Pending => "written",
            SharedAccess::Update => "updated",
        };
        let (warp, other_lane) = (usize::from(other.thread / 32), other.thread % 32);
        if warp >= self.extent.blocks * self.extent.warps {
            let text = format!(
                "{} is {now} that a copy of the copy engine writes, and this thread has not waited for \
                 the phase of its mbarrier",
                self.name(address)
            );
            return LaneViolation::access(
                ViolationKind::Race,
                lane,
                address % self.extent.bytes,
                text,
            );
        }
        let (rank, warp) = (warp / self.extent.warps, warp % self.extent.warps);
        let block =
            if self.extent.blocks == 1 { String::new() } else { format!(" of block {rank}") };
        let text = format!(
            "{} is {now} that lane {other_lane} of warp {warp}{block} has {before} with no barrier \
             between",
            self.name(address)
        );
        LaneViolation::access(ViolationKind::Race, lane, address % self.extent.bytes, text)
    }

    /// Whose shared memory an address is in.
    fn name(&self, address: u64) -> String {
        match self.extent.blocks {
            1 => "shared memory".to_owned(),
            _ => format!("shared memory of block {} of the cluster", address / self.extent.bytes),
        }
    }
}

impl ShadowCell {
    fn note_reader(&mut self, now: Epoch, first_is_over: bool) {
        if first_is_over || self.readers[0].clock == 0 {
            self.readers[0] = now;
        } else {
            self.readers[1] = now;
        }
    }
}
