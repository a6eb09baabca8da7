//! Scheduler: assigns problems to lanes that tune concurrently.
//!
//! Timings transfer between related problems. The scheduler therefore starts with a pilot: the first lane evaluates a few
//! candidates of the median problem while the other lanes wait, which they would spend on their first compiles anyway.
//! Then all lanes take problems; problems with related timings come first.
//!
//! A small problem mostly compiles, because its kernels run for microseconds; a large one mostly measures. Half of the
//! lanes therefore take small problems first and half take large ones, the largest first: compiler and device are both
//! busy, and no lane is left with a large problem at the end. A final keeps the device busy and the cores idle, so that
//! a lane releases its search slot before its final starts, and there are more lanes than searches at a time.
//! The figures are in `docs/decisions/2026-11-23-session-scheduling.md`.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::model::Problem;

/// Assigns the problems of a session, each once.
pub(super) struct Scheduler<'p> {
    problems: &'p [Problem],
    /// The place of the problem that a pilot evaluates, where one does.
    pilot: Option<usize>,
    /// Most problems that are searched at a time.
    searches: usize,
    pending: Mutex<PendingProblems>,
    /// Notified when a waiting lane may go on.
    changed: Condvar,
}

/// The places of unassigned problems, and what lanes wait for.
struct PendingProblems {
    /// With one lane, all problems are here.
    small: VecDeque<usize>,
    large: VecDeque<usize>,
    /// Whether the other lanes wait for the pilot.
    is_held: bool,
    searching: usize,
    waiting: usize,
}

impl<'p> Scheduler<'p> {
    /// A scheduler for so many lanes and so many searches at a time. One lane takes the problems in their order, several
    /// take them as the module says.
    pub(super) fn new(problems: &'p [Problem], lanes: usize, searches: usize) -> Self {
        let mut order: Vec<usize> = (0..problems.len()).collect();
        let mut large = Vec::new();
        if lanes > 1 {
            order.sort_by(|a, b| {
                problems[*a].operations().total_cmp(&problems[*b].operations()).then(a.cmp(b))
            });
            large = order.split_off(order.len() / 2);
        }
        let pilot = large.first().copied().filter(|_| problems.len() > 1);
        large.reverse();
        let (small, large, is_held) = (order.into(), large.into(), pilot.is_some());
        let pending = PendingProblems { small, large, is_held, searching: 0, waiting: 0 };
        let searches = searches.max(1);
        Self { problems, pilot, searches, pending: Mutex::new(pending), changed: Condvar::new() }
    }

    /// One of the lanes, counted from 0.
    pub(super) fn lane(&self, number: usize) -> SchedulerLane<'_, 'p> {
        SchedulerLane { scheduler: self, number }
    }

    /// Lets the lanes begin that wait for the pilot.
    pub(super) fn release(&self) {
        self.pending.lock().is_held = false;
        self.changed.notify_all();
    }

    /// Drops all unassigned problems.
    pub(super) fn give_up(&self) {
        let mut pending = self.pending.lock();
        pending.small.clear();
        pending.large.clear();
        drop(pending);
        self.changed.notify_all();
    }
}

/// A lane: takes problems one after the other.
pub(super) struct SchedulerLane<'s, 'p> {
    scheduler: &'s Scheduler<'p>,
    number: usize,
}

impl<'p> SchedulerLane<'_, 'p> {
    /// The problem that this lane evaluates as a pilot, with its place.
    pub(super) fn pilot(&self) -> Option<(usize, &'p Problem)> {
        let number = self.scheduler.pilot.filter(|_| self.number == 0)?;
        Some((number, &self.scheduler.problems[number]))
    }

    /// Takes the next problem: the first that is ready, else the first. Waits until a search slot is free, and, except
    /// for the first lane, until [`Scheduler::release`].
    pub(super) fn take(&self, is_ready: &dyn Fn(&Problem) -> bool) -> Option<Assignment<'_, 'p>> {
        let Scheduler { problems, searches, pending, changed, .. } = self.scheduler;
        let mut pending = pending.lock();
        pending.waiting += 1;
        changed.wait_while(&mut pending, |pending| {
            let is_held = self.number > 0 && pending.is_held;
            !pending.is_empty() && (is_held || pending.searching >= *searches)
        });
        pending.waiting -= 1;
        let numbers = pending.queue_of(self.number)?;
        let number = numbers.remove(first_ready(numbers, problems, is_ready))?;
        pending.searching += 1;
        Some(Assignment { number, problem: &problems[number], slot: SearchSlot(self.scheduler) })
    }

    /// The problem that this lane would take next; none where another lane waits for one.
    pub(super) fn next(&self, is_ready: &dyn Fn(&Problem) -> bool) -> Option<&'p Problem> {
        let Scheduler { problems, pending, .. } = self.scheduler;
        let mut pending = pending.lock();
        if pending.waiting > 0 {
            return None;
        }
        let numbers = pending.queue_of(self.number)?;
        let number = *numbers.get(first_ready(numbers, problems, is_ready))?;
        Some(&problems[number])
    }
}

/// A problem that a lane has taken.
pub(super) struct Assignment<'s, 'p> {
    /// Its place in the list.
    pub(super) number: usize,
    /// The problem.
    pub(super) problem: &'p Problem,
    /// The search slot, to be dropped when the search is over.
    pub(super) slot: SearchSlot<'s>,
}

