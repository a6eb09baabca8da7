//! The barriers of blocks and of their cluster: who came, who waits, and what they learn.

use super::cluster::{Cluster, Team};
use super::warp::{Meeting, State, Wait, Warp};
use crate::cpu::checks::{Check, ViolationKind, Wrong};
use crate::cpu::operation::{Arrival, Asks, Publishing};
use crate::cpu::shadow::Clocks;

/// How many barriers a block has (ISA section 9.7.13.1).
const BARRIERS: usize = 16;

/// A barrier that some warps have come to.
#[derive(Debug, Clone, Default)]
struct Barrier {
    /// Threads that came; warps count whole.
    arrived: u32,
    /// Threads that it waits for; `None` for all of the block.
    wanted: Option<u32>,
    waiting: Vec<Waiting>,
    /// How many threads `bar.red` asked, and of how many it holds.
    asked: u32,
    holding: u32,
    /// What the warps that came know.
    known: Option<Clocks>,
}

/// A warp that waits at a barrier.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    /// By its number in the cluster.
    warp: usize,
    step: u32,
    ballot: Option<Ballot>,
}

/// The answer of a warp's lanes to `bar.red`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ballot {
    pub(super) asks: Asks,
    pub(super) asked: u32,
    pub(super) holding: u32,
}

/// The barriers of a cluster.
#[derive(Debug)]
pub(super) struct Barriers {
    /// Those of the block of rank 0, then of the next.
    of_blocks: Vec<Barrier>,
    /// What the warps know that have come to the cluster's barrier.
    arriving: Option<Clocks>,
    /// What all knew together when they had come to it.
    met: Option<Clocks>,
}

impl Barriers {
    pub(super) fn new(blocks: usize) -> Self {
        Self { of_blocks: vec![Barrier::default(); blocks * BARRIERS], arriving: None, met: None }
    }

    /// Forgets everything: another cluster begins.
    pub(super) fn reset(&mut self) {
        self.of_blocks.fill(Barrier::default());
        (self.arriving, self.met) = (None, None);
    }

    /// What a barrier of a block waits for.
    pub(super) fn describe(&self, at: usize) -> String {
        let barrier = &self.of_blocks[at];
        let (id, wanted) = (at % BARRIERS, threads(barrier.wanted));
        format!("at barrier {id}, {} threads wait for {wanted}", barrier.arrived)
    }
}

fn threads(wanted: Option<u32>) -> String {
    match wanted {
        Some(threads) => format!("{threads} threads"),
        None => "all threads".to_owned(),
    }
}

fn divergence(text: impl Into<String>) -> Wrong {
    Wrong::of_warp(ViolationKind::BarrierDivergence, text)
}

fn join(known: &mut Option<Clocks>, clocks: &Clocks) {
    match known {
        Some(known) => known.join(clocks),
        None => *known = Some(clocks.clone()),
    }
}

