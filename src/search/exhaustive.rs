//! Every configuration once, defaults first and then hints.

use super::history::starts;
use super::strategy::{Pick, SearchSpace, Strategy};
use crate::model::Micros;

/// See the module.
#[derive(Debug)]
pub(super) struct Exhaustive {
    /// The defaults and hints.
    starts: Vec<Pick>,
    /// Sizes of the spaces.
    lens: Vec<usize>,
    /// Number of starts proposed, and the next of the others.
    started: usize,
    next: Pick,
}

impl Exhaustive {
    /// All configurations of `search_spaces`.
    pub(super) fn new(search_spaces: &[SearchSpace]) -> Self {
        Self {
            starts: starts(search_spaces),
            lens: search_spaces.iter().map(|search_space| search_space.space.len()).collect(),
            started: 0,
            next: Pick { family: 0, rank: 0 },
        }
    }

    fn next(&mut self) -> Option<Pick> {
        if let Some(start) = self.starts.get(self.started) {
            self.started += 1;
            return Some(*start);
        }
        while self.next.family < self.lens.len() {
            let next = self.next;
            if next.rank == self.lens[next.family] {
                self.next = Pick { family: next.family + 1, rank: 0 };
                continue;
            }
            self.next.rank += 1;
            if !self.starts.contains(&next) {
                return Some(next);
            }
        }
        None
    }
}

impl Strategy for Exhaustive {
    fn propose(&mut self, most: usize) -> Vec<Pick> {
        (0..most).map_while(|_| self.next()).collect()
    }

    fn observe(&mut self, _: Pick, _: Option<Micros>) {}
}
