//! The decision of a final by its samples: the winner, and the margins of all others.
//!
//! **Winner.** The candidates within [`FinalRules::tie_percent`] of the fastest are considered. By
//! [`TieRule::Insignificant`], those are left out that any candidate is significantly faster than: the
//! interval of their margin, which is the one that is reported, lies above zero. The smallest key wins among
//! the rest, independent of times.

use super::{
    Confidence, Entrant, Final, FinalEnd, FinalResult, FinalRules, FinalStanding, TieRule,
};
use crate::measure::margin::{Margin, logs_of_ratios};
use crate::model::Micros;

impl<K: Ord> Final<K> {
    /// A final that has ended, with the samples of each entrant, which are positive. Entrants with fewer
    /// samples than others left it. Missing samples count as a final of the shortest length.
    pub fn ended(entrants: Vec<Entrant<K>>, samples: Vec<Vec<Micros>>, rules: FinalRules) -> Self {
        let mut ended = Self::new(entrants, rules);
        ended.samples = samples;
        ended.samples.resize(ended.entrants.len(), Vec::new());
        ended.rounds = ended.samples.iter().map(Vec::len).max().unwrap_or(0);
        ended.active.retain(|entrant| ended.samples[*entrant].len() == ended.rounds);
        ended.ended =
            Some(if ended.active.len() > 1 { FinalEnd::Tied } else { FinalEnd::Separated });
        ended
    }

    /// Evaluates the rounds so far; `None` without candidates.
    pub fn result(&self) -> Option<FinalResult> {
        let tie_set = self.tie_set()?;
        let winner = *tie_set.first()?;
        let mut order: Vec<FinalStanding> =
            (0..self.entrants.len()).map(|entrant| self.place(entrant, winner)).collect();
        order.sort_by(|a, b| {
            let later = |place: &FinalStanding| place.entrant != winner;
            later(a).cmp(&later(b)).then(a.margin.percent.total_cmp(&b.margin.percent))
        });
        let rival =
            |place: &&FinalStanding| place.entrant != winner && self.key(place.entrant).is_some();
        let confidence = Confidence {
            runner_up: order.iter().find(rival).cloned(),
            rounds: self.samples[winner].len(),
            disturbed_rounds: self.disturbances.len(),
            tie_set,
            ended: self.ended.unwrap_or(FinalEnd::BrokenOff),
        };
        Some(FinalResult { order, confidence })
    }

    /// The candidates that keys decide among, the smallest key first.
    fn tie_set(&self) -> Option<Vec<usize>> {
        let leader = self.leader()?;
        let mut tied: Vec<usize> =
            self.active.iter().copied().filter(|entrant| self.ties(*entrant, leader)).collect();
        if self.rules.ties == TieRule::Insignificant {
            tied.retain(|entrant| self.faster_than(*entrant) == 0);
        }
        if tied.is_empty() {
            // The fastest by the median of all is slower than another in pairs.
            let candidates =
                (0..self.entrants.len()).filter(|entrant| self.key(*entrant).is_some());
            let slower =
                |entrant: usize| Margin::estimate(&self.samples[entrant], &self.samples[leader]);
            let least = candidates.min_by(|a, b| {
                let beaten = self.faster_than(*a).cmp(&self.faster_than(*b));
                beaten.then(slower(*a).total_cmp(&slower(*b)))
            });
            tied.extend(least);
        }
        tied.sort_by_key(|entrant| self.key(*entrant));
        Some(tied)
    }

    /// How many candidates are significantly faster than an entrant.
    fn faster_than(&self, entrant: usize) -> usize {
        let others = (0..self.entrants.len())
            .filter(|other| *other != entrant && self.key(*other).is_some());
        others.filter(|other| self.reported_margin(entrant, *other).low > 0.0).count()
    }

    /// Whether a key may select `entrant`, which has not left, in place of the leader: a candidate
    /// whose estimated slowdown is below a tie.
    fn ties(&self, entrant: usize, leader: usize) -> bool {
        entrant == leader
            || self.key(entrant).is_some()
                && Margin::estimate(&self.samples[entrant], &self.samples[leader])
                    < self.rules.tie_percent
    }

    fn place(&self, entrant: usize, winner: usize) -> FinalStanding {
        FinalStanding {
            entrant,
            margin: if entrant == winner {
                Margin { percent: 0.0, low: 0.0, high: 0.0 }
            } else {
                self.reported_margin(entrant, winner)
            },
            rounds: self.samples[entrant].len(),
            differs: !self.active.contains(&entrant),
            log_ratios: logs_of_ratios(&self.samples[entrant], &self.samples[winner]),
        }
    }

    /// The margin of two entrants, with an interval that holds whenever the final ends: each analysis
    /// has its share of the error.
    fn reported_margin(&self, slower: usize, faster: usize) -> Margin {
        let confidence = 1.0 - self.rules.error / self.analyses().count() as f64;
        self.margin(slower, faster, confidence)
    }
}
