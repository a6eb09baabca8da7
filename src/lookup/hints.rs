//! Where a search for a problem's best kernel may begin: what won for problems like it.

use super::answer::Question;
use super::index::{Lookup, MOST_LOOKED_AT};
use super::kernels::RecordedKernel;
use crate::model::Problem;
use crate::space::Extents;
use crate::tune::{Hint, Hints};

/// Most winners of other problems. Each costs an evaluation, about 40 ms on a GPU; the best of eight
/// neighbours is also what an answer is chosen from.
const MOST: usize = 8;

/// Legal winners that the model of cost ranks, for as many places.
const RANKED: usize = 4 * MOST;

impl Lookup {
    /// The record of a problem, and winners of others that are legal for it: those of this device,
    /// from which the model expects least first, then those of others.
    pub fn hints(&self, problem: &Problem) -> Hints {
        let question = Question::packed(*problem);
        let mut extents = Extents::new(problem, &question.storage);
        let mut hints = Hints { record: self.record(problem).map(hint), ..Hints::default() };
        let Some(group) = self.group_of(problem) else { return hints };
        for near in [&group.own, &group.siblings] {
            let nearest = near.nearest_first(&question).take(MOST_LOOKED_AT);
            let fits = |place: &usize| self.serves(&self.known[*place], problem, &mut extents);
            let legal = nearest.filter(fits).take(RANKED);
            let mut ranked: Vec<(f64, usize)> =
                legal.map(|place| (self.known[place].cautious(problem), place)).collect();
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            for (_, place) in ranked {
                let hint = hint(&self.known[place]);
                let is_new = hints.record.as_ref() != Some(&hint) && !hints.others.contains(&hint);
                if is_new && hints.others.len() < MOST {
                    hints.others.push(hint);
                }
            }
        }
        hints
    }
}

fn hint(known: &RecordedKernel) -> Hint {
    let record = &known.record;
    Hint { family: record.family.clone(), configuration: known.kernel.configuration.clone() }
}
