//! The barriers of blocks and of their cluster: who came, who waits, and what they learn.

use super::barrier_state::{BARRIERS, BlockBarrier, ReductionInput, WaitingWarp, thread_count};
use super::cluster::Cluster;
use super::cluster_state::ClusterState;
use super::warp::{ClusterArrival, Warp, WarpState, WarpWait};
use crate::cpu::checks::{ExecutionCheck, LaneViolation, ViolationKind};
use crate::cpu::operation::{ArriveOrder, BarrierMode, ReductionResult};
use crate::cpu::vector_clock::VectorClock;

fn divergence(text: impl Into<String>) -> LaneViolation {
    LaneViolation::of_warp(ViolationKind::BarrierDivergence, text)
}

fn join(known: &mut Option<VectorClock>, clocks: &VectorClock) {
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
        mode: BarrierMode,
        reduction: Option<ReductionInput>,
    ) -> Result<(), LaneViolation> {
        let warp = &mut self.warps[number];
        let (step, rank) = (warp.last_step() as u32, warp.position.rank);
        let at = rank * BARRIERS + id;
        let barrier = &mut self.state.barriers.of_blocks[at];
        if barrier.arrived > 0 && barrier.wanted != wanted {
            return Err(divergence(format!(
                "barrier {id} waits for {}, and now for {}",
                thread_count(barrier.wanted),
                thread_count(wanted)
            )));
        }
        barrier.wanted = wanted;
        barrier.arrived += 32;
        if let Some(reduction) = reduction {
            barrier.asked += reduction.asked.count_ones();
            barrier.holding += reduction.holding.count_ones();
        }
        if CHECKED {
            join(&mut barrier.known, &warp.clocks);
        }
        match mode {
            BarrierMode::Sync => {
                barrier.waiting.push(WaitingWarp { warp: number, step, reduction });
                warp.state = WarpState::Waiting(WarpWait::Barrier(at));
            }
            BarrierMode::Arrive if CHECKED => warp.clocks.advance(number),
            BarrierMode::Arrive => {}
        }
        self.release::<CHECKED>(rank, id)
    }

    /// Those who wait for all threads now wait for fewer.
    pub(super) fn release_after_end<const CHECKED: bool>(
        &mut self,
        rank: usize,
    ) -> Result<(), LaneViolation> {
        for id in 0..BARRIERS {
            self.release::<CHECKED>(rank, id)?;
        }
        self.release_cluster::<CHECKED>();
        Ok(())
    }

    /// Lets those go who wait at a barrier that all came to.
    fn release<const CHECKED: bool>(
        &mut self,
        rank: usize,
        id: usize,
    ) -> Result<(), LaneViolation> {
        let alive =
            self.block(rank).iter().filter(|warp| warp.state != WarpState::Ended).count() as u32;
        let barrier = &mut self.state.barriers.of_blocks[rank * BARRIERS + id];
        // Warps count whole, whether or not the last one is (ISA section 9.7.13.1).
        let wanted = barrier.wanted.unwrap_or(32 * alive);
        if barrier.arrived == 0 || barrier.arrived < wanted {
            return Ok(());
        }
        let done = std::mem::take(barrier);
        if CHECKED {
            self.check_steps(&done)?;
        }
        for WaitingWarp { warp: number, reduction, .. } in &done.waiting {
            let warp = &mut self.warps[*number];
            warp.state = WarpState::Ready;
            warp.barriers += 1;
            if let Some(reduction) = *reduction {
                tell(warp, reduction, (done.asked, done.holding));
            }
            if let (true, Some(known)) = (CHECKED, &done.known) {
                warp.clocks.join(known);
                warp.clocks.advance(*number);
            }
        }
        Ok(())
    }

    /// Whether all who waited for all threads did so at one place.
    fn check_steps(&self, done: &BlockBarrier) -> Result<(), LaneViolation> {
        let checks = self.state.launch.options.checks;
        if !checks.has(ExecutionCheck::Divergence) || done.wanted.is_some() {
            return Ok(());
        }
        let Some(WaitingWarp { warp: first, step, .. }) = done.waiting.first() else {
            return Ok(());
        };
        let Some(other) = done.waiting.iter().find(|other| other.step != *step) else {
            return Ok(());
        };
        Err(divergence(format!(
            "warp {} waits at PTX line {}, warp {} at PTX line {}",
            self.warps[*first].position.index,
            line(&self.state, *step),
            self.warps[other.warp].position.index,
            line(&self.state, other.step),
        )))
    }

    /// `barrier.cluster.arrive`
    pub(super) fn arrive_at_cluster<const CHECKED: bool>(
        &mut self,
        number: usize,
        publishing: ArriveOrder,
    ) -> Result<(), LaneViolation> {
        let warp = &mut self.warps[number];
        if warp.cluster_arrival != ClusterArrival::NotArrived {
            return Err(divergence(
                "the warp comes to the barrier of the cluster again without having waited there",
            ));
        }
        warp.cluster_arrival = ClusterArrival::Arrived;
        if CHECKED {
            let published = match publishing {
                ArriveOrder::Release => Some(&warp.clocks),
                ArriveOrder::Relaxed => warp.fenced.as_ref(),
            };
            if let Some(published) = published {
                join(&mut self.state.barriers.arriving, published);
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
    ) -> Result<(), LaneViolation> {
        let warp = &mut self.warps[number];
        match warp.cluster_arrival {
            ClusterArrival::NotArrived => {
                return Err(divergence(
                    "the warp waits at the barrier of the cluster without having come to it",
                ));
            }
            ClusterArrival::Arrived => warp.state = WarpState::Waiting(WarpWait::Cluster),
            ClusterArrival::Released => leave(warp, self.state.barriers.met.as_ref()),
        }
        Ok(())
    }

    /// Lets those go who wait for the cluster, if all came that have not ended (ISA:
    /// `barrier.cluster`).
    fn release_cluster<const CHECKED: bool>(&mut self) {
        let comes = |warp: &Warp| {
            warp.state == WarpState::Ended || warp.cluster_arrival == ClusterArrival::Arrived
        };
        let any = self.warps.iter().any(|warp| warp.cluster_arrival == ClusterArrival::Arrived);
        if !any || !self.warps.iter().all(comes) {
            return;
        }
        let barriers = &mut self.state.barriers;
        barriers.met = barriers.arriving.take();
        for warp in &mut self.warps {
            warp.cluster_arrival = ClusterArrival::Released;
            if warp.state == WarpState::Waiting(WarpWait::Cluster) {
                leave(warp, barriers.met.as_ref());
            }
        }
    }
}

/// A warp goes on behind the barrier of the cluster.
fn leave(warp: &mut Warp, known: Option<&VectorClock>) {
    warp.state = WarpState::Ready;
    warp.cluster_arrival = ClusterArrival::NotArrived;
    warp.barriers += 1;
    if let Some(known) = known {
        warp.clocks.join(known);
    }
}

/// Gives a warp what `bar.red` found.
fn tell(
    warp: &mut Warp,
    ReductionInput { asks, asked, .. }: ReductionInput,
    (of, holding): (u32, u32),
) {
    let full = |holds: bool| if holds { u32::MAX } else { 0 };
    let registers = &mut warp.registers;
    match asks {
        ReductionResult::Count(d) => registers.set_word(d, &[holding; 32], asked),
        ReductionResult::All(d) => registers.set_predicate(d, full(holding == of), asked),
        ReductionResult::Any(d) => registers.set_predicate(d, full(holding > 0), asked),
    }
}

/// The line of a step in the PTX text.
fn line(cluster: &ClusterState<'_>, step: u32) -> u32 {
    let code = &cluster.launch.kernel.code;
    code.steps.get(step as usize).map_or(0, |step| step.line)
}
