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

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::model::Problem;

/// Problems that nobody has taken yet.
pub(super) struct Turns<'p> {
    problems: &'p [Problem],
    /// The one that goes ahead, if one does.
    leader: Option<usize>,
    left: Mutex<Left>,
    /// Notified when none goes ahead any more.
    followed: Condvar,
}

/// The numbers of those that are left.
struct Left {
    /// All are among these for one lane.
    small: VecDeque<usize>,
    large: VecDeque<usize>,
    /// Whether one goes ahead of all others.
    is_led: bool,
}

impl<'p> Turns<'p> {
    /// In the order given for one lane; for several as the module says.
    pub(super) fn new(problems: &'p [Problem], lanes: usize) -> Self {
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
        let left = Left { small: order.into(), large: large.into(), is_led: leader.is_some() };
        Self { problems, leader, left: Mutex::new(left), followed: Condvar::new() }
    }

    /// One of the lanes, counted from 0.
    pub(super) fn lane(&self, number: usize) -> Lane<'_, 'p> {
        Lane { turns: self, number }
    }

    /// Lets the other lanes begin: the one that goes ahead has told something, or cannot.
    pub(super) fn follow(&self) {
        self.left.lock().is_led = false;
        self.followed.notify_all();
    }

    /// Leaves nothing to take.
    pub(super) fn give_up(&self) {
        let mut left = self.left.lock();
        left.small.clear();
        left.large.clear();
    }
}

/// What takes problems, one after the other.
pub(super) struct Lane<'t, 'p> {
    turns: &'t Turns<'p>,
    number: usize,
}

impl<'p> Lane<'_, 'p> {
    /// The problem that goes ahead, where this lane has to go with it.
    pub(super) fn leader(&self) -> Option<&'p Problem> {
        let leader = self.turns.leader.filter(|_| self.number == 0)?;
        Some(&self.turns.problems[leader])
    }

    /// The number of the next problem, and the problem, which is nobody else's then: the first of which it is
    /// said that it is ready, else the first. All lanes but the first one wait until [`Turns::follow`] is called.
    pub(super) fn take(&self, is_ready: &dyn Fn(&Problem) -> bool) -> Option<(usize, &'p Problem)> {
        let Turns { problems, left, followed, .. } = self.turns;
        let mut left = left.lock();
        followed.wait_while(&mut left, |left| self.number > 0 && left.is_led);
        let numbers = left.of(self.number)?;
        let number = numbers.remove(first_ready(numbers, problems, is_ready))?;
        Some((number, &problems[number]))
    }

    /// The one that it takes next, if nobody else does.
    pub(super) fn coming(&self, is_ready: &dyn Fn(&Problem) -> bool) -> Option<&'p Problem> {
        let Turns { problems, left, .. } = self.turns;
        let mut left = left.lock();
        let numbers = left.of(self.number)?;
        let number = *numbers.get(first_ready(numbers, problems, is_ready))?;
        Some(&problems[number])
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

impl Left {
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
        std::iter::from_fn(|| lane.take(&|_| true)).map(|(number, _)| number).collect()
    }

    #[test]
    fn one_lane_takes_them_as_they_were_given() {
        let problems = problems();
        let turns = Turns::new(&problems, 1);
        let lane = turns.lane(0);
        assert_eq!((taken(&lane), lane.leader()), (vec![0, 1, 2, 3, 4], None));
        assert_eq!(Turns::new(&problems[..1], 1).lane(0).leader(), None);
    }

    #[test]
    fn the_middle_one_goes_ahead_and_the_smallest_and_the_largest_are_taken_first() {
        let problems = problems();
        let turns = Turns::new(&problems, 2);
        let (first, second) = (turns.lane(0), turns.lane(1));
        assert_eq!((first.leader(), second.leader()), (Some(&problems[0]), None));
        turns.follow();
        assert_eq!(first.coming(&|_| true), Some(&problems[2]));
        assert_eq!(second.take(&|_| true).unwrap().0, 1);
        assert_eq!(taken(&first), [2, 4, 0, 3]);
        assert_eq!((second.take(&|_| true), second.coming(&|_| true)), (None, None));
        let turns = Turns::new(&problems, 4);
        turns.give_up();
        assert!(turns.lane(0).take(&|_| true).is_none());
    }

    #[test]
    fn what_is_ready_comes_first() {
        let problems = problems();
        let turns = Turns::new(&problems, 1);
        let lane = turns.lane(0);
        let is_ready = |problem: &Problem| problem.shape.m == 4096;
        assert_eq!(lane.coming(&is_ready), Some(&problems[2]));
        assert_eq!(lane.take(&is_ready).unwrap().0, 2);
        assert_eq!(lane.take(&is_ready).unwrap().0, 0);
    }

    #[test]
    fn the_others_wait_until_there_is_something_to_follow() {
        let problems = problems();
        let turns = Turns::new(&problems, 2);
        let first = turns.lane(0);
        thread::scope(|scope| {
            let [second, third] = [1, 3].map(|lane| {
                scope.spawn({
                    let turns = &turns;
                    move || turns.lane(lane).take(&|_| true).map(|(number, _)| number)
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
}
