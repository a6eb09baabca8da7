//! Kernels that are added to a set one after the other, each the one that lowers the loss most.

use std::iter;

use crate::predict::{GreedyCover, ServedCases};

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

/// The candidates to add, in order. `losses` are those of the questions by the kernels that are there already. Each of the
/// first candidates lowers the weighted sum of losses by `least` at least; the others serve questions whose loss is still
/// too high.
pub(super) fn added(
    losses: Vec<f64>,
    priorities: &[Priority],
    candidates: &[ServedCases],
    least: f64,
) -> Vec<usize> {
    let losses = losses.into_iter().map(|loss| loss.min(UNSERVED)).collect();
    let weights: Vec<f64> = priorities.iter().map(|priority| priority.weight).collect();
    let mut cover = GreedyCover::new(losses, &weights, candidates);
    let mut chosen: Vec<usize> = iter::from_fn(|| cover.grow(least)).collect();
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
        let own = cover.losses()[at];
        if own > priority.most && loss < own {
            cover.add(candidate);
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
