//! Random search after the defaults: the baseline of all strategies.

use fastrand::Rng;

use super::history::History;
use super::strategy::{Pick, SearchSpace, Strategy};
use crate::model::Micros;

/// See the module.
#[derive(Debug)]
pub(super) struct Random {
    history: History,
    starts: Vec<Pick>,
    rng: Rng,
}

impl Random {
    pub(super) fn new(search_spaces: Vec<SearchSpace>, seed: u64) -> Self {
        let history = History::new(search_spaces);
        Self { starts: history.starts(), history, rng: Rng::with_seed(seed) }
    }

    fn next(&mut self) -> Option<Pick> {
        let start = self.history.next_of(&self.starts);
        let families: Vec<usize> = (0..self.history.search_spaces.len()).collect();
        let pick = start.or_else(|| self.history.any(&families, &mut self.rng))?;
        self.history.propose(pick)
    }
}

impl Strategy for Random {
    fn propose(&mut self, most: usize) -> Vec<Pick> {
        (0..most).map_while(|_| self.next()).collect()
    }

    fn observe(&mut self, pick: Pick, time: Option<Micros>) {
        self.history.observe(pick, time);
    }
}
