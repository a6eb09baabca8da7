//! A block: its warps in turn, its barriers, its shared memory.

use super::warp::{State, Warp, thread_index};
use super::{Counting, Job};
use crate::cpu::checks::{Check, Violation, ViolationKind, Wrong};
use crate::cpu::counts::StepCounts;
use crate::cpu::decode::Segment;
use crate::cpu::operation::{Arrival, Asks, Longs, Words};
use crate::cpu::shadow::{Clocks, Shadow};
use crate::cpu::trace::{Access, Movement};

/// How many barriers a block has (ISA section 9.7.13.1).
const BARRIERS: usize = 16;

/// How many steps a warp runs before another does, so that one may wait in a loop for what
/// another stores.
const TURN: u64 = 1 << 14;

/// A block with a poll in this many instructions of its warps is taken to wait for another: a loop
/// of one warp has about ten, and 32 warps that meet at a barrier in it a few hundred.
const POLL_DISTANCE: u64 = 1 << 10;

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

/// What the warps of a block have in common.
#[derive(Debug)]
pub(super) struct Team<'a> {
    pub(super) job: Job<'a>,
    /// Its place in the order in which blocks begin.
    number: usize,
    pub(super) index: [u32; 3],
    pub(super) shared: Vec<u32>,
    pub(super) segments: Vec<Segment>,
    pub(super) shadow: Shadow,
    pub(super) counts: Vec<StepCounts>,
    /// What was accessed, where that is kept.
    trace: Option<Vec<Access>>,
    /// Instructions that are left of the budget.
    budget: u64,
    /// Instructions executed.
    pub(super) executed: u64,
    /// Accesses with which the block may be looking whether another has done something.
    pub(super) polls: u64,
    barriers: Vec<Barrier>,
}

/// A block that is executed, and then another.
#[derive(Debug)]
pub(super) struct Block<'a> {
    team: Team<'a>,
    warps: Vec<Warp>,
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
    Ended,
}

impl Team<'_> {
    /// Lets other blocks run if this one spent a round of its warps looking what they do. As long
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
        if let Some(trace) = &mut self.trace {
            trace.push(Access::new(movement, (warp.index, warp.barriers), access, words));
        }
    }

    /// Counts instructions that were executed.
    pub(super) fn spend(&mut self, instructions: u64) {
        self.executed += instructions;
        self.budget -= instructions;
    }
}

impl<'a> Block<'a> {
    pub(super) fn new(job: Job<'a>) -> Self {
        let code = &job.kernel.code;
        let threads: u32 = job.extents.block.iter().product();
        let mut segments = code.segments.clone();
        let dynamic = u64::from(job.extents.dynamic_shared);
        let end = code.dynamic_shared + dynamic;
        segments.push(Segment {
            name: "dynamic shared memory".to_owned(),
            start: code.dynamic_shared,
            end,
        });
        let counted = if job.options.counting != Counting::Off { code.steps.len() } else { 0 };
        let team = Team {
            job,
            number: 0,
            index: [0; 3],
            shared: vec![0; end.div_ceil(4) as usize],
            segments,
            shadow: Shadow::new(job.options.checks, end, code.granule),
            counts: vec![StepCounts::default(); counted],
            trace: (job.options.counting == Counting::Traced).then(Vec::new),
            budget: 0,
            executed: 0,
            polls: 0,
            barriers: vec![Barrier::default(); BARRIERS],
        };
        let warps =
            (0..threads.div_ceil(32) as usize).map(|index| Warp::new(code, index)).collect();
        Self { team, warps }
    }

    /// Makes everything as it is when the block of an index begins.
    pub(super) fn begin(&mut self, number: usize, index: [u32; 3]) {
        let team = &mut self.team;
        (team.number, team.index) = (number, index);
        team.shared.fill(0);
        team.shadow.reset();
        team.budget = team.job.options.instruction_budget;
        (team.executed, team.polls) = (0, 0);
        team.barriers.fill(Barrier::default());
        for warp in &mut self.warps {
            warp.begin(&team.job.kernel.code, team.job.extents, index);
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
                if self.warps[at].state != State::Ready {
                    continue;
                }
                ran = true;
                let warp = &mut self.warps[at];
                let turn = TURN.min(self.team.budget);
                let pause = warp
                    .run::<CHECKED, COUNTED>(&mut self.team, turn)
                    .map_err(|wrong| located(&self.team, warp, wrong))?;
                self.pause::<CHECKED>(at, pause)
                    .map_err(|wrong| located(&self.team, &self.warps[at], wrong))?;
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
            None => Ok(()),
            Some(warp) => Err(self.deadlock(warp)),
        }
    }