impl Cluster<'_> {
    /// A warp comes to a barrier of its block.
    pub(super) fn arrive<const CHECKED: bool>(
        &mut self,
        number: usize,
        (id, wanted): (usize, Option<u32>),
        arrival: Arrival,
        ballot: Option<Ballot>,
    ) -> Result<(), Wrong> {
        let warp = &mut self.warps[number];
        let (step, rank) = (warp.last_step() as u32, warp.place.rank);
        let at = rank * BARRIERS + id;
        let barrier = &mut self.team.barriers.of_blocks[at];
        if barrier.arrived > 0 && barrier.wanted != wanted {
            return Err(divergence(format!(
                "barrier {id} waits for {}, and now for {}",
                threads(barrier.wanted),
                threads(wanted)
            )));
        }
        barrier.wanted = wanted;
        barrier.arrived += 32;
        if let Some(ballot) = ballot {
            barrier.asked += ballot.asked.count_ones();
            barrier.holding += ballot.holding.count_ones();
        }
        if CHECKED {
            join(&mut barrier.known, &warp.clocks);
        }
        match arrival {
            Arrival::Wait => {
                barrier.waiting.push(Waiting { warp: number, step, ballot });
                warp.state = State::Waiting(Wait::Barrier(at));
            }
            Arrival::Announce if CHECKED => warp.clocks.advance(number),
            Arrival::Announce => {}
        }
        self.release::<CHECKED>(rank, id)
    }

    /// Those who wait for all threads now wait for fewer.
    pub(super) fn release_after_end<const CHECKED: bool>(
        &mut self,
        rank: usize,
    ) -> Result<(), Wrong> {
        for id in 0..BARRIERS {
            self.release::<CHECKED>(rank, id)?;
        }
        self.release_cluster::<CHECKED>();
        Ok(())
    }

    /// Lets those go who wait at a barrier that all came to.
    fn release<const CHECKED: bool>(&mut self, rank: usize, id: usize) -> Result<(), Wrong> {
        let alive =
            self.block(rank).iter().filter(|warp| warp.state != State::Ended).count() as u32;
        let barrier = &mut self.team.barriers.of_blocks[rank * BARRIERS + id];
        // Warps count whole, whether or not the last one is (ISA section 9.7.13.1).
        let wanted = barrier.wanted.unwrap_or(32 * alive);
        if barrier.arrived == 0 || barrier.arrived < wanted {
            return Ok(());
        }
        let done = std::mem::take(barrier);
        if CHECKED {
            self.check_steps(&done)?;
        }
        for Waiting { warp: number, ballot, .. } in &done.waiting {
            let warp = &mut self.warps[*number];
            warp.state = State::Ready;
            warp.barriers += 1;
            if let Some(ballot) = *ballot {
                tell(warp, ballot, (done.asked, done.holding));
            }
            if let (true, Some(known)) = (CHECKED, &done.known) {
                warp.clocks.join(known);
                warp.clocks.advance(*number);
            }
        }
        Ok(())
    }

    /// Whether all who waited for all threads did so at one place.
    fn check_steps(&self, done: &Barrier) -> Result<(), Wrong> {
        let checks = self.team.job.options.checks;
        if !checks.has(Check::Divergence) || done.wanted.is_some() {
            return Ok(());
        }
        let Some(Waiting { warp: first, step, .. }) = done.waiting.first() else { return Ok(()) };
        let Some(other) = done.waiting.iter().find(|other| other.step != *step) else {
            return Ok(());
        };
        Err(divergence(format!(
            "warp {} waits at PTX line {}, warp {} at PTX line {}",
            self.warps[*first].place.index,
            line(&self.team, *step),
            self.warps[other.warp].place.index,
            line(&self.team, other.step),
        )))
    }

    /// `barrier.cluster.arrive`
    pub(super) fn arrive_at_cluster<const CHECKED: bool>(
        &mut self,
        number: usize,
        publishing: Publishing,
    ) -> Result<(), Wrong> {
        let warp = &mut self.warps[number];
        if warp.meeting != Meeting::Away {
            return Err(divergence(
                "the warp comes to the barrier of the cluster again without having waited there",
            ));
        }
        warp.meeting = Meeting::Come;
        if CHECKED {
            let published = match publishing {
                Publishing::Everything => Some(&warp.clocks),
                Publishing::Fenced => warp.fenced.as_ref(),
            };
            if let Some(published) = published {
                join(&mut self.team.barriers.arriving, published);
            }
            warp.clocks.advance(number);
        }
        self.release_cluster::<CHECKED>();
        Ok(())
    }

    /// `barrier.cluster.wait`
    pub(super) fn wait_for_cluster<const CHECKED: bool>(
        &mut self,
        number: usize,
    ) -> Result<(), Wrong> {
        let warp = &mut self.warps[number];
        match warp.meeting {
            Meeting::Away => {
                return Err(divergence(
                    "the warp waits at the barrier of the cluster without having come to it",
                ));
            }
            Meeting::Come => warp.state = State::Waiting(Wait::Cluster),
            Meeting::Met => leave(warp, self.team.barriers.met.as_ref()),
        }
        Ok(())
    }

    /// Lets those go who wait for the cluster, if all came that have not ended (ISA:
    /// `barrier.cluster`).
    fn release_cluster<const CHECKED: bool>(&mut self) {
        let comes = |warp: &Warp| warp.state == State::Ended || warp.meeting == Meeting::Come;
        let any = self.warps.iter().any(|warp| warp.meeting == Meeting::Come);
        if !any || !self.warps.iter().all(comes) {
            return;
        }
        let barriers = &mut self.team.barriers;
        barriers.met = barriers.arriving.take();
        for warp in &mut self.warps {
            warp.meeting = Meeting::Met;
            if warp.state == State::Waiting(Wait::Cluster) {
                leave(warp, barriers.met.as_ref());
            }
        }
    }
}

/// A warp goes on behind the barrier of the cluster.
fn leave(warp: &mut Warp, known: Option<&Clocks>) {
    warp.state = State::Ready;
    warp.meeting = Meeting::Away;
    warp.barriers += 1;
    if let Some(known) = known {
        warp.clocks.join(known);
    }
}

/// Gives a warp what `bar.red` found.
fn tell(warp: &mut Warp, Ballot { asks, asked, .. }: Ballot, (of, holding): (u32, u32)) {
    let full = |holds: bool| if holds { u32::MAX } else { 0 };
    let registers = &mut warp.registers;
    match asks {
        Asks::Count(d) => registers.set_word(d, &[holding; 32], asked),
        Asks::All(d) => registers.set_predicate(d, full(holding == of), asked),
        Asks::Any(d) => registers.set_predicate(d, full(holding > 0), asked),
    }
}

/// The line of a step in the PTX text.
fn line(team: &Team<'_>, step: u32) -> u32 {
    let code = &team.job.kernel.code;
    code.steps.get(step as usize).map_or(0, |step| step.line)
}
