//! Mbarriers: objects in shared memory that count arrivals of threads and bytes of the copy engine, phase
//! by phase. What a copy brings arrives when somebody asks for the end of its phase, the latest moment
//! that PTX allows.
//!
//! Of a warp, what one lane has waited for counts for all, and one that waits holds the others up. That
//! generic accesses and those of the copy engine need a proxy fence between them is not looked for.

use std::collections::{BTreeMap, VecDeque};

use super::bounds::check_alignment;
use super::cluster::Team;
use super::warp::{State, Warp};
use crate::cpu::checks::{ViolationKind, Wrong};
use crate::cpu::counts::lanes;
use crate::cpu::operation::{Address, MbarrierStep, Phase};
use crate::cpu::shadow::{Clocks, Touch};
use crate::cpu::types::Space;

/// Bytes of an mbarrier.
const BYTES: u32 = 8;

/// The most arrivals and the most bytes of a phase (ISA: contents of the mbarrier object).
const MOST: u32 = (1 << 20) - 1;

/// The most mbarriers of a cluster: each has a clock beside those of its warps.
const MOST_OBJECTS: usize = 1024;

/// The mbarriers of a cluster.
#[derive(Debug)]
pub(super) struct Mbarriers {
    /// Warps of the cluster: the clocks of mbarriers come after theirs.
    warps: usize,
    /// By their place in the shared memory of the cluster, those that are no more too.
    of_places: BTreeMap<u64, Mbarrier>,
}

#[derive(Debug, Default)]
pub(super) struct Mbarrier {
    /// Whether it is initialised.
    valid: bool,
    /// The number of its clock.
    engine: usize,
    /// Arrivals of a phase, and those that this phase still waits for.
    count: u32,
    pending: u32,
    /// Bytes that this phase waits for, without those that have come already.
    bytes: i64,
    /// Phases that are over.
    phase: u64,
    /// Copies that were started, and those that have arrived: its clock.
    started: u32,
    arrived: u32,
    coming: VecDeque<Coming>,
    /// Their bytes.
    on_way: i64,
    /// What the warps know that came in this phase, and in those that are over.
    known: Option<Clocks>,
    over: Option<Clocks>,
}

/// A copy that is on its way.
#[derive(Debug)]
pub(super) struct Coming {
    /// Where it goes in the shared memory of the cluster.
    pub(super) place: u64,
    pub(super) words: Vec<u32>,
    pub(super) from: Started,
}

impl Coming {
    fn bytes(&self) -> i64 {
        4 * self.words.len() as i64
    }
}

/// Who started a copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Started {
    pub(super) warp: usize,
    pub(super) step: usize,
    pub(super) lane: usize,
}

/// What a warp waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Awaited {
    place: u64,
    asked: Asked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Parity(u32),
    State(u64),
}

fn wrong(lane: usize, address: u64, text: String) -> Wrong {
    Wrong::access(ViolationKind::CopyEngine, lane, address, text)
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
    ) -> Result<&mut Mbarrier, Wrong> {
        let found = self.of_places.get_mut(&place).filter(|barrier| barrier.valid);
        found.ok_or_else(|| wrong(lane, address, "no mbarrier is initialised there".to_owned()))
    }

    fn initialise(
        &mut self,
        place: u64,
        (lane, address): (usize, u64),
        count: u32,
    ) -> Result<(), Wrong> {
        if !(1..=MOST).contains(&count) {
            let text = format!("an mbarrier is for 1 to {MOST} arrivals, not {count}");
            return Err(wrong(lane, address, text));
        }
        let next = self.of_places.len();
        let barrier = self
            .of_places
            .entry(place)
            .or_insert_with(|| Mbarrier { engine: self.warps + next, ..Mbarrier::default() });
        if barrier.valid || next >= MOST_OBJECTS {
            let text = if barrier.valid {
                "the mbarrier is initialised again without having been invalidated".to_owned()
            } else {
                format!("a cluster has at most {MOST_OBJECTS} mbarriers here")
            };
            return Err(wrong(lane, address, text));
        }
        (barrier.valid, barrier.count, barrier.pending) = (true, count, count);
        (barrier.bytes, barrier.phase) = (0, 0);
        Ok(())
    }

    /// What a phase still waits for.
    pub(super) fn describe(&self, awaited: Awaited) -> String {
        match self.of_places.get(&awaited.place) {
            Some(barrier) if barrier.valid => format!(
                "the phase of the mbarrier still waits for {} arrivals and {} bytes",
                barrier.pending, barrier.bytes
            ),
            _ => "the mbarrier was invalidated meanwhile".to_owned(),
        }
    }

    /// A copy that nobody has waited for, and what is wrong with that at the end of its block.
    pub(super) fn unfinished(&self) -> Option<(Started, Wrong)> {
        let coming = self.of_places.values().find_map(|barrier| barrier.coming.front())?;
        let text = format!(
            "the block ends while {} bytes of this copy may still be on their way to its shared memory",
            coming.bytes()
        );
        let from = coming.from;
        Some((from, Wrong::access(ViolationKind::Race, from.lane, coming.place, text)))
    }
}

impl Mbarrier {
    fn is_over(&self, asked: Asked) -> bool {
        match asked {
            Asked::Parity(parity) => self.phase & 1 != u64::from(parity & 1),
            Asked::State(phase) => self.phase > phase,
        }
    }

