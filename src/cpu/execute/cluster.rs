//! A cluster: the warps of its blocks in turn, and what they have in common. A block of a kernel
//! without clusters is a cluster of its own.

use super::barriers::{Ballot, Barriers};
use super::phases::{Awaited, Mbarriers};
use super::shared::Reaches;
use super::warp::{Meeting, Place, State, Wait, Warp, thread_index};
use super::{Counting, Job};
use crate::cpu::checks::{Violation, ViolationKind, Wrong};
use crate::cpu::counts::StepCounts;
use crate::cpu::decode::Segment;
use crate::cpu::layout::align;
use crate::cpu::operation::{Arrival, ClusterStep, Longs, Words};
use crate::cpu::shadow::{Extent, Shadow};
use crate::cpu::trace::{Access, Movement};

/// How many steps a warp runs before another does, so that one may wait in a loop for what
/// another stores.
const TURN: u64 = 1 << 14;

/// A cluster with a poll in this many instructions of its warps is taken to wait for another: a
/// loop of one warp has about ten, and 32 warps that meet at a barrier in it a few hundred.
const POLL_DISTANCE: u64 = 1 << 10;

/// What the warps of a cluster have in common.
#[derive(Debug)]
pub(super) struct Team<'a> {
    pub(super) job: Job<'a>,
    /// Its place in the order in which clusters begin.
    number: usize,
    /// Blocks of a cluster.
    pub(super) blocks: usize,
    /// The shared memory of all blocks, one after the other.
    pub(super) shared: Vec<u32>,
    /// How far apart the shared memory of one block and of the next begin.
    pub(super) shared_stride: u64,
    /// What a block's shared memory is divided into.
    pub(super) segments: Vec<Segment>,
    pub(super) shadow: Shadow,
    pub(super) reaches: Reaches,
    pub(super) counts: Vec<StepCounts>,
    /// What was accessed, where that is kept.
    trace: Option<Vec<Access>>,
    /// Instructions that are left of the budget.
    budget: u64,
    /// Instructions executed.
    pub(super) executed: u64,
    /// Accesses with which the cluster may be looking whether another has done something.
    pub(super) polls: u64,
    pub(super) barriers: Barriers,
    pub(super) mbarriers: Mbarriers,
}

/// A cluster that is executed, and then another.
#[derive(Debug)]
pub(super) struct Cluster<'a> {
    pub(super) team: Team<'a>,
    /// Those of the block of rank 0, then of the next.
    pub(super) warps: Vec<Warp>,
}

/// Why a warp stopped running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// Its turn is over.
    Turn,
    Barrier {
        id: usize,
        threads: Option<u32>,
        arrival: Arrival,
        ballot: Option<Ballot>,
    },
    Cluster(ClusterStep),
    /// The phase of an mbarrier is not over; the step is to be executed again when it is.
    Phase(Awaited),
    Ended,
}

impl Team<'_> {
    /// Lets other clusters run if this one spent a round of its warps looking what they do. As long
    /// as one before it runs, that costs nothing: the first of all always pays, so that a launch
    /// ends.
    fn wait_for_others(&mut self, (executed, polls): (u64, u64)) {
        if executed <= POLL_DISTANCE * polls && self.job.progress.runs_before(self.number) {
            self.budget += executed;
            std::thread::yield_now();
        }
    }

    /// Keeps an access, if that is asked for.
    pub(super) fn trace(
        &mut self,
        warp: &Warp,
        movement: Movement,
        access: (&Longs, u32, u32),
        words: &[Words],
    ) {
        if let Some(trace) = &mut self.trace
            && self.job.order.is_wanted(warp.block)
        {
            trace.push(Access::new(movement, (warp.place.index, warp.barriers), access, words));
        }
    }

    /// Counts instructions that were executed.
    pub(super) fn spend(&mut self, instructions: u64) {
        self.executed += instructions;
        self.budget = self.budget.saturating_sub(instructions);
    }

    /// The budget of the whole cluster.
    fn whole_budget(&self) -> u64 {
        self.job.options.instruction_budget.saturating_mul(self.blocks as u64)
    }
}