    fn pause<const CHECKED: bool>(&mut self, at: usize, pause: Pause) -> Result<(), Wrong> {
        match pause {
            Pause::Turn => Ok(()),
            Pause::Barrier { id, threads, arrival, ballot } => {
                self.arrive::<CHECKED>(at, (id, threads), arrival, ballot)
            }
            Pause::Ended => {
                self.warps[at].state = State::Ended;
                // Those who wait for all threads now wait for fewer.
                for id in 0..BARRIERS {
                    self.release::<CHECKED>(id)?;
                }
                Ok(())
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
        let budget = self.team.job.options.instruction_budget;
        let text = format!("the block has executed {budget} instructions and goes on");
        Err(located(&self.team, warp, Wrong::of_warp(ViolationKind::Runaway, text)))
    }

    fn arrive<const CHECKED: bool>(
        &mut self,
        at: usize,
        (id, threads): (usize, Option<u32>),
        arrival: Arrival,
        ballot: Option<Ballot>,
    ) -> Result<(), Wrong> {
        let warp = &mut self.warps[at];
        let step = warp.frames.last().map_or(0, |frame| frame.at - 1);
        let barrier = &mut self.team.barriers[id];
        if barrier.arrived > 0 && barrier.wanted != threads {
            let count = |wanted: Option<u32>| match wanted {
                Some(threads) => format!("{threads} threads"),
                None => "all threads".to_owned(),
            };
            return Err(Wrong::of_warp(
                ViolationKind::BarrierDivergence,
                format!(
                    "barrier {id} waits for {}, and now for {}",
                    count(barrier.wanted),
                    count(threads)
                ),
            ));
        }
        barrier.wanted = threads;
        barrier.arrived += 32;
        if let Some(ballot) = ballot {
            barrier.asked += ballot.asked.count_ones();
            barrier.holding += ballot.holding.count_ones();
        }
        if CHECKED {
            match &mut barrier.known {
                Some(known) => known.join(&warp.clocks),
                None => barrier.known = Some(warp.clocks.clone()),
            }
        }
        match arrival {
            Arrival::Wait => {
                barrier.waiting.push(Waiting { warp: at, step, ballot });
                warp.state = State::Waiting(id);
            }
            Arrival::Announce if CHECKED => warp.clocks.advance(at),
            Arrival::Announce => {}
        }
        self.release::<CHECKED>(id)
    }

    /// Lets those go who wait at a barrier that all came to.
    fn release<const CHECKED: bool>(&mut self, id: usize) -> Result<(), Wrong> {
        let alive = self.warps.iter().filter(|warp| warp.state != State::Ended).count() as u32;
        let barrier = &mut self.team.barriers[id];
        // Warps count whole, whether or not the last one is (ISA section 9.7.13.1).
        let wanted = barrier.wanted.unwrap_or(32 * alive);
        if barrier.arrived == 0 || barrier.arrived < wanted {
            return Ok(());
        }
        let done = std::mem::take(barrier);
        let checks = self.team.job.options.checks;
        if CHECKED && checks.has(Check::Divergence) && done.wanted.is_none() {
            let steps = done.waiting.iter().map(|waiting| (waiting.warp, waiting.step));
            let (first, step) = steps.clone().next().unwrap_or((0, 0));
            if let Some((other, elsewhere)) = steps.into_iter().find(|(_, at)| *at != step) {
                let line = |step: u32| {
                    let code = &self.team.job.kernel.code;
                    code.steps.get(step as usize).map_or(0, |step| step.line)
                };
                return Err(Wrong::of_warp(
                    ViolationKind::BarrierDivergence,
                    format!(
                        "warp {first} waits at PTX line {}, warp {other} at PTX line {}",
                        line(step),
                        line(elsewhere)
                    ),
                ));
            }
        }
        for Waiting { warp: at, ballot, .. } in &done.waiting {
            let warp = &mut self.warps[*at];
            warp.state = State::Ready;
            warp.barriers += 1;
            if let Some(Ballot { asks, asked, .. }) = *ballot {
                let full = |holds: bool| if holds { u32::MAX } else { 0 };
                let registers = &mut warp.registers;
                match asks {
                    Asks::Count(d) => registers.set_word(d, &[done.holding; 32], asked),
                    Asks::All(d) => {
                        registers.set_predicate(d, full(done.holding == done.asked), asked);
                    }
                    Asks::Any(d) => registers.set_predicate(d, full(done.holding > 0), asked),
                }
            }
            if let (true, Some(known)) = (CHECKED, &done.known) {
                warp.clocks.join(known);
                warp.clocks.advance(*at);
            }
        }
        Ok(())
    }

    fn deadlock(&self, warp: &Warp) -> Box<Violation> {
        let waiting = |warp: &Warp| match warp.state {
            State::Waiting(id) => Some(id),
            State::Ready | State::Ended => None,
        };
        let id = waiting(warp).unwrap_or(0);
        let count = self.warps.iter().filter(|warp| waiting(warp).is_some()).count();
        let barrier = &self.team.barriers[id];
        let wanted = match barrier.wanted {
            Some(threads) => format!("{threads} threads"),
            None => "all threads".to_owned(),
        };
        let text = format!(
            "{count} of {} warps wait for ever; at barrier {id}, {} threads wait for {wanted}",
            self.warps.len(),
            barrier.arrived,
        );
        located(&self.team, warp, Wrong::of_warp(ViolationKind::Deadlock, text))
    }
}

/// A violation with its place: the step that a warp executed last.
fn located(team: &Team<'_>, warp: &Warp, wrong: Wrong) -> Box<Violation> {
    let code = &team.job.kernel.code;
    let last = warp.frames.last().map_or(0, |frame| frame.at.saturating_sub(1) as usize);
    let step = code.steps.get(last);
    let source = step.and_then(|step| step.source).and_then(|at| code.sources.get(at as usize));
    let thread = wrong
        .lane
        .map(|lane| thread_index(team.job.extents.block, (32 * warp.index + lane) as u32));
    Box::new(Violation {
        kind: wrong.kind,
        kernel: code.name.clone(),
        source_line: source.cloned(),
        ptx_line: step.map_or(0, |step| step.line),
        block: team.index,
        thread,
        address: wrong.address,
        text: wrong.text,
    })
}
