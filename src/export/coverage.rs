//! Kernels that are added to a set one after the other, each the one that lowers the loss most.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Loss of a question that no kernel serves, and of one whose kernels are slower than that: a time four times as long
/// as the best.
const UNSERVED: f64 = 2.0 * std::f64::consts::LN_2;

/// How much the loss of a question counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Priority {
    /// Its factor in the sum of losses.
    pub weight: f64,
    /// The loss above which the question gets its best kernel, however little that gains.
    pub most: f64,
}

/// A kernel that may be added: the questions that it serves, each with the logarithm of its time over the best.
pub(super) type ServedQuestions = Vec<(usize, f64)>;

/// A candidate with the gain that it had when the set was smaller: an upper bound, since gains only fall.
struct Bounded {
    gain: f64,
    candidate: usize,
}

impl Ord for Bounded {
    fn cmp(&self, other: &Self) -> Ordering {
        // Of equal gains, the first candidate.
        self.gain.total_cmp(&other.gain).then(other.candidate.cmp(&self.candidate))
    }
}

impl PartialOrd for Bounded {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Bounded {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Bounded {}

/// The candidates to add, in order. `losses` are those of the questions by the kernels that are there already. Each of the
/// first candidates lowers the weighted sum of losses by `least` at least; the others serve questions whose loss is still
/// too high.
pub(super) fn added(
    mut losses: Vec<f64>,
    priorities: &[Priority],
    candidates: &[ServedQuestions],
    least: f64,
) -> Vec<usize> {
    losses.iter_mut().for_each(|loss| *loss = loss.min(UNSERVED));
    let gain = |losses: &[f64], candidate: usize| -> f64 {
        let served = candidates[candidate].iter();
        served.map(|(at, loss)| priorities[*at].weight * (losses[*at] - loss).max(0.0)).sum()
    };
    let add = |losses: &mut [f64], candidate: usize| {
        candidates[candidate].iter().for_each(|(at, loss)| losses[*at] = losses[*at].min(*loss));
    };
    let bounded = |losses: &[f64], candidate| Bounded { gain: gain(losses, candidate), candidate };
    let mut queue: BinaryHeap<Bounded> =
        (0..candidates.len()).map(|candidate| bounded(&losses, candidate)).collect();
    let mut chosen = Vec::new();
    while let Some(Bounded { candidate, .. }) = queue.pop() {
        let now = bounded(&losses, candidate);
        if now.gain < least {
            continue;
        }
        if queue.peek().is_some_and(|next| *next > now) {
            queue.push(now);
            continue;
        }
        add(&mut losses, candidate);
        chosen.push(candidate);
    }
    let mut best: Vec<Option<(f64, usize)>> = vec![None; priorities.len()];
    for (candidate, served) in candidates.iter().enumerate() {
        for (at, loss) in served {
            if best[*at].is_none_or(|(known, _)| *loss < known) {
                best[*at] = Some((*loss, candidate));
            }
        }
    }
    for (at, priority) in priorities.iter().enumerate() {
        let Some((loss, candidate)) = best[at] else { continue };
        if losses[at] > priority.most && loss < losses[at] {
            add(&mut losses, candidate);
            chosen.push(candidate);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_that_lowers_the_loss_most_comes_first() {
        // The third serves all but is the best for none; then the first two gain 0.2 and 0.1.
        let candidates =
            vec![vec![(0, 0.0)], vec![(1, 0.0), (2, 0.3)], vec![(0, 0.2), (1, 0.1), (2, 0.3)]];
        let any = Priority { weight: 1.0, most: f64::INFINITY };
        let unserved = || vec![f64::INFINITY; 3];
        assert_eq!(added(unserved(), &[any; 3], &candidates, 0.01), [2, 0, 1]);
        assert_eq!(added(unserved(), &[any; 3], &candidates, 0.15), [2, 0]);
        let heavy = Priority { weight: 9.0, ..any };
        assert_eq!(added(unserved(), &[any, heavy, any], &candidates, 0.01), [2, 1, 0]);
        assert_eq!(added(vec![0.0, 0.1, 0.3], &[any; 3], &candidates, 0.05), [1]);
    }

    #[test]
    fn a_question_above_its_limit_gets_its_best_kernel() {
        let candidates = vec![vec![(0, 0.0), (1, 0.2)], vec![(1, 0.1)], vec![(1, 0.0)]];
        let any = Priority { weight: 1.0, most: f64::INFINITY };
        let within = |most| Priority { weight: 1.0, most };
        let unserved = || vec![f64::INFINITY; 2];
        assert_eq!(added(unserved(), &[any; 2], &candidates, 0.5), [0]);
        assert_eq!(added(unserved(), &[any, within(0.25)], &candidates, 0.5), [0]);
        assert_eq!(added(unserved(), &[any, within(0.15)], &candidates, 0.5), [0, 2]);
    }
}