impl<'a> Cluster<'a> {
    pub(super) fn new(job: Job<'a>) -> Self {
        let code = &job.kernel.code;
        let blocks = job.order.blocks_each();
        let threads: u32 = job.extents.block.iter().product();
        let warps_each = threads.div_ceil(32) as usize;
        let end = code.dynamic_shared + u64::from(job.extents.dynamic_shared);
        let mut segments = code.segments.clone();
        segments.push(Segment {
            name: "dynamic shared memory".to_owned(),
            start: code.dynamic_shared,
            end,
        });
        let stride = align(end, 16);
        let extent = Extent { blocks, bytes: stride, warps: warps_each };
        let counted = if job.options.counting != Counting::Off { code.steps.len() } else { 0 };
        let team = Team {
            job,
            number: 0,
            blocks,
            shared: vec![0; blocks * stride as usize / 4],
            shared_stride: stride,
            segments,
            shadow: Shadow::new(job.options.checks, extent, code.granule),
            reaches: Reaches::new(job.options.checks, blocks, warps_each),
            counts: vec![StepCounts::default(); counted],
            trace: (job.options.counting == Counting::Traced).then(Vec::new),
            budget: 0,
            executed: 0,
            polls: 0,
            barriers: Barriers::new(blocks),
            mbarriers: Mbarriers::new(blocks * warps_each),
        };
        let place = |number| Place {
            number,
            index: number % warps_each,
            rank: number / warps_each,
            shared: (number / warps_each) as u64 * stride,
        };
        let warps = (0..blocks * warps_each).map(|number| Warp::new(code, place(number))).collect();
        Self { team, warps }
    }

    /// Makes everything as it is when the cluster of a number begins.
    pub(super) fn begin(&mut self, number: usize) {
        let team = &mut self.team;
        team.number = number;
        team.shared.fill(0);
        team.shadow.reset();
        team.reaches.reset();
        team.budget = team.whole_budget();
        (team.executed, team.polls) = (0, 0);
        team.barriers.reset();
        team.mbarriers.reset();
        let count = self.warps.len();
        for warp in &mut self.warps {
            let block = team.job.order.block(number, warp.place.rank);
            warp.begin(&team.job.kernel.code, team.job.extents, block, count);
        }
    }

    pub(super) fn into_counts(self) -> (Vec<StepCounts>, Vec<Access>) {
        (self.team.counts, self.team.trace.unwrap_or_default())
    }

    /// Runs to the end, or until it is of no use any more.
    pub(super) fn run<const CHECKED: bool, const COUNTED: bool>(
        &mut self,
    ) -> Result<(), Box<Violation>> {
        loop {
            let mut ran = false;
            let (executed, polls) = (self.team.executed, self.team.polls);
            for at in 0..self.warps.len() {
                let warp = &mut self.warps[at];
                if let State::Waiting(Wait::Phase(awaited)) = warp.state
                    && self.team.is_over(awaited)
                {
                    warp.ask_again();
                }
                if warp.state != State::Ready {
                    continue;
                }
                ran = true;
                let turn = TURN.min(self.team.budget);
                let pause = warp
                    .run::<CHECKED, COUNTED>(&mut self.team, turn)
                    .map_err(|wrong| located(&self.team, warp, wrong))?;
                self.pause::<CHECKED>(at, pause)
                    .map_err(|wrong| located(&self.team, &self.warps[at], wrong))?;
                if pause == Pause::Ended {
                    self.check_reaches::<CHECKED>(self.warps[at].place.rank)?;
                }
            }
            if !ran {
                break;
            }
            let round = (self.team.executed - executed, self.team.polls - polls);
            self.team.wait_for_others(round);
            self.check_budget()?;
            if self.team.job.progress.is_over(self.team.number) {
                return Ok(());
            }
        }
        match self.warps.iter().find(|warp| warp.state != State::Ended) {
            None => self.check_copies(),
            Some(warp) => Err(self.deadlock(warp)),
        }
    }

    /// Nothing may be on its way to shared memory when nobody is there any more.
    fn check_copies(&self) -> Result<(), Box<Violation>> {
        match self.team.mbarriers.unfinished() {
            None => Ok(()),
            Some((from, wrong)) => {
                Err(located_at(&self.team, &self.warps[from.warp], from.step, wrong))
            }
        }
    }

