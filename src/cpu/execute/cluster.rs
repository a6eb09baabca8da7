//! Execution of one cluster: its warps run in turn. A block of a kernel without clusters is a
//! cluster of its own.

use std::sync::Arc;

use super::barrier_state::BarrierStates;
use super::cluster_state::ClusterState;
use super::context::LaunchContext;
use super::mbarrier_state::Mbarriers;
use super::options::CountingMode;
use super::remote_access::RemoteAccesses;
use super::special_values::thread_index;
use super::warp::{ClusterArrival, Warp, WarpPause, WarpPosition, WarpState, WarpWait};
use super::warpgroup_order::{MissingStep, WarpgroupHistories};
use crate::cpu::checks::{LaneViolation, Violation, ViolationKind};
use crate::cpu::kernel_code::SharedSegment;
use crate::cpu::layout::align;
use crate::cpu::operation::ClusterBarrierStep;
use crate::cpu::shadow::{ShadowMemory, ShadowNames, SharedExtent};
use crate::cpu::step_counts::StepCounts;
use crate::cpu::trace::MemoryAccess;

/// Steps that a warp runs before the next warp does. A warp can therefore wait in a loop for a
/// store of another.
const TURN: u64 = 1 << 14;

/// A cluster in execution. One value is reused for many clusters.
#[derive(Debug)]
pub(super) struct Cluster<'a> {
    pub(super) state: ClusterState<'a>,
    /// Warps of the block of rank 0, then of the next ranks.
    pub(super) warps: Vec<Warp>,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(launch: LaunchContext<'a>) -> Self {
        let code = &launch.kernel.code;
        let blocks = launch.order.blocks_each();
        let threads: u32 = launch.extents.block.iter().product();
        let warps_each = threads.div_ceil(32) as usize;
        let end = code.dynamic_shared + u64::from(launch.extents.dynamic_shared);
        let mut segments = code.segments.clone();
        segments.push(SharedSegment {
            name: SharedSegment::DYNAMIC.to_owned(),
            start: code.dynamic_shared,
            end,
        });
        let stride = align(end, 16);
        let extent = SharedExtent { blocks, bytes: stride, warps: warps_each };
        let counted =
            if launch.options.counting != CountingMode::Off { code.steps.len() } else { 0 };
        let names = ShadowNames { segments: segments.clone(), sources: Arc::clone(&code.sources) };
        let mut shadow = ShadowMemory::new(launch.options.checks, extent, code.granule, names);
        if code.reads_asynchronously() {
            shadow.expect_async_reads();
        }
        let state = ClusterState {
            launch,
            number: 0,
            blocks,
            shared: vec![0; blocks * stride as usize / 4],
            shared_stride: stride,
            segments,
            shadow,
            remote_accesses: RemoteAccesses::new(launch.options.checks, blocks, warps_each),
            counts: vec![StepCounts::default(); counted],
            trace: (launch.options.counting == CountingMode::Traced).then(Vec::new),
            budget: 0,
            executed: 0,
            polls: 0,
            barriers: BarrierStates::new(blocks),
            mbarriers: Mbarriers::new(blocks * warps_each),
            warpgroups: WarpgroupHistories::new(blocks, warps_each),
        };
        let place = |number| WarpPosition {
            number,
            index: number % warps_each,
            rank: number / warps_each,
            shared: (number / warps_each) as u64 * stride,
        };
        let warps = (0..blocks * warps_each).map(|number| Warp::new(code, place(number))).collect();
        Self { state, warps }
    }

    /// Resets all state and begins the cluster of a number.
    pub(super) fn begin(&mut self, number: usize) {
        let state = &mut self.state;
        state.number = number;
        state.shared.fill(0);
        state.shadow.reset();
        state.remote_accesses.reset();
        state.budget = state.whole_budget();
        (state.executed, state.polls) = (0, 0);
        state.barriers.reset();
        state.mbarriers.reset();
        state.warpgroups.reset();
        let count = self.warps.len();
        for warp in &mut self.warps {
            let block = state.launch.order.block(number, warp.position.rank);
            warp.begin(&state.launch.kernel.code, state.launch.extents, block, count);
        }
    }

    pub(super) fn into_counts(self) -> (Vec<StepCounts>, Vec<MemoryAccess>) {
        (self.state.counts, self.state.trace.unwrap_or_default())
    }

    /// Runs the cluster to its end, or until the launch has failed without it.
    pub(super) fn run<const CHECKED: bool, const COUNTED: bool>(
        &mut self,
    ) -> Result<(), Box<Violation>> {
        loop {
            let mut ran = false;
            let (executed, polls) = (self.state.executed, self.state.polls);
            for at in 0..self.warps.len() {
                let warp = &mut self.warps[at];
                if let WarpState::Waiting(WarpWait::Phase(awaited)) = warp.state
                    && self.state.is_over(awaited)
                {
                    warp.repeat_step();
                }
                if warp.state != WarpState::Ready {
                    continue;
                }
                ran = true;
                let turn = TURN.min(self.state.budget);
                let pause = warp
                    .run::<CHECKED, COUNTED>(&mut self.state, turn)
                    .map_err(|wrong| located(&self.state, warp, wrong))?;
                self.pause::<CHECKED>(at, pause)
                    .map_err(|wrong| located(&self.state, &self.warps[at], wrong))?;
                if pause == WarpPause::Ended {
                    self.check_remote_accesses::<CHECKED>(self.warps[at].position.rank)?;
                }
            }
            if !ran {
                break;
            }
            let round = (self.state.executed - executed, self.state.polls - polls);
            self.state.wait_for_others(round);
            self.check_budget()?;
            if self.state.launch.progress.is_over(self.state.number) {
                return Ok(());
            }
        }
        match self.warps.iter().find(|warp| warp.state != WarpState::Ended) {
            None => self.check_warpgroups().and_then(|()| self.check_copies()),
            Some(warp) => Err(self.deadlock(warp)),
        }
    }

    /// Checks that all warps of each warpgroup have executed the same `wgmma` instructions.
    fn check_warpgroups(&self) -> Result<(), Box<Violation>> {
        match self.state.warpgroups.missing() {
            None => Ok(()),
            Some(MissingStep { warp, step, violation }) => {
                Err(located_at(&self.state, &self.warps[warp], step, violation))
            }
        }
    }

    /// Checks that no tensor copy is in flight when the cluster has ended.
    fn check_copies(&self) -> Result<(), Box<Violation>> {
        match self.state.mbarriers.unfinished() {
            None => Ok(()),
            Some((from, wrong)) => {
                Err(located_at(&self.state, &self.warps[from.warp], from.step, wrong))
            }
        }
    }

    fn pause<const CHECKED: bool>(
        &mut self,
        at: usize,
        pause: WarpPause,
    ) -> Result<(), LaneViolation> {
        match pause {
            WarpPause::Turn => Ok(()),
            WarpPause::Barrier { id, threads, mode, reduction } => {
                self.arrive::<CHECKED>(at, (id, threads), mode, reduction)
            }
            WarpPause::Cluster(ClusterBarrierStep::Arrive(publishing)) => {
                self.arrive_at_cluster::<CHECKED>(at, publishing)
            }
            WarpPause::Cluster(ClusterBarrierStep::Wait) => self.wait_for_cluster::<CHECKED>(at),
            WarpPause::Phase(awaited) => {
                self.warps[at].state = WarpState::Waiting(WarpWait::Phase(awaited));
                Ok(())
            }
            WarpPause::Ended => {
                self.warps[at].state = WarpState::Ended;
                self.release_after_end::<CHECKED>(at)
            }
        }
    }

    /// Warps of the block of a rank.
    pub(super) fn block(&self, rank: usize) -> &[Warp] {
        let each = self.warps.len() / self.state.blocks;
        self.warps.get(rank * each..(rank + 1) * each).unwrap_or_default()
    }

    /// After the end of a block, checks that all accesses of other blocks to its shared memory are
    /// ordered before the end.
    fn check_remote_accesses<const CHECKED: bool>(
        &mut self,
        rank: usize,
    ) -> Result<(), Box<Violation>> {
        let block = self.block(rank);
        if self.state.blocks == 1 || block.iter().any(|warp| warp.state != WarpState::Ended) {
            return Ok(());
        }
        let late = if CHECKED {
            let final_clocks = block.iter().map(|warp| &warp.clocks);
            self.state.remote_accesses.late(rank, final_clocks)
        } else {
            None
        };
        self.state.remote_accesses.end(rank);
        match late {
            None => Ok(()),
            Some(late) => {
                let warp = &self.warps[late.warp];
                Err(located_at(&self.state, warp, late.step, late.violation(rank)))
            }
        }
    }

    /// Checks that the instruction budget is not exhausted.
    fn check_budget(&mut self) -> Result<(), Box<Violation>> {
        let goes_on = self.warps.iter_mut().find(|warp| warp.state == WarpState::Ready);
        let (0, Some(warp)) = (self.state.budget, goes_on) else { return Ok(()) };
        // The violation is reported at the next step.
        if let Some(frame) = warp.stack.last_mut() {
            frame.at += 1;
        }
        let budget = self.state.whole_budget();
        let scope = if self.state.blocks == 1 { "block" } else { "cluster" };
        let text = format!("the {scope} exceeds the budget of {budget} instructions");
        Err(located(&self.state, warp, LaneViolation::of_warp(ViolationKind::Runaway, text)))
    }

    fn deadlock(&self, warp: &Warp) -> Box<Violation> {
        let waits = |warp: &&Warp| matches!(warp.state, WarpState::Waiting(_));
        let count = self.warps.iter().filter(waits).count();
        let why = match warp.state {
            WarpState::Waiting(WarpWait::Barrier(at)) => self.state.barriers.describe(at),
            WarpState::Waiting(WarpWait::Cluster) => {
                let away = |warp: &&Warp| {
                    warp.state != WarpState::Ended
                        && warp.cluster_arrival == ClusterArrival::NotArrived
                };
                let missing = self.warps.iter().filter(away).count();
                format!("{missing} have not arrived at the cluster barrier")
            }
            WarpState::Waiting(WarpWait::Phase(awaited)) => self.state.mbarriers.describe(awaited),
            WarpState::Ready | WarpState::Ended => String::new(),
        };
        let text = format!("{count} of {} warps wait forever; {why}", self.warps.len());
        located(&self.state, warp, LaneViolation::of_warp(ViolationKind::Deadlock, text))
    }
}

/// Adds the location of the warp's latest step to a violation.
fn located(cluster: &ClusterState<'_>, warp: &Warp, wrong: LaneViolation) -> Box<Violation> {
    located_at(cluster, warp, warp.last_step(), wrong)
}

fn located_at(
    cluster: &ClusterState<'_>,
    warp: &Warp,
    step: usize,
    wrong: LaneViolation,
) -> Box<Violation> {
    let code = &cluster.launch.kernel.code;
    let step = code.steps.get(step);
    let source = step.and_then(|step| step.source).and_then(|at| code.sources.get(at as usize));
    let thread = wrong.lane.map(|lane| {
        thread_index(cluster.launch.extents.block, (32 * warp.position.index + lane) as u32)
    });
    Box::new(Violation {
        kind: wrong.kind,
        kernel: code.name.clone(),
        source_line: source.cloned(),
        ptx_line: step.map_or(0, |step| step.line),
        block: warp.block,
        thread,
        address: wrong.address,
        text: wrong.text,
    })
}
