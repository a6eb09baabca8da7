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

use std::ops::Range;

use super::checks::{Check, Checks, ViolationKind, Wrong};

/// When a thread did something; a clock of 0 is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Moment {
    clock: u32,
    thread: u16,
    atomic: bool,
}

/// What is known of a place.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    writer: Moment,
    readers: [Moment; 2],
}

/// How memory is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    Read,
    Write,
    /// Both, in one piece.
    Update,
    /// A write that will happen until the thread waits for it: `cp.async` when it is issued.
    Promise,
}

/// The times that a warp knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clocks(Vec<u32>);

impl Clocks {
    /// At the beginning of a cluster of so many warps.
    pub(super) fn new(warps: usize, own: usize) -> Self {
        let mut clocks = vec![0; warps];
        clocks[own] = 1;
        Self(clocks)
    }

    /// Learns what another warp knows.
    pub(super) fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    /// Learns that an engine has come to a time.
    pub(super) fn learn(&mut self, engine: usize, clock: u32) {
        if self.0.len() <= engine {
            self.0.resize(engine + 1, 0);
        }
        self.0[engine] = self.0[engine].max(clock);
    }

    /// Whether a barrier orders what another warp did at a time before what comes now.
    pub(super) fn knows(&self, warp: usize, clock: u32) -> bool {
        self.0[warp] >= clock
    }

    /// Whether anything is known of some warps.
    pub(super) fn know_any(&self, warps: Range<usize>) -> bool {
        self.0.get(warps).is_some_and(|clocks| clocks.iter().any(|clock| *clock > 0))
    }

    /// The time of the warp that these clocks belong to.
    pub(super) fn now(&self, own: usize) -> u32 {
        self.0[own]
    }

    /// Goes on to the next time.
    pub(super) fn advance(&mut self, own: usize) {
        self.0[own] += 1;
    }
}

/// What a cluster has of shared memory, and who uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) blocks: usize,
    /// Bytes of each block.
    pub(super) bytes: u64,
    /// Warps of each block.
    pub(super) warps: usize,
}

/// The memory of what happened to the shared memory of a cluster.
#[derive(Debug)]
pub(super) struct Shadow {
    checks: Checks,
    extent: Extent,
    places: Vec<Place>,
    /// A place has two to the power of this many bytes.
    shift: u32,
}

impl Shadow {
    /// For shared memory that is told apart by `granule` bytes.
    pub(super) fn new(checks: Checks, extent: Extent, granule: u32) -> Self {
        let shift = granule.max(1).ilog2();
        let wanted = checks.has(Check::Race) || checks.has(Check::Unwritten);
        let bytes = extent.blocks as u64 * extent.bytes;
        let count = if wanted { bytes.div_ceil(1 << shift) } else { 0 };
        Self { checks, extent, places: vec![Place::default(); count as usize], shift }
    }

    /// Forgets everything: another cluster begins.
    pub(super) fn reset(&mut self) {
        self.places.fill(Place::default());
    }

    /// Notes what a lane does, and says what is wrong with it. Warps are known by their number in
    /// the cluster, addresses count from the beginning of its shared memory.
    pub(super) fn touch(
        &mut self,
        clocks: &Clocks,
        warp: usize,
        lane: usize,
        (address, bytes): (u64, u32),
        touch: Touch,
    ) -> Result<(), Wrong> {
        let first = (address >> self.shift) as usize;
        let last = (address + u64::from(bytes)).div_ceil(1 << self.shift) as usize;
        let thread = (warp * 32 + lane) as u16;
        let now = Moment { clock: clocks.0[warp], thread, atomic: touch == Touch::Update };
        let races = self.checks.has(Check::Race);
        let unwritten = self.checks.has(Check::Unwritten);
        let before = |then: Moment| {
            let other = usize::from(then.thread / 32);
            let known = clocks.0.get(other).copied().unwrap_or(0);
            then.clock < known + u32::from(other != warp) || then.thread == thread
        };
        for place in self.places.get_mut(first..last).unwrap_or_default() {
            let reads = matches!(touch, Touch::Read | Touch::Update);
            if reads && unwritten && place.writer.clock == 0 {
                return Err(self.unwritten(lane, (address, bytes)));
            }
            if races {
                let writer = place.writer;
                if !(before(writer) || now.atomic && writer.atomic) {
                    return Err(self.race(lane, address, touch, ("written", writer)));
                }
                let reader = place.readers.iter().find(|reader| !before(**reader));
                if let (true, Some(reader)) = (touch != Touch::Read, reader)
                    && !(now.atomic && reader.atomic)
                {
                    let before = ("read", *reader);
                    return Err(self.race(lane, address, touch, before));
                }
            }
            match touch {
                Touch::Read => place.note_reader(now, before(place.readers[0])),
                Touch::Write => *place = Place { writer: now, readers: [Moment::default(); 2] },
                Touch::Update => place.writer = now,
                Touch::Promise => {}
            }
        }
        Ok(())
    }

    /// Notes that an engine writes a range, from now on until the time `clock` of the engine.
    pub(super) fn hand_over(&mut self, (address, bytes): (u64, u32), engine: usize, clock: u32) {
        let first = (address >> self.shift) as usize;
        let last = (address + u64::from(bytes)).div_ceil(1 << self.shift) as usize;
        let writer = Moment { clock, thread: (engine * 32) as u16, atomic: false };
        let places = self.places.get_mut(first..last).unwrap_or_default();
        places.fill(Place { writer, readers: [Moment::default(); 2] });
    }

    #[cold]
    fn unwritten(&self, lane: usize, (address, bytes): (u64, u32)) -> Wrong {
        let text = format!("{bytes} bytes of {} are read that nothing wrote", self.name(address));
        Wrong::access(ViolationKind::Unwritten, lane, address % self.extent.bytes, text)
    }

    #[cold]
    fn race(
        &self,
        lane: usize,
        address: u64,
        touch: Touch,
        (before, other): (&str, Moment),
    ) -> Wrong {
        let now = match touch {
            Touch::Read => "read",
            Touch::Write | Touch::Promise => "written",
            Touch::Update => "updated",
        };
        let (warp, other_lane) = (usize::from(other.thread / 32), other.thread % 32);
        if warp >= self.extent.blocks * self.extent.warps {
            let text = format!(
                "{} is {now} that a copy of the copy engine writes, and this thread has not waited for \
                 the phase of its mbarrier",
                self.name(address)
            );
            return Wrong::access(ViolationKind::Race, lane, address % self.extent.bytes, text);
        }
        let (rank, warp) = (warp / self.extent.warps, warp % self.extent.warps);
        let block =
            if self.extent.blocks == 1 { String::new() } else { format!(" of block {rank}") };
        let text = format!(
            "{} is {now} that lane {other_lane} of warp {warp}{block} has {before} with no barrier \
             between",
            self.name(address)
        );
        Wrong::access(ViolationKind::Race, lane, address % self.extent.bytes, text)
    }

    /// Whose shared memory an address is in.
    fn name(&self, address: u64) -> String {
        match self.extent.blocks {
            1 => "shared memory".to_owned(),
            _ => format!("shared memory of block {} of the cluster", address / self.extent.bytes),
        }
    }
}

impl Place {
    fn note_reader(&mut self, now: Moment, first_is_over: bool) {
        if first_is_over || self.readers[0].clock == 0 {
            self.readers[0] = now;
        } else {
            self.readers[1] = now;
        }
    }
}
