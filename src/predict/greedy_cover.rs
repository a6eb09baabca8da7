//! Greedy cover: a set that grows by the candidate that lowers the losses of all cases most. Gains only fall while the set
//! grows, so that an earlier gain is an upper bound, and few are computed again (Minoux 1978).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The cases that a candidate serves, each with its loss there.
pub(crate) type ServedCases = Vec<(usize, f64)>;

/// A set of candidates that grows.
#[derive(Debug)]
pub(crate) struct GreedyCover<'c> {
    candidates: &'c [ServedCases],
    /// What the loss of each case counts.
    weights: &'c [f64],
    /// The least loss of each case by what is in the set.
    losses: Vec<f64>,
    queue: BinaryHeap<Bounded>,
}

/// A candidate with the gain that it had when the set was smaller.
#[derive(Debug)]
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

impl<'c> GreedyCover<'c> {
    /// An empty set. `losses` and `weights` have a value for each case: its finite loss before the set has anything, and
    /// what that counts.
    pub(crate) fn new(losses: Vec<f64>, weights: &'c [f64], candidates: &'c [ServedCases]) -> Self {
        let mut cover = Self { candidates, weights, losses, queue: BinaryHeap::new() };
        cover.queue = (0..candidates.len()).map(|candidate| cover.bounded(candidate)).collect();
        cover
    }

    /// The least loss of each case.
    pub(crate) fn losses(&self) -> &[f64] {
        &self.losses
    }

    /// Adds the candidate that lowers the weighted sum of losses most, if by more than 0 and by at least `least`.
    pub(crate) fn grow(&mut self, least: f64) -> Option<usize> {
        while let Some(Bounded { candidate, .. }) = self.queue.pop() {
            let now = self.bounded(candidate);
            if now.gain <= 0.0 || now.gain < least {
                continue;
            }
            if self.queue.peek().is_some_and(|next| *next > now) {
                self.queue.push(now);
                continue;
            }
            self.add(candidate);
            return Some(candidate);
        }
        None
    }

    /// Adds a candidate.
    pub(crate) fn add(&mut self, candidate: usize) {
        for (case, loss) in &self.candidates[candidate] {
            self.losses[*case] = self.losses[*case].min(*loss);
        }
    }

    fn bounded(&self, candidate: usize) -> Bounded {
        let served = self.candidates[candidate].iter();
        let gains =
            served.map(|(case, loss)| self.weights[*case] * (self.losses[*case] - loss).max(0.0));
        Bounded { gain: gains.sum(), candidate }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same without a queue.
    fn plain(mut losses: Vec<f64>, weights: &[f64], candidates: &[ServedCases]) -> Vec<usize> {
        let mut chosen = Vec::new();
        loop {
            let gain = |candidate: &usize| -> f64 {
                let served = candidates[*candidate].iter();
                served.map(|(case, loss)| weights[*case] * (losses[*case] - loss).max(0.0)).sum()
            };
            let best = (0..candidates.len()).rev().max_by(|a, b| gain(a).total_cmp(&gain(b)));
            let Some(best) = best.filter(|best| gain(best) > 0.0) else { return chosen };
            candidates[best].iter().for_each(|(case, loss)| {
                losses[*case] = losses[*case].min(*loss);
            });
            chosen.push(best);
        }
    }

    proptest! {
        /// Losses and weights are multiples of 1/4, so that sums are exact and gains are often equal.
        #[test]
        fn a_cover_takes_the_first_candidate_with_the_largest_gain(
            losses in prop::collection::vec(0..12_u32, 1..9),
            weights in prop::collection::vec(0..4_u32, 9),
            candidates in prop::collection::vec(prop::collection::vec((0..9_usize, 0..12_u32), 0..9), 0..9),
        ) {
            let quarters = |value: u32| f64::from(value) / 4.0;
            let losses: Vec<f64> = losses.into_iter().map(quarters).collect();
            let weights: Vec<f64> = weights.into_iter().map(quarters).collect();
            let served = |cases: Vec<(usize, u32)>| -> ServedCases {
                let mut cases: ServedCases =
                    cases.into_iter().map(|(case, loss)| (case % losses.len(), quarters(loss))).collect();
                cases.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
                cases.dedup_by_key(|(case, _)| *case);
                cases
            };
            let candidates: Vec<ServedCases> = candidates.into_iter().map(served).collect();
            let mut cover = GreedyCover::new(losses.clone(), &weights, &candidates);
            let grown: Vec<usize> = std::iter::from_fn(|| cover.grow(0.0)).collect();
            prop_assert_eq!(grown, plain(losses, &weights, &candidates));
        }
    }
}
