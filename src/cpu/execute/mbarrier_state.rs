//! State of mbarriers: objects in shared memory that count arrivals of threads and bytes of tensor
//! copies, phase by phase.
//!
//! A tensor copy arrives when a warp tests its phase, the latest time that PTX allows.

use std::collections::{BTreeMap, VecDeque};

use crate::cpu::async_reads::end_of_engines;
use crate::cpu::checks::{LaneViolation, ViolationKind};
use crate::cpu::vector_clock::VectorClock;

/// Limit of the arrivals and of the bytes of a phase (ISA: contents of the mbarrier object).
pub(super) const MAX_COUNT: u32 = (1 << 20) - 1;

/// Limit of the mbarriers of a cluster. Each has an entry in the vector clocks.
const MAX_OBJECTS: usize = 1024;

/// The mbarriers of a cluster.
#[derive(Debug)]
pub(super) struct Mbarriers {
    /// Index of the first mbarrier's clock entry.
    first_engine: usize,
    /// Mbarriers by their position in the cluster's shared memory, including invalidated ones.
    pub(super) by_position: BTreeMap<u64, Mbarrier>,
}

#[derive(Debug, Default)]
pub(super) struct Mbarrier {
    /// Whether it is initialised.
    pub(super) valid: bool,
    /// Index of its entry in vector clocks.
    pub(super) engine: usize,
    /// Arrivals of a phase, and the arrivals that are still missing in this one.
    count: u32,
    pub(super) pending: u32,
    /// Bytes that the phase still waits for; negative where bytes have arrived early.
    pub(super) bytes: i64,
    /// Number of completed phases.
    pub(super) phase: u64,
    /// Number of copies started, and of copies arrived, which is its clock.
    started: u32,
    pub(super) arrived: u32,
    pub(super) copies: VecDeque<PendingTensorCopy>,
    /// Bytes of the copies in flight.
    pub(super) in_flight: i64,
    /// Merged clocks of the arrivals in this phase, and in completed phases.
    pub(super) arrivals_clock: Option<VectorClock>,
    pub(super) completed_clock: Option<VectorClock>,
}

/// A tensor copy in flight.
#[derive(Debug)]
pub(super) struct PendingTensorCopy {
    /// Position in the shared memory of the cluster.
    pub(super) place: u64,
    pub(super) words: Vec<u32>,
    pub(super) from: CopyOrigin,
}

impl PendingTensorCopy {
    pub(super) fn bytes(&self) -> i64 {
        4 * self.words.len() as i64
    }
}

/// Origin of a copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopyOrigin {
    pub(super) warp: usize,
    pub(super) step: usize,
    pub(super) lane: usize,
}

/// A phase that a warp waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PhaseWait {
    pub(super) place: u64,
    pub(super) phase: AwaitedPhase,
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
    /// Creates the state for a cluster of `warps` warps.
    pub(super) fn new(warps: usize) -> Self {
        Self { first_engine: end_of_engines(warps), by_position: BTreeMap::new() }
    }

    /// Clears the state for the next cluster.
    pub(super) fn reset(&mut self) {
        self.by_position.clear();
    }

    /// The initialised mbarrier at a position; `address` is for the violation.
    pub(super) fn at(
        &mut self,
        place: u64,
        lane: usize,
        address: u64,
    ) -> Result<&mut Mbarrier, LaneViolation> {
        let found = self.by_position.get_mut(&place).filter(|barrier| barrier.valid);
        found.ok_or_else(|| {
            violation(lane, address, "no mbarrier is initialised at this address".to_owned())
        })
    }

    pub(super) fn initialise(
        &mut self,
        place: u64,
        (lane, address): (usize, u64),
        count: u32,
    ) -> Result<(), LaneViolation> {
        if !(1..=MAX_COUNT).contains(&count) {
            let text = format!("an mbarrier supports 1 to {MAX_COUNT} arrivals, not {count}");
            return Err(violation(lane, address, text));
        }
        let next = self.by_position.len();
        let barrier = self.by_position.entry(place).or_insert_with(|| Mbarrier {
            engine: self.first_engine + next,
            ..Mbarrier::default()
        });
        if barrier.valid || next >= MAX_OBJECTS {
            let text = if barrier.valid {
                "the mbarrier is initialised again without invalidation".to_owned()
            } else {
                format!("a cluster is limited to {MAX_OBJECTS} mbarriers")
            };
            return Err(violation(lane, address, text));
        }
        (barrier.valid, barrier.count, barrier.pending) = (true, count, count);
        (barrier.bytes, barrier.phase) = (0, 0);
        Ok(())
    }

    /// Describes what a phase still waits for.
    pub(super) fn describe(&self, awaited: PhaseWait) -> String {
        match self.by_position.get(&awaited.place) {
            Some(barrier) if barrier.valid => format!(
                "the phase of the mbarrier still expects {} arrivals and {} bytes",
                barrier.pending, barrier.bytes
            ),
            _ => "the mbarrier has been invalidated".to_owned(),
        }
    }

    /// A copy that no thread has waited for, and the violation at the end of its block.
    pub(super) fn unfinished(&self) -> Option<(CopyOrigin, LaneViolation)> {
        let copy = self.by_position.values().find_map(|barrier| barrier.copies.front())?;
        let text = format!(
            "the block ends while {} bytes of this copy may be in flight to its shared memory",
            copy.bytes()
        );
        let from = copy.from;
        Some((from, LaneViolation::access(ViolationKind::Race, from.lane, copy.place, text)))
    }
}

impl Mbarrier {
    pub(super) fn is_over(&self, phase: AwaitedPhase) -> bool {
        match phase {
            AwaitedPhase::Parity(parity) => self.phase & 1 != u64::from(parity & 1),
            AwaitedPhase::State(phase) => self.phase > phase,
        }
    }

    /// Completes the phase if nothing is missing.
    pub(super) fn complete_if_due(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.count;
            if let Some(arrivals_clock) = self.arrivals_clock.take() {
                match &mut self.completed_clock {
                    Some(clock) => clock.join(&arrivals_clock),
                    None => self.completed_clock = Some(arrivals_clock),
                }
            }
        }
    }

    /// Adds a copy in flight. Returns the index of the mbarrier's clock entry, and the copy's time.
    pub(super) fn start(
        &mut self,
        copy: PendingTensorCopy,
        address: u64,
    ) -> Result<(usize, u32), LaneViolation> {
        self.in_flight += copy.bytes();
        if self.in_flight > i64::from(MAX_COUNT) {
            let text = format!(
                "{} bytes are in flight at once, more than the {MAX_COUNT} that an mbarrier counts",
                self.in_flight
            );
            return Err(violation(copy.from.lane, address, text));
        }
        self.started += 1;
        self.copies.push_back(copy);
        Ok((self.engine, self.started))
    }
}
