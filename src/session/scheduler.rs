//! Whose turn it is, where several lanes tune problems at the same time.
//!
//! What a problem's kernels take tells much of its kin, so that one goes ahead: of the one in the middle the
//! first lane asks a few questions, and the others wait until they tell something, which they would have
//! waited for the compiler anyway. Then all are taken, what has kin already before what has none.
//!
//! What a small problem takes is mostly compiling, for its kernels run in microseconds; what a large one
//! takes is mostly measuring. So half of the lanes take the small ones and half the large, the largest first:
//! while the cores are busy with what nobody compiled before, the device is with what takes long, and in the
//! end no lane is left alone with a large one. In the order in which they were given, from small to large, two
//! lanes with 20 layers of a model kept 16 cores busy for 32 s, with half of an H200's time, and then the H200
//! for 20 s, with idle cores.
//!
//! A final keeps the device busy and the cores idle, so that who has searched makes room for another one's
//! search: there are more lanes than problems searched at a time. With 6 lanes and 6 searches their finals met,
//! and 16 cores were idle for 5 of 27 s, and the device for as long before.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::model::Problem;

/// Problems that nobody has taken yet.
pub struct Scheduler<'p> {
    problems: &'p [Problem],
    /// The one that goes ahead, if one does.
    leader: Option<usize>,
    /// Most that are searched at a time.
    searches: usize,
    left: Mutex<Unclaimed>,
    /// Notified when somebody may go on who waits.
    changed: Condvar,
}

/// The numbers of those that are left, and what those wait for who would take one.
struct Unclaimed {
    /// All are among these for one lane.
    small: VecDeque<usize>,
    large: VecDeque<usize>,
    /// Whether one goes ahead of all others.
    is_led: bool,
    searching: usize,
    waiting: usize,
}

impl<'p> Scheduler<'p> {
    /// In the order given for one lane; for several as the module says. So many `searches` at a time.
    pub fn new(problems: &'p [Problem], lanes: usize, searches: usize) -> Self {
        let mut order: Vec<usize> = (0..problems.len()).collect();
        let mut large = Vec::new();
        if lanes > 1 {
            order.sort_by(|a, b| {
                problems[*a].operations().total_cmp(&problems[*b].operations()).then(a.cmp(b))
            });
            large = order.split_off(order.len() / 2);
        }
        let leader = large.first().copied().filter(|_| problems.len() > 1);
        large.reverse();
        let (small, large, is_led) = (order.into(), large.into(), leader.is_some());
        let left = Unclaimed { small, large, is_led, searching: 0, waiting: 0 };
        let searches = searches.max(1);
        Self { problems, leader, searches, left: Mutex::new(left), changed: Condvar::new() }
    }

    /// A problem such as they are; none where there is none.
    pub fn example(&self) -> Option<&'p Problem> {
        self.problems.first()
    }

    /// One of the lanes, counted from 0.
    pub fn lane(&self, number: usize) -> Lane<'_, 'p> {
        Lane { turns: self, number }
    }

    /// Lets the other lanes begin: the one that goes ahead has told something, or cannot.
    pub fn follow(&self) {
        self.left.lock().is_led = false;
        self.changed.notify_all();
    }

    /// Leaves nothing to take.
    pub fn give_up(&self) {
        let mut left = self.left.lock();
        left.small.clear();
        left.large.clear();
        drop(left);
        self.changed.notify_all();
    }
}

/// What takes problems, one after the other.
pub struct Lane<'t, 'p> {
    turns: &'t Scheduler<'p>,
    number: usize,
}

impl<'p> Lane<'_, 'p> {
    /// The problem that goes ahead, where this lane has to go with it.
    pub fn leader(&self) -> Option<&'p Problem> {
        let leader = self.turns.leader.filter(|_| self.number == 0)?;
        Some(&self.turns.problems[leader])
    }

    /// The next problem, which is nobody else's then: the first of which it is said that it is ready, else the
    /// first. All lanes but the first one wait until [`Scheduler::follow`] is called, and all until fewer are searched
    /// than may be.
    pub fn take(&self, is_ready: &dyn Fn(&Problem) -> bool) -> Option<Claim<'_, 'p>> {
        let Scheduler { problems, searches, left, changed, .. } = self.turns;
        let mut left = left.lock();
        left.waiting += 1;
        changed.wait_while(&mut left, |left| {
            let is_led = self.number > 0 && left.is_led;
            !left.is_empty() && (is_led || left.searching >= *searches)
        });
        left.waiting -= 1;
        let numbers = left.of(self.number)?;
        let number = numbers.remove(first_ready(numbers, problems, is_ready))?;
        left.searching += 1;
        Some(Claim { number, problem: &problems[number], search: SearchSlot(self.turns) })
    }

    /// The one that it takes next, if nobody else does: none where somebody waits for it.
    pub fn coming(&self, is_ready: &dyn Fn(&Problem) -> bool) -> Option<&'p Problem> {
        let Scheduler { problems, left, .. } = self.turns;
        let mut left = left.lock();
        if left.waiting > 0 {
            return None;
        }
        let numbers = left.of(self.number)?;
        let number = *numbers.get(first_ready(numbers, problems, is_ready))?;
        Some(&problems[number])
    }
}

