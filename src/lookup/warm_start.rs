//! Warm starts of searches: winners of similar problems.

use super::answer::Question;
use super::index::{Lookup, MOST_LOOKED_AT};
use super::kernels::{Demand, RecordedKernel};
use crate::model::{Hint, Problem, WarmStart};

/// Most winners of other problems. Each costs an evaluation, about 40 ms on a GPU.
const MOST: usize = 8;

/// Legal winners that the analytic model ranks.
const RANKED: usize = 4 * MOST;

impl Lookup {
    /// The record of a problem and legal winners of others: those of this device with the lowest predicted times,
    /// then those of other devices.
    pub fn warm_start(&self, problem: &Problem) -> WarmStart {
        let question = Question::packed(*problem);
        let demand = Demand::from(&question);
        let mut start = WarmStart { record: self.record(problem).map(hint), others: Vec::new() };
        let group = self.group_of(problem);
        for near in [&group.own, &group.siblings] {
            let nearest = near.nearest_first(&question).take(MOST_LOOKED_AT);
            let fits = |place: &usize| self.serves(&self.known[*place], problem, &demand);
            let legal = nearest.filter(fits).take(RANKED);
            let mut ranked: Vec<(f64, usize)> =
                legal.map(|place| (self.known[place].cautious(problem), place)).collect();
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            for (_, place) in ranked {
                let hint = hint(&self.known[place]);
                let is_new = start.record.as_ref() != Some(&hint) && !start.others.contains(&hint);
                if is_new && start.others.len() < MOST {
                    start.others.push(hint);
                }
            }
        }
        start
    }
}

fn hint(known: &RecordedKernel) -> Hint {
    let record = &known.record;
    Hint { family: record.family.clone(), configuration: known.kernel.configuration.clone() }
}
