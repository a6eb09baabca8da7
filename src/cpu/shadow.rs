//! What checks remember of shared memory: for every few bytes, who wrote and read them last, and
//! when. Time is counted by warps: each has a clock that goes on at every barrier, and knows up to
//! which time of every other warp the barriers order what was done (after FastTrack, Flanagan and
//! Freund 2009).
//!
//! Of readers two are kept, of different threads: with barriers of whole blocks that is enough to
//! find every race of a place; with barriers of some warps one may escape.

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
    /// At the beginning of a block of so many warps.
    pub(super) fn new(warps: usize, own: usize) -> Self {
        let mut clocks = vec![0; warps];
        clocks[own] = 1;
        Self(clocks)
    }

    /// Learns what another warp knows.
    pub(super) fn join(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    /// Goes on to the next time.
    pub(super) fn advance(&mut self, own: usize) {
        self.0[own] += 1;
    }
}

/// The memory of what happened to a block's shared memory.
#[derive(Debug)]
pub(super) struct Shadow {
    checks: Checks,
    places: Vec<Place>,
    granule: u64,
}

impl Shadow {
    /// For shared memory of `bytes` bytes that is told apart by `granule` bytes.
    pub(super) fn new(checks: Checks, bytes: u64, granule: u32) -> Self {
        let granule = u64::from(granule.max(1));
        let wanted = checks.has(Check::Race) || checks.has(Check::Unwritten);
        let count = if wanted { bytes.div_ceil(granule) } else { 0 };
        Self { checks, places: vec![Place::default(); count as usize], granule }
    }

    /// Forgets everything: another block begins.
    pub(super) fn reset(&mut self) {
        self.places.fill(Place::default());
    }

    /// Notes what a lane does, and says what is wrong with it.
    pub(super) fn touch(
        &mut self,
        clocks: &Clocks,
        warp: usize,
        lane: usize,
        (address, bytes): (u64, u32),
        touch: Touch,
    ) -> Result<(), Wrong> {
        let first = (address / self.granule) as usize;
        let last = ((address + u64::from(bytes)).div_ceil(self.granule)) as usize;
        let thread = (warp * 32 + lane) as u16;
        let now = Moment { clock: clocks.0[warp], thread, atomic: touch == Touch::Update };
        let races = self.checks.has(Check::Race);
        let unwritten = self.checks.has(Check::Unwritten);
        let before = |then: Moment| {
            let other = usize::from(then.thread / 32);
            then.clock < clocks.0[other] + u32::from(other != warp) || then.thread == thread
        };
        for place in self.places.get_mut(first..last).unwrap_or_default() {
            let reads = matches!(touch, Touch::Read | Touch::Update);
            if reads && unwritten && place.writer.clock == 0 {
                return Err(Wrong::access(
                    ViolationKind::Unwritten,
                    lane,
                    address,
                    format!("{bytes} bytes of shared memory are read that nothing wrote"),
                ));
            }
            if races {
                let writer = place.writer;
                if !(before(writer) || now.atomic && writer.atomic) {
                    return Err(race(lane, address, touch, "written", writer));
                }
                let reader = place.readers.iter().find(|reader| !before(**reader));
                if let (true, Some(reader)) = (touch != Touch::Read, reader)
                    && !(now.atomic && reader.atomic)
                {
                    return Err(race(lane, address, touch, "read", *reader));
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

fn race(lane: usize, address: u64, touch: Touch, before: &str, other: Moment) -> Wrong {
    let now = match touch {
        Touch::Read => "read",
        Touch::Write | Touch::Promise => "written",
        Touch::Update => "updated",
    };
    let (warp, other_lane) = (other.thread / 32, other.thread % 32);
    Wrong::access(
        ViolationKind::Race,
        lane,
        address,
        format!(
            "shared memory is {now} that lane {other_lane} of warp {warp} has {before} with no barrier \
             between"
        ),
    )
}
