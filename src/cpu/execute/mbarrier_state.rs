//! Mbarriers: objects in shared memory that count arrivals of threads and bytes of the copy engine, phase
//! by phase. What a copy brings arrives when somebody asks for the end of its phase, the latest moment
//! that PTX allows.
//!
//! Of a warp, what one lane has waited for counts for all, and one that waits holds the others up. That
//! generic accesses and those of the copy engine need a proxy fence between them is not looked for.

use std::collections::{BTreeMap, VecDeque};

use crate::cpu::checks::{LaneViolation, ViolationKind};
use crate::cpu::vector_clock::VectorClock;

/// The most arrivals and the most bytes of a phase (ISA: contents of the mbarrier object).
pub(super) const MAX_COUNT: u32 = (1 << 20) - 1;

/// The most mbarriers of a cluster: each has a clock beside those of its warps.
const MAX_OBJECTS: usize = 1024;

/// The mbarriers of a cluster.
#[derive(Debug)]
pub(super) struct Mbarriers {
    /// Warps of the cluster: the clocks of mbarriers come after theirs.
    warps: usize,
    /// By their place in the shared memory of the cluster, those that are no more too.
    pub(super) of_places: BTreeMap<u64, Mbarrier>,
}

#[derive(Debug, Default)]
pub(super) struct Mbarrier {
    /// Whether it is initialised.
    pub(super) valid: bool,
    /// The number of its clock.
    pub(super) engine: usize,
    /// Arrivals of a phase, and those that this phase still waits for.
    count: u32,
    pub(super) pending: u32,
    /// Bytes that this phase waits for, without those that have come already.
    pub(super) bytes: i64,
    /// Phases that are over.
    pub(super) phase: u64,
    /// Copies that were started, and those that have arrived: its clock.
    started: u32,
    pub(super) arrived: u32,
    pub(super) coming: VecDeque<PendingTensorCopy>,
    /// Their bytes.
    pub(super) on_way: i64,
    /// What the warps know that came in this phase, and in those that are over.
    pub(super) known: Option<VectorClock>,
    pub(super) over: Option<VectorClock>,
}

/// A copy that is on its way.
#[derive(Debug)]
pub(super) struct PendingTensorCopy {
    /// Where it goes in the shared memory of the cluster.
    pub(super) place: u64,
    pub(super) words: Vec<u32>,
    pub(super) from: CopyOrigin,
}

impl PendingTensorCopy {
    pub(super) fn bytes(&self) -> i64 {
        4 * self.words.len() as i64
    }
}

/// Who started a copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopyOrigin {
    pub(super) warp: usize,
    pub(super) step: usize,
    pub(super) lane: usize,
}

/// What a warp waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PhaseWait {
    pub(super) place: u64,
    pub(super) asked: AwaitedPhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AwaitedPhase {
    Parity(u32),
    State(u64),
}

pub(super) fn violation(lane: usize, address: u64, text: String) -> LaneViolation {
    LaneViolation::access(ViolationKind::CopyEngine, lane, address, text)
}

impl Mbarriers {
    pub(super) fn new(warps: usize) -> Self {
        Self { warps, of_places: BTreeMap::new() }
    }

    /// Forgets everything: another cluster begins.
    pub(super) fn reset(&mut self) {
        self.of_places.clear();
    }

    /// The mbarrier at a place, which a lane knows by an address.
    pub(super) fn at(
        &mut self,
        place: u64,
        lane: usize,
        address: u64,
    ) -> Result<&mut Mbarrier, LaneViolation> {
        let found = self.of_places.get_mut(&place).filter(|barrier| barrier.valid);
        found.ok_or_else(|| violation(lane, address, "no mbarrier is initialised there".to_owned()))
    }

    pub(super) fn initialise(
        &mut self,
        place: u64,
        (lane, address): (usize, u64),
        count: u32,
    ) -> Result<(), LaneViolation> {
        if !(1..=MAX_COUNT).contains(&count) {
            let text = format!("an mbarrier is for 1 to {MAX_COUNT} arrivals, not {count}");
            return Err(violation(lane, address, text));
        }
        let next = self.of_places.len();
        let barrier = self
            .of_places
            .entry(place)
            .or_insert_with(|| Mbarrier { engine: self.warps + next, ..Mbarrier::default() });
        if barrier.valid || next >= MAX_OBJECTS {
            let text = if barrier.valid {
                "the mbarrier is initialised again without having been invalidated".to_owned()
            } else {
                format!("a cluster has at most {MAX_OBJECTS} mbarriers here")
            };
            return Err(violation(lane, address, text));
        }
        (barrier.valid, barrier.count, barrier.pending) = (true, count, count);
        (barrier.bytes, barrier.phase) = (0, 0);
        Ok(())
    }

    /// What a phase still waits for.
    pub(super) fn describe(&self, awaited: PhaseWait) -> String {
        match self.of_places.get(&awaited.place) {
            Some(barrier) if barrier.valid => format!(
                "the phase of the mbarrier still waits for {} arrivals and {} bytes",
                barrier.pending, barrier.bytes
            ),
            _ => "the mbarrier was invalidated meanwhile".to_owned(),
        }
    }

    /// A copy that nobody has waited for, and what is wrong with that at the end of its block.
    pub(super) fn unfinished(&self) -> Option<(CopyOrigin, LaneViolation)> {
        let coming = self.of_places.values().find_map(|barrier| barrier.coming.front())?;
        let text = format!(
            "the block ends while {} bytes of this copy may still be on their way to its shared memory",
            coming.bytes()
        );
        let from = coming.from;
        Some((from, LaneViolation::access(ViolationKind::Race, from.lane, coming.place, text)))
    }
}

impl Mbarrier {
    pub(super) fn is_over(&self, asked: AwaitedPhase) -> bool {
        match asked {
            AwaitedPhase::Parity(parity) => self.phase & 1 != u64::from(parity & 1),
            AwaitedPhase::State(phase) => self.phase > phase,
        }
    }

    /// Begins the next phase if this one is over.
    pub(super) fn settle(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.count;
            if let Some(known) = self.known.take() {
                match &mut self.over {
                    Some(over) => over.join(&known),
                    None => self.over = Some(known),
                }
            }
        }
    }

    /// Takes a copy on its way. Gives the number of its clock, and its own number there.
    pub(super) fn start(
        &mut self,
        coming: PendingTensorCopy,
        address: u64,
    ) -> Result<(usize, u32), LaneViolation> {
        self.on_way += coming.bytes();
        if self.on_way > i64::from(MAX_COUNT) {
            let text = format!(
                "{} bytes are on their way at once, an mbarrier counts {MAX_COUNT}",
                self.on_way
            );
            return Err(violation(coming.from.lane, address, text));
        }
        self.started += 1;
        self.coming.push_back(coming);
        Ok((self.engine, self.started))
    }
}