/// One of the searches that run at a time. Dropping it lets another search begin.
pub(super) struct SearchSlot<'s>(&'s Scheduler<'s>);

impl Drop for SearchSlot<'_> {
    fn drop(&mut self) {
        self.0.pending.lock().searching -= 1;
        self.0.changed.notify_all();
    }
}

fn first_ready(
    numbers: &VecDeque<usize>,
    problems: &[Problem],
    is_ready: &dyn Fn(&Problem) -> bool,
) -> usize {
    numbers.iter().position(|number| is_ready(&problems[*number])).unwrap_or(0)
}

impl Drop for SchedulerLane<'_, '_> {
    /// A lane that ended, however it did, holds no other lane.
    fn drop(&mut self) {
        self.scheduler.release();
    }
}

impl PendingProblems {
    fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }

    /// The queue that a lane takes from: its own, else the other; none where both are empty.
    fn queue_of(&mut self, lane: usize) -> Option<&mut VecDeque<usize>> {
        let Self { small, large, .. } = self;
        let (own, other) = if lane.is_multiple_of(2) { (large, small) } else { (small, large) };
        [own, other].into_iter().find(|numbers| !numbers.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::model::Dtype;

    fn problems() -> Vec<Problem> {
        let shapes = ["512x512x512", "64x64x64", "4096x4096x4096", "128x128x128", "1024x1024x1024"];
        shapes.iter().map(|shape| Problem::new(shape.parse().unwrap(), Dtype::F32)).collect()
    }

    fn taken(lane: &SchedulerLane<'_, '_>) -> Vec<usize> {
        std::iter::from_fn(|| lane.take(&|_| true)).map(|taken| taken.number).collect()
    }

    #[test]
    fn one_lane_takes_problems_in_their_order() {
        let problems = problems();
        let scheduler = Scheduler::new(&problems, 1, 1);
        let lane = scheduler.lane(0);
        assert_eq!((taken(&lane), lane.pilot()), (vec![0, 1, 2, 3, 4], None));
        assert_eq!(Scheduler::new(&problems[..1], 1, 1).lane(0).pilot(), None);
    }

    #[test]
    fn the_median_is_the_pilot_and_the_smallest_and_largest_are_taken_first() {
        let problems = problems();
        let scheduler = Scheduler::new(&problems, 2, 2);
        let (first, second) = (scheduler.lane(0), scheduler.lane(1));
        assert_eq!((first.pilot(), second.pilot()), (Some((0, &problems[0])), None));
        scheduler.release();
        assert_eq!(first.next(&|_| true), Some(&problems[2]));
        assert_eq!(second.take(&|_| true).unwrap().number, 1);
        assert_eq!(taken(&first), [2, 4, 0, 3]);
        assert!(second.take(&|_| true).is_none() && second.next(&|_| true).is_none());
        let scheduler = Scheduler::new(&problems, 4, 2);
        scheduler.give_up();
        assert!(scheduler.lane(0).take(&|_| true).is_none());
    }

    #[test]
    fn a_ready_problem_is_taken_first() {
        let problems = problems();
        let scheduler = Scheduler::new(&problems, 1, 1);
        let lane = scheduler.lane(0);
        let is_ready = |problem: &Problem| problem.shape.m == 4096;
        assert_eq!(lane.next(&is_ready), Some(&problems[2]));
        assert_eq!(lane.take(&is_ready).unwrap().number, 2);
        assert_eq!(lane.take(&is_ready).unwrap().number, 0);
    }

    #[test]
    fn the_other_lanes_wait_for_the_pilot() {
        let problems = problems();
        let scheduler = Scheduler::new(&problems, 2, 2);
        let first = scheduler.lane(0);
        thread::scope(|scope| {
            let [second, third] = [1, 3].map(|lane| {
                scope.spawn({
                    let scheduler = &scheduler;
                    move || scheduler.lane(lane).take(&|_| true).map(|taken| taken.number)
                })
            });
            thread::sleep(Duration::from_millis(50));
            assert!(!second.is_finished() && !third.is_finished());
            // As a lane that panics does.
            drop(first);
            let mut taken = [second, third].map(|lane| lane.join().unwrap());
            taken.sort();
            assert_eq!(taken, [Some(1), Some(3)]);
        });
    }

    #[test]
    fn a_lane_frees_its_search_slot_before_its_final() {
        let problems = problems();
        let scheduler = Scheduler::new(&problems, 3, 1);
        scheduler.release();
        let (first, second) = (scheduler.lane(0), scheduler.lane(1));
        let taken = first.take(&|_| true).unwrap();
        thread::scope(|scope| {
            let next = scope.spawn(|| second.take(&|_| true).is_some());
            while scheduler.pending.lock().waiting == 0 {
                thread::yield_now();
            }
            assert_eq!(first.next(&|_| true), None, "the second lane takes the next problem");
            assert!(!next.is_finished());
            drop(taken.slot);
            assert!(next.join().unwrap());
            assert!(first.next(&|_| true).is_some());
            // A lane that waits for a problem does not wait for ever.
            let taken = first.take(&|_| true).unwrap();
            let third = scheduler.lane(2);
            let last = scope.spawn(move || third.take(&|_| true).is_some());
            while scheduler.pending.lock().waiting == 0 {
                thread::yield_now();
            }
            scheduler.give_up();
            assert!(!last.join().unwrap());
            drop(taken);
        });
    }
}
