//! Local search: descents along changes of one parameter to the first faster neighbour, in random order, restarted
//! near the best or anywhere. On recorded spaces the first improvement beats the best one by 0.7 to 3.5 %.

use fastrand::Rng;

use super::history::History;
use super::strategy::{Pick, SearchSpace, Strategy};
use crate::model::Micros;

/// Random configurations before the first descent, the defaults among them.
const FIRST: usize = 10;

/// Parameters that change in a restart near the best.
const RESTART_CHANGES: usize = 3;

/// Share of restarts from anywhere.
const ANYWHERE: f64 = 0.2;

/// Attempts to restart at a new configuration.
const ATTEMPTS: usize = 30;

/// See the module.
#[derive(Debug)]
pub(super) struct Local {
    history: History,
    starts: Vec<Pick>,
    rng: Rng,
    /// The best of all.
    best: Option<(Pick, f64)>,
    /// Current point of the descent; `None` before its first outcome.
    point: Option<(Pick, f64)>,
    /// Neighbours of that point that were not proposed.
    around: Vec<Pick>,
}

impl Local {
    pub(super) fn new(search_spaces: Vec<SearchSpace>, seed: u64) -> Self {
        let (history, rng) = (History::new(search_spaces), Rng::with_seed(seed));
        Self { starts: history.starts(), history, rng, best: None, point: None, around: Vec::new() }
    }

    fn next(&mut self) -> Option<Pick> {
        if let Some(start) = self.history.next_of(&self.starts) {
            return self.history.propose(start);
        }
        if self.history.proposed() < FIRST {
            return self.anywhere();
        }
        while let Some(pick) = self.around.pop() {
            if let Some(pick) = self.history.propose(pick) {
                return Some(pick);
            }
        }
        // No neighbour was faster: restart.
        self.point = None;
        if self.rng.f64() < ANYWHERE {
            return self.anywhere();
        }
        self.near_best().or_else(|| self.anywhere())
    }

    fn anywhere(&mut self) -> Option<Pick> {
        let families: Vec<usize> = (0..self.history.search_spaces.len()).collect();
        let pick = self.history.any(&families, &mut self.rng)?;
        self.history.propose(pick)
    }

    /// A restart near the best.
    fn near_best(&mut self) -> Option<Pick> {
        let (best, _) = self.best?;
        for _ in 0..ATTEMPTS {
            let mut pick = best;
            for _ in 0..RESTART_CHANGES {
                pick = *self.rng.choice(&self.history.neighbours(pick))?;
            }
            if let Some(pick) = self.history.propose(pick) {
                return Some(pick);
            }
        }
        None
    }
}

impl Strategy for Local {
    fn propose(&mut self, most: usize) -> Vec<Pick> {
        (0..most).map_while(|_| self.next()).collect()
    }

    fn observe(&mut self, pick: Pick, time: Option<Micros>) {
        self.history.observe(pick, time);
        let Some(Micros(time)) = time else { return };
        let faster = |than: Option<(Pick, f64)>| than.is_none_or(|(_, than)| time < than);
        if faster(self.best) {
            self.best = Some((pick, time));
        }
        if faster(self.point) {
            self.point = Some((pick, time));
            self.around = self.history.neighbours(pick);
            self.rng.shuffle(&mut self.around);
        }
    }
}