    fn pause<const CHECKED: bool>(&mut self, at: usize, pause: Pause) -> Result<(), Wrong> {
        match pause {
            Pause::Turn => Ok(()),
            Pause::Barrier { id, threads, arrival, ballot } => {
                self.arrive::<CHECKED>(at, (id, threads), arrival, ballot)
            }
            Pause::Cluster(ClusterStep::Arrive(publishing)) => {
                self.arrive_at_cluster::<CHECKED>(at, publishing)
            }
            Pause::Cluster(ClusterStep::Wait) => self.wait_for_cluster::<CHECKED>(at),
            Pause::Phase(awaited) => {
                self.warps[at].state = State::Waiting(Wait::Phase(awaited));
                Ok(())
            }
            Pause::Ended => {
                self.warps[at].state = State::Ended;
                self.release_after_end::<CHECKED>(self.warps[at].place.rank)
            }
        }
    }

    /// The warps of the block of a rank.
    pub(super) fn block(&self, rank: usize) -> &[Warp] {
        let each = self.warps.len() / self.team.blocks;
        self.warps.get(rank * each..(rank + 1) * each).unwrap_or_default()
    }

    /// Once all of a block has ended: what others read and wrote of its shared memory must have
    /// come before that.
    fn check_reaches<const CHECKED: bool>(&mut self, rank: usize) -> Result<(), Box<Violation>> {
        let block = self.block(rank);
        if self.team.blocks == 1 || block.iter().any(|warp| warp.state != State::Ended) {
            return Ok(());
        }
        let late = if CHECKED {
            let known = block.iter().map(|warp| &warp.clocks);
            self.team.reaches.late(rank, known)
        } else {
            None
        };
        self.team.reaches.end(rank);
        match late {
            None => Ok(()),
            Some(late) => {
                let warp = &self.warps[late.warp];
                Err(located_at(&self.team, warp, late.step, late.wrong(rank)))
            }
        }
    }

    /// Makes sure that instructions are left for what goes on.
    fn check_budget(&mut self) -> Result<(), Box<Violation>> {
        let goes_on = self.warps.iter_mut().find(|warp| warp.state == State::Ready);
        let (0, Some(warp)) = (self.team.budget, goes_on) else { return Ok(()) };
        // Reported at the step that would come next.
        if let Some(frame) = warp.frames.last_mut() {
            frame.at += 1;
        }
        let budget = self.team.whole_budget();
        let who = if self.team.blocks == 1 { "block" } else { "cluster" };
        let text = format!("the {who} has executed {budget} instructions and goes on");
        Err(located(&self.team, warp, Wrong::of_warp(ViolationKind::Runaway, text)))
    }

    fn deadlock(&self, warp: &Warp) -> Box<Violation> {
        let waits = |warp: &&Warp| matches!(warp.state, State::Waiting(_));
        let count = self.warps.iter().filter(waits).count();
        let why = match warp.state {
            State::Waiting(Wait::Barrier(at)) => self.team.barriers.describe(at),
            State::Waiting(Wait::Cluster) => {
                let away =
                    |warp: &&Warp| warp.state != State::Ended && warp.meeting == Meeting::Away;
                let missing = self.warps.iter().filter(away).count();
                format!("{missing} do not come to the barrier of the cluster")
            }
            State::Waiting(Wait::Phase(awaited)) => self.team.mbarriers.describe(awaited),
            State::Ready | State::Ended => String::new(),
        };
        let text = format!("{count} of {} warps wait for ever; {why}", self.warps.len());
        located(&self.team, warp, Wrong::of_warp(ViolationKind::Deadlock, text))
    }
}

/// A violation with its place: the step that a warp executed last.
fn located(team: &Team<'_>, warp: &Warp, wrong: Wrong) -> Box<Violation> {
    located_at(team, warp, warp.last_step(), wrong)
}

fn located_at(team: &Team<'_>, warp: &Warp, step: usize, wrong: Wrong) -> Box<Violation> {
    let code = &team.job.kernel.code;
    let step = code.steps.get(step);
    let source = step.and_then(|step| step.source).and_then(|at| code.sources.get(at as usize));
    let thread = wrong
        .lane
        .map(|lane| thread_index(team.job.extents.block, (32 * warp.place.index + lane) as u32));
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
