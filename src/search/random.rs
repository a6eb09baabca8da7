//! Defaults, then any configuration: what every other strategy has to beat.

use fastrand::Rng;

use super::history::History;
use super::{Pick, SearchSpace, Strategy};
use crate::model::Micros;

/// See the module.
#[derive(Debug)]
pub(super) struct Random {
    ledger: History,
    starts: Vec<Pick>,
    rng: Rng,
}

impl Random {
    pub(super) fn new(search_spaces: Vec<SearchSpace>, seed: u64) -> Self {
        let ledger = History::new(search_spaces);
        Self { starts: ledger.starts(), ledger, rng: Rng::with_seed(seed) }
    }

    fn next(&mut self) -> Option<Pick> {
        let start = self.ledger.next_of(&self.starts);
        let families: Vec<usize> = (0..self.ledger.search_spaces.len()).collect();
        let pick = start.or_else(|| self.ledger.any(&families, &mut self.rng))?;
        self.ledger.ask(pick)
    }
}

impl Strategy for Random {
    fn ask(&mut self, most: usize) -> Vec<Pick> {
        (0..most).map_while(|_| self.next()).collect()
    }

    fn tell(&mut self, pick: Pick, time: Option<Micros>) {
        self.ledger.tell(pick, time);
    }
}
