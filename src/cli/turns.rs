//! Whose turn it is, where several lanes tune problems at the same time.
//!
//! What a small problem takes is mostly compiling, for its kernels run in microseconds; what a large one
//! takes is mostly measuring. So half of the lanes take the small ones and half the large: of two lanes on
//! one GPU one keeps the cores busy and the other the device. In the order in which they were given, from
//! small to large, 20 layers of a model kept 16 cores busy for 32 s, with half of an H200's time, and then
//! the H200 for 20 s, with idle cores.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::model::Problem;

/// Problems that nobody has taken yet.
pub(super) struct Turns<'p> {
    problems: &'p [Problem],
    /// The numbers of the small ones and of the large ones; all are among the former for one lane.
    left: Mutex<[VecDeque<usize>; 2]>,
}

impl<'p> Turns<'p> {
    /// In the order given for one lane; for several in that of their sizes, for what a small one tells
    /// helps with the large. Of several GPUs each has the large ones first, so that none is left alone
    /// with one.
    pub(super) fn new(problems: &'p [Problem], lanes: usize, gpus: usize) -> Self {
        let mut order: Vec<usize> = (0..problems.len()).collect();
        let mut large = Vec::new();
        if lanes > 1 {
            order.sort_by(|a, b| {
                problems[*a].operations().total_cmp(&problems[*b].operations()).then(a.cmp(b))
            });
            large = order.split_off(order.len() / 2);
        }
        if gpus > 1 {
            large.reverse();
        }
        Self { problems, left: Mutex::new([order.into(), large.into()]) }
    }

    /// The number of a lane's next problem, and the problem, which is nobody else's then.
    pub(super) fn take(&self, lane: usize) -> Option<(usize, &'p Problem)> {
        let number = self.own(lane, |own| own.pop_front())?;
        Some((number, &self.problems[number]))
    }

    /// The one that it takes next, if nobody else does.
    pub(super) fn coming(&self, lane: usize) -> Option<&'p Problem> {
        self.own(lane, |own| own.front().copied()).map(|number| &self.problems[number])
    }

    /// Leaves nothing to take.
    pub(super) fn give_up(&self) {
        self.left
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter_mut()
            .for_each(VecDeque::clear);
    }

    /// Asks those that are a lane's own, or else the others.
    fn own<T>(&self, lane: usize, ask: impl Fn(&mut VecDeque<usize>) -> Option<T>) -> Option<T> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let [small, large] = &mut *left;
        let (own, others) = if lane.is_multiple_of(2) { (large, small) } else { (small, large) };
        ask(own).or_else(|| ask(others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    fn problems() -> Vec<Problem> {
        let shapes = ["512x512x512", "64x64x64", "4096x4096x4096", "128x128x128", "1024x1024x1024"];
        shapes.iter().map(|shape| Problem::new(shape.parse().unwrap(), Dtype::F32)).collect()
    }

    fn taken(turns: &Turns<'_>, lane: usize) -> Vec<usize> {
        std::iter::from_fn(|| turns.take(lane)).map(|(number, _)| number).collect()
    }

    #[test]
    fn one_lane_takes_them_as_they_were_given() {
        assert_eq!(taken(&Turns::new(&problems(), 1, 1), 0), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn one_of_two_takes_the_large_ones_and_then_what_is_left() {
        let problems = problems();
        let turns = Turns::new(&problems, 2, 1);
        assert_eq!(turns.take(1).unwrap().0, 1);
        assert_eq!(turns.coming(0), Some(&problems[0]));
        assert_eq!(taken(&turns, 0), [0, 4, 2, 3]);
        assert_eq!((turns.take(1), turns.coming(1)), (None, None));
        // The largest first where others could be left with it.
        let turns = Turns::new(&problems, 4, 2);
        assert_eq!(turns.take(2).unwrap().0, 2);
        turns.give_up();
        assert!(turns.take(0).is_none());
    }
}