/// A problem that a lane has taken.
pub struct Claim<'t, 'p> {
    /// Its place in the list.
    pub number: usize,
    /// The problem.
    pub problem: &'p Problem,
    /// To be dropped when the search is over.
    pub search: SearchSlot<'t>,
}

/// One of the problems that are searched at a time, until it is dropped.
pub struct SearchSlot<'t>(&'t Scheduler<'t>);

impl Drop for SearchSlot<'_> {
    fn drop(&mut self) {
        self.0.left.lock().searching -= 1;
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

impl Drop for Lane<'_, '_> {
    /// Nobody waits for a lane that is over, however it ended.
    fn drop(&mut self) {
        self.turns.follow();
    }
}

impl Unclaimed {
    fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }

    /// A lane's own, or else the others; none where nothing is left.
    fn of(&mut self, lane: usize) -> Option<&mut VecDeque<usize>> {
        let Self { small, large, .. } = self;
        let (own, others) = if lane.is_multiple_of(2) { (large, small) } else { (small, large) };
        [own, others].into_iter().find(|numbers| !numbers.is_empty())
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

    fn taken(lane: &Lane<'_, '_>) -> Vec<usize> {
        std::iter::from_fn(|| lane.take(&|_| true)).map(|taken| taken.number).collect()
    }

    #[test]
    fn one_lane_takes_them_as_they_were_given() {
        let problems = problems();
        let turns = Scheduler::new(&problems, 1, 1);
        let lane = turns.lane(0);
        assert_eq!((taken(&lane), lane.leader()), (vec![0, 1, 2, 3, 4], None));
        assert_eq!(Scheduler::new(&problems[..1], 1, 1).lane(0).leader(), None);
    }

    #[test]
    fn the_middle_one_goes_ahead_and_the_smallest_and_the_largest_are_taken_first() {
        let problems = problems();
        let turns = Scheduler::new(&problems, 2, 2);
        let (first, second) = (turns.lane(0), turns.lane(1));
        assert_eq!((first.leader(), second.leader()), (Some(&problems[0]), None));
        turns.follow();
        assert_eq!(first.coming(&|_| true), Some(&problems[2]));
        assert_eq!(second.take(&|_| true).unwrap().number, 1);
        assert_eq!(taken(&first), [2, 4, 0, 3]);
        assert!(second.take(&|_| true).is_none() && second.coming(&|_| true).is_none());
        let turns = Scheduler::new(&problems, 4, 2);
        turns.give_up();
        assert!(turns.lane(0).take(&|_| true).is_none());
    }

    #[test]
    fn what_is_ready_comes_first() {
        let problems = problems();
        let turns = Scheduler::new(&problems, 1, 1);
        let lane = turns.lane(0);
        let is_ready = |problem: &Problem| problem.shape.m == 4096;
        assert_eq!(lane.coming(&is_ready), Some(&problems[2]));
        assert_eq!(lane.take(&is_ready).unwrap().number, 2);
        assert_eq!(lane.take(&is_ready).unwrap().number, 0);
    }

    #[test]
    fn the_others_wait_until_there_is_something_to_follow() {
        let problems = problems();
        let turns = Scheduler::new(&problems, 2, 2);
        let first = turns.lane(0);
        thread::scope(|scope| {
            let [second, third] = [1, 3].map(|lane| {
                scope.spawn({
                    let turns = &turns;
                    move || turns.lane(lane).take(&|_| true).map(|taken| taken.number)
                })
            });
            thread::sleep(Duration::from_millis(50));
            assert!(!second.is_finished() && !third.is_finished());
            // As one that panics does.
            drop(first);
            let mut taken = [second, third].map(|lane| lane.join().unwrap());
            taken.sort();
            assert_eq!(taken, [Some(1), Some(3)]);
        });
    }

    #[test]
    fn who_has_searched_makes_room() {
        let problems = problems();
        let turns = Scheduler::new(&problems, 3, 1);
        turns.follow();
        let (first, second) = (turns.lane(0), turns.lane(1));
        let taken = first.take(&|_| true).unwrap();
        thread::scope(|scope| {
            let next = scope.spawn(|| second.take(&|_| true).is_some());
            while turns.left.lock().waiting == 0 {
                thread::yield_now();
            }
            assert_eq!(first.coming(&|_| true), None, "the second lane takes what is next");
            assert!(!next.is_finished());
            drop(taken.search);
            assert!(next.join().unwrap());
            assert!(first.coming(&|_| true).is_some());
            // Who waits for a problem does not wait for ever.
            let taken = first.take(&|_| true).unwrap();
            let third = turns.lane(2);
            let last = scope.spawn(move || third.take(&|_| true).is_some());
            while turns.left.lock().waiting == 0 {
                thread::yield_now();
            }
            turns.give_up();
            assert!(!last.join().unwrap());
            drop(taken);
        });
    }
}
