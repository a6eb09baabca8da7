//! Arrivals at the barriers of blocks and of the cluster, and the release of waiting warps.

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

fn join(clock: &mut Option<VectorClock>, clocks: &VectorClock) {
    match clock {
        Some(clock) => clock.join(clocks),
        None => *clock = Some(clocks.clone()),
    }
}

impl Cluster<'_> {
    /// Records the arrival of a warp at a barrier of its block.
    pub(super) fn arrive<const CHECKED: bool>(
        &mut self,
        number: usize,
        (id, expected): (usize, Option<u32>),
        mode: BarrierMode,
        reduction: Option<ReductionInput>,
    ) -> Result<(), LaneViolation> {
        let warp = &mut self.warps[number];
        let (step, rank) = (warp.last_step() as u32, warp.position.rank);
        let at = rank * BARRIERS + id;
        let barrier = &mut self.state.barriers.of_blocks[at];
        if barrier.arrived > 0 && barrier.expected != expected {
            return Err(divergence(format!(
                "barrier {id} is used for {} and for {} at the same time",
                thread_count(barrier.expected),
                thread_count(expected)
            )));
        }
        barrier.expected = expected;
        barrier.arrived += 32;
        if let Some(reduction) = reduction {
            barrier.participants += reduction.participants.count_ones();
            barrier.true_lanes += reduction.true_lanes.count_ones();
        }
        if CHECKED {
            join(&mut barrier.clock, &warp.clocks);
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

    /// Releases barriers for which the end of a warp was the missing event.
    pub(super) fn release_after_end<const CHECKED: bool>(
        &mut self,
        number: usize,
    ) -> Result<(), LaneViolation> {
        if CHECKED {
            self.check_end(&self.warps[number])?;
        }
        let rank = self.warps[number].position.rank;
        for id in 0..BARRIERS {
            self.release::<CHECKED>(rank, id)?;
        }
        self.release_cluster::<CHECKED>();
        Ok(())
    }

    /// Checks that a warp does not end between its arrival at the cluster barrier and those of its whole block. The ISA
    /// does not forbid it, but the barrier never ended on an H200.
    fn check_end(&self, ended: &Warp) -> Result<(), LaneViolation> {
        let is_ordered = |other: &Warp| match ended.arrivals.time_of(&other.arrivals) {
            Some(time) => ended.clocks.covers(other.position.number, time),
            None => other.state == WarpState::Ended,
        };
        if ended.cluster_arrival == ClusterArrival::NotArrived
            || self.block(ended.position.rank).iter().all(is_ordered)
        {
            return Ok(());
        }
        Err(divergence(
            "the warp arrives at the cluster barrier and may end before its whole block has arrived",
        ))
    }

    /// Releases the warps at a barrier where all expected threads have arrived.
    fn release<const CHECKED: bool>(
        &mut self,
        rank: usize,
        id: usize,
    ) -> Result<(), LaneViolation> {
        let alive =
            self.block(rank).iter().filter(|warp| warp.state != WarpState::Ended).count() as u32;
        let barrier = &mut self.state.barriers.of_blocks[rank * BARRIERS + id];
        // Warps count as 32 threads even if the last one is partial (ISA section 9.7.13.1).
        let expected = barrier.expected.unwrap_or(32 * alive);
        if barrier.arrived == 0 || barrier.arrived < expected {
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
                write_reduction(warp, reduction, (done.participants, done.true_lanes));
            }
            if let (true, Some(clock)) = (CHECKED, &done.clock) {
                warp.clocks.join(clock);
                warp.clocks.advance(*number);
            }
        }
        Ok(())
    }

    /// Checks that all warps of a barrier for the whole block wait at the same step.
    fn check_steps(&self, done: &BlockBarrier) -> Result<(), LaneViolation> {
        let checks = self.state.launch.options.checks;
        if !checks.has(ExecutionCheck::Divergence) || done.expected.is_some() {
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
                "the warp arrives at the cluster barrier again without waiting there first",
            ));
        }
        warp.cluster_arrival = ClusterArrival::Arrived;
        if CHECKED {
            warp.arrivals.record(warp.clocks.now(number));
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
                    "the warp waits at the cluster barrier without arriving first",
                ));
            }
            ClusterArrival::Arrived => warp.state = WarpState::Waiting(WarpWait::Cluster),
            ClusterArrival::Released => leave(warp, self.state.barriers.released.as_ref()),
        }
        Ok(())
    }

    /// Releases the cluster barrier when all warps that have not ended have arrived (ISA:
    /// `barrier.cluster`).
    fn release_cluster<const CHECKED: bool>(&mut self) {
        let is_done = |warp: &Warp| {
            warp.state == WarpState::Ended || warp.cluster_arrival == ClusterArrival::Arrived
        };
        let any = self.warps.iter().any(|warp| warp.cluster_arrival == ClusterArrival::Arrived);
        if !any || !self.warps.iter().all(is_done) {
            return;
        }
        let barriers = &mut self.state.barriers;
        barriers.released = barriers.arriving.take();
        for warp in &mut self.warps {
            warp.cluster_arrival = ClusterArrival::Released;
            if warp.state == WarpState::Waiting(WarpWait::Cluster) {
                leave(warp, barriers.released.as_ref());
            }
        }
    }
}

/// Resumes a warp after the cluster barrier.
fn leave(warp: &mut Warp, clock: Option<&VectorClock>) {
    warp.state = WarpState::Ready;
    warp.cluster_arrival = ClusterArrival::NotArrived;
    warp.barriers += 1;
    if let Some(clock) = clock {
        warp.clocks.join(clock);
    }
}

/// Writes the result of `bar.red` to a warp's registers.
fn write_reduction(
    warp: &mut Warp,
    ReductionInput { result, participants, .. }: ReductionInput,
    (of, true_lanes): (u32, u32),
) {
    let full = |holds: bool| if holds { u32::MAX } else { 0 };
    let registers = &mut warp.registers;
    match result {
        ReductionResult::Count(d) => registers.set_word(d, &[true_lanes; 32], participants),
        ReductionResult::All(d) => registers.set_predicate(d, full(true_lanes == of), participants),
        ReductionResult::Any(d) => registers.set_predicate(d, full(true_lanes > 0), participants),
    }
}

/// PTX line of a step.
fn line(cluster: &ClusterState<'_>, step: u32) -> u32 {
    let code = &cluster.launch.kernel.code;
    code.steps.get(step as usize).map_or(0, |step| step.line)
}
