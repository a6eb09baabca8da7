//! The `mbarrier` instruction.
//!
//! Synchronisation is tracked per warp: a wait by one lane counts for all lanes, and a waiting lane
//! blocks its warp. A missing proxy fence between ordinary accesses and tensor loads is not detected.

use super::bounds::check_alignment;
use super::cluster_state::ClusterState;
use super::mbarrier_state::{AwaitedPhase, MAX_COUNT, Mbarrier, PhaseWait, violation};
use super::warp::{Warp, WarpState};
use crate::cpu::checks::LaneViolation;
use crate::cpu::lanes::lanes;
use crate::cpu::operation::{Address, MbarrierOperation, PhaseOperand};
use crate::cpu::shadow::SharedAccess;
use crate::cpu::types::Space;

/// Bytes of an mbarrier.
const BYTES: u32 = 8;

impl ClusterState<'_> {
    /// Whether a phase is complete, after the arrival of all copies that it may wait for.
    pub(super) fn is_over(&mut self, awaited: PhaseWait) -> bool {
        let found = self.mbarriers.by_position.get_mut(&awaited.place);
        let Some(barrier) = found.filter(|barrier| barrier.valid) else { return false };
        while !barrier.is_over(awaited.phase) {
            let Some(copy) = barrier.copies.pop_front() else { return false };
            let to = self.shared.get_mut(copy.place as usize / 4..).unwrap_or_default();
            to.iter_mut().zip(&copy.words).for_each(|(to, from)| *to = *from);
            barrier.bytes -= copy.bytes();
            barrier.in_flight -= copy.bytes();
            barrier.arrived += 1;
            barrier.complete_if_due();
        }
        true
    }
}

impl Warp {
    /// `mbarrier`. Returns the phase to wait for if the instruction cannot complete yet.
    pub(super) fn mbarrier<const CHECKED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        (space, address): (Space, Address),
        step: MbarrierOperation,
        active: u32,
    ) -> Result<Option<PhaseWait>, LaneViolation> {
        let addresses = self.addresses(address);
        let mut places = [0; 32];
        for lane in lanes(active) {
            let address = addresses[lane];
            check_alignment(Space::Shared, lane, address, BYTES)?;
            places[lane] = self.find_shared::<CHECKED>(cluster, space, lane, address, BYTES)?;
            if CHECKED {
                // All other operations only have to be ordered after the initialisation.
                let touch = match step {
                    MbarrierOperation::Init { .. } | MbarrierOperation::Invalidate => {
                        SharedAccess::Write
                    }
                    _ => SharedAccess::Pending,
                };
                let (warp, place) = (self.position.number, (places[lane], BYTES));
                cluster.shadow.touch(&self.clocks, warp, lane, place, touch)?;
            }
        }
        let each = lanes(active).map(|lane| (lane, addresses[lane], places[lane]));
        match step {
            MbarrierOperation::Init { count } => {
                let counts = self.registers.word(count);
                for (lane, address, place) in each {
                    cluster.mbarriers.initialise(place, (lane, address), counts[lane])?;
                }
            }
            MbarrierOperation::Invalidate => {
                for (lane, address, place) in each {
                    let barrier = cluster.mbarriers.at(place, lane, address)?;
                    if !barrier.copies.is_empty() {
                        let text = "the mbarrier is invalidated while a copy is in flight";
                        return Err(violation(lane, address, text.to_owned()));
                    }
                    barrier.valid = false;
                }
            }
            MbarrierOperation::Expect { bytes } => {
                let bytes = *self.registers.word(bytes);
                for (lane, address, place) in each {
                    let barrier = cluster.mbarriers.at(place, lane, address)?;
                    expect(barrier, bytes[lane], (lane, address))?;
                }
            }
            MbarrierOperation::Arrive { count, bytes, state } => {
                let counts = count.map_or([1; 32], |count| *self.registers.word(count));
                let bytes = bytes.map(|bytes| *self.registers.word(bytes));
                let mut phases = [0; 32];
                for (lane, address, place) in each {
                    let barrier = cluster.mbarriers.at(place, lane, address)?;
                    if let Some(bytes) = bytes {
                        expect(barrier, bytes[lane], (lane, address))?;
                    }
                    phases[lane] = barrier.phase;
                    if counts[lane] == 0 || counts[lane] > barrier.pending {
                        let text = format!(
                            "{} arrivals at an mbarrier whose phase expects {}",
                            counts[lane], barrier.pending
                        );
                        return Err(violation(lane, address, text));
                    }
                    barrier.pending -= counts[lane];
                    if CHECKED {
                        match &mut barrier.arrivals_clock {
                            Some(arrivals_clock) => arrivals_clock.join(&self.clocks),
                            None => barrier.arrivals_clock = Some(self.clocks.clone()),
                        }
                    }
                    barrier.complete_if_due();
                }
                if CHECKED {
                    self.clocks.advance(self.position.number);
                }
                if let Some(state) = state {
                    self.registers.set_long(state, &phases, active);
                }
            }
            MbarrierOperation::Wait { d, phase, patient } => {
                let mut over = 0;
                for (lane, address, place) in each {
                    cluster.mbarriers.at(place, lane, address)?;
                    let phase = match phase {
                        PhaseOperand::Parity(slot) => {
                            AwaitedPhase::Parity(self.registers.word(slot)[lane])
                        }
                        PhaseOperand::State(slot) => {
                            AwaitedPhase::State(self.registers.long(slot)[lane])
                        }
                    };
                    let awaited = PhaseWait { place, phase };
                    if cluster.is_over(awaited) {
                        over |= 1 << lane;
                    } else if patient {
                        return Ok(Some(awaited));
                    }
                    let barrier = cluster.mbarriers.at(place, lane, address)?;
                    if CHECKED && over >> lane & 1 == 1 {
                        self.clocks.observe(barrier.engine, barrier.arrived);
                        if let Some(clock) = &barrier.completed_clock {
                            self.clocks.join(clock);
                        }
                    }
                }
                self.registers.set_predicate(d, over, active);
            }
        }
        Ok(None)
    }

    /// Returns to the step that waited for a phase, now complete.
    pub(super) fn repeat_step(&mut self) {
        if let Some(frame) = self.stack.last_mut() {
            frame.at -= 1;
        }
        self.state = WarpState::Ready;
    }
}

fn expect(
    barrier: &mut Mbarrier,
    bytes: u32,
    (lane, address): (usize, u64),
) -> Result<(), LaneViolation> {
    let all = barrier.bytes + i64::from(bytes);
    if bytes > MAX_COUNT || all > i64::from(MAX_COUNT) {
        let text = format!(
            "a phase of an mbarrier expects {all} bytes, more than the limit of {MAX_COUNT}"
        );
        return Err(violation(lane, address, text));
    }
    barrier.bytes = all;
    Ok(())
}
