//! What became of the candidates of one family, and when a family is given up.

use std::collections::BTreeMap;

use super::failed::FailedCandidate;
use crate::model::{Configuration, Micros, OutcomeKind};
use crate::space::PrunedCount;

/// The outcomes of the candidates of one family.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    /// Its name.
    pub family: String,
    /// The configuration of which named ones are changes: the first of its defaults that is legal.
    pub default: Option<Configuration>,
    /// All assignments.
    pub raw: u128,
    /// Legal ones.
    pub legal: usize,
    /// Why the others are not, one entry for each constraint.
    pub pruned: Vec<PrunedCount>,
    /// Evaluated ones, by outcome.
    pub outcomes: BTreeMap<OutcomeKind, usize>,
    /// How often the worker had to be replaced because of one.
    pub restarts: usize,
    /// Of these, how many were known: the same kernels as others, or from an earlier run.
    pub recalled: usize,
    /// Its fastest correct one.
    pub best: Option<Micros>,
    /// Its failures, in groups of the same kind at the same place; some are left out where there are many groups.
    pub failures: Vec<FailureGroup>,
}

/// Candidates that failed in the same way.
#[derive(Debug, Clone)]
pub struct FailureGroup {
    /// The first of them, whole: a compiler's log is worth more than its first line.
    pub first: FailedCandidate,
    /// How many there are.
    pub count: usize,
}

/// Groups of failures of each family that a summary keeps.
const KEPT_GROUPS: usize = 10;

/// Fewest restarts that a family is given up for.
const MOST_RESTARTS: usize = 3;

/// Most restarts for each candidate that ran to its end.
const PATIENCE: usize = 3;

impl Coverage {
    /// Evaluated candidates.
    pub fn evaluated(&self) -> usize {
        self.outcomes.values().sum()
    }

    /// Counts a failure with those of its kind.
    pub(super) fn fail(&mut self, failed: FailedCandidate) {
        let has_room = self.failures.len() < KEPT_GROUPS;
        let is_alike = |known: &&mut FailureGroup| {
            known.first.failure.key == failed.failure.key
                && known.first.outcome.kind() == failed.outcome.kind()
        };
        match self.failures.iter_mut().find(is_alike) {
            Some(known) => known.count += 1,
            None if has_room => {
                self.failures.push(FailureGroup { first: failed, count: 1 });
            }
            None => {}
        }
    }

    /// Whether the family is not tried further: it broke the device at least three times, and more than three times as
    /// often as it left it whole. A family that always breaks the device costs three restarts. A family of which a tenth
    /// does is given up once in 600 searches.
    pub fn is_given_up(&self) -> bool {
        let ran = [OutcomeKind::Correct, OutcomeKind::Correctness];
        let ran: usize = ran.iter().filter_map(|kind| self.outcomes.get(kind)).sum();
        breaks_too_often(self.restarts, ran)
    }
}

/// See [`Coverage::is_given_up`]; `ran` candidates left the device whole.
fn breaks_too_often(restarts: usize, ran: usize) -> bool {
    restarts >= MOST_RESTARTS && restarts > PATIENCE * ran
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_given_up_where_it_breaks_nearly_always() {
        for (restarts, ran, given_up) in [
            (2, 0, false),
            (3, 0, true),
            (3, 1, false),
            (4, 1, true),
            (6, 5, false),
            (10, 70, false),
            (40, 13, true),
        ] {
            assert_eq!(breaks_too_often(restarts, ran), given_up, "{restarts} of {ran}");
        }
    }
}