    /// Begins the next phase if this one is over.
    fn settle(&mut self) {
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
    pub(super) fn start(&mut self, coming: Coming, address: u64) -> Result<(usize, u32), Wrong> {
        self.on_way += coming.bytes();
        if self.on_way > i64::from(MOST) {
            let text = format!(
                "{} bytes are on their way at once, an mbarrier counts {MOST}",
                self.on_way
            );
            return Err(wrong(coming.from.lane, address, text));
        }
        self.started += 1;
        self.coming.push_back(coming);
        Ok((self.engine, self.started))
    }
}

impl Team<'_> {
    /// Whether a phase is over, once all that may have come for it has.
    pub(super) fn is_over(&mut self, awaited: Awaited) -> bool {
        let found = self.mbarriers.of_places.get_mut(&awaited.place);
        let Some(barrier) = found.filter(|barrier| barrier.valid) else { return false };
        while !barrier.is_over(awaited.asked) {
            let Some(coming) = barrier.coming.pop_front() else { return false };
            let to = self.shared.get_mut(coming.place as usize / 4..).unwrap_or_default();
            to.iter_mut().zip(&coming.words).for_each(|(to, from)| *to = *from);
            barrier.bytes -= coming.bytes();
            barrier.on_way -= coming.bytes();
            barrier.arrived += 1;
            barrier.settle();
        }
        true
    }
}

impl Warp {
    /// `mbarrier`. Gives what the warp has to wait for before this can be done.
    pub(super) fn mbarrier<const CHECKED: bool>(
        &mut self,
        team: &mut Team<'_>,
        (space, address): (Space, Address),
        step: MbarrierStep,
        active: u32,
    ) -> Result<Option<Awaited>, Wrong> {
        let addresses = self.addresses(address);
        let mut places = [0; 32];
        for lane in lanes(active) {
            let address = addresses[lane];
            check_alignment(Space::Shared, lane, address, BYTES)?;
            places[lane] = self.find_shared::<CHECKED>(team, space, lane, address, BYTES)?;
            if CHECKED {
                // All others only have to come after it was initialised.
                let touch = match step {
                    MbarrierStep::Init { .. } | MbarrierStep::Invalidate => Touch::Write,
                    _ => Touch::Promise,
                };
                let (warp, place) = (self.place.number, (places[lane], BYTES));
                team.shadow.touch(&self.clocks, warp, lane, place, touch)?;
            }
        }
        let each = lanes(active).map(|lane| (lane, addresses[lane], places[lane]));
        match step {
            MbarrierStep::Init { count } => {
                let counts = self.registers.word(count);
                for (lane, address, place) in each {
                    team.mbarriers.initialise(place, (lane, address), counts[lane])?;
                }
            }
            MbarrierStep::Invalidate => {
                for (lane, address, place) in each {
                    let barrier = team.mbarriers.at(place, lane, address)?;
                    if !barrier.coming.is_empty() {
                        let text = "the mbarrier is invalidated while a copy is on its way";
                        return Err(wrong(lane, address, text.to_owned()));
                    }
                    barrier.valid = false;
                }
            }
            MbarrierStep::Expect { bytes } => {
                let bytes = *self.registers.word(bytes);
                for (lane, address, place) in each {
                    let barrier = team.mbarriers.at(place, lane, address)?;
                    expect(barrier, bytes[lane], (lane, address))?;
                }
            }
            MbarrierStep::Arrive { count, bytes, state } => {
                let counts = count.map_or([1; 32], |count| *self.registers.word(count));
                let bytes = bytes.map(|bytes| *self.registers.word(bytes));
                let mut phases = [0; 32];
                for (lane, address, place) in each {
                    let barrier = team.mbarriers.at(place, lane, address)?;
                    if let Some(bytes) = bytes {
                        expect(barrier, bytes[lane], (lane, address))?;
                    }
                    phases[lane] = barrier.phase;
                    if counts[lane] == 0 || counts[lane] > barrier.pending {
                        let text = format!(
                            "{} arrivals where the phase of the mbarrier waits for {}",
                            counts[lane], barrier.pending
                        );
                        return Err(wrong(lane, address, text));
                    }
                    barrier.pending -= counts[lane];
                    if CHECKED {
                        match &mut barrier.known {
                            Some(known) => known.join(&self.clocks),
                            None => barrier.known = Some(self.clocks.clone()),
                        }
                    }
                    barrier.settle();
                }
                if CHECKED {
                    self.clocks.advance(self.place.number);
                }
                if let Some(state) = state {
                    self.registers.set_long(state, &phases, active);
                }
            }
            MbarrierStep::Wait { d, phase, patient } => {
                let mut over = 0;
                for (lane, address, place) in each {
                    team.mbarriers.at(place, lane, address)?;
                    let asked = match phase {
                        Phase::Parity(slot) => Asked::Parity(self.registers.word(slot)[lane]),
                        Phase::State(slot) => Asked::State(self.registers.long(slot)[lane]),
                    };
                    let awaited = Awaited { place, asked };
                    if team.is_over(awaited) {
                        over |= 1 << lane;
                    } else if patient {
                        return Ok(Some(awaited));
                    }
                    let barrier = team.mbarriers.at(place, lane, address)?;
                    if CHECKED && over >> lane & 1 == 1 {
                        self.clocks.learn(barrier.engine, barrier.arrived);
                        if let Some(known) = &barrier.over {
                            self.clocks.join(known);
                        }
                    }
                }
                self.registers.set_predicate(d, over, active);
            }
        }
        Ok(None)
    }

    /// Goes back to the step that waits for a phase, which is over now.
    pub(super) fn ask_again(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.at -= 1;
        }
        self.state = State::Ready;
    }
}

fn expect(barrier: &mut Mbarrier, bytes: u32, (lane, address): (usize, u64)) -> Result<(), Wrong> {
    let all = barrier.bytes + i64::from(bytes);
    if bytes > MOST || all > i64::from(MOST) {
        let text = format!("a phase of an mbarrier waits for at most {MOST} bytes, not {all}");
        return Err(wrong(lane, address, text));
    }
    barrier.bytes = all;
    Ok(())
}
