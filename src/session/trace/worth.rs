//! How much the problems of a trace matter, and which of them are worth a search.

use super::{Trace, TracedProduct};
use crate::model::Problem;

/// Part of the traced time that the problems to tune cover. The others are not worth a search: all of them together
/// take less than the rest.
pub const COVERED: f64 = 0.95;

impl Trace {
    /// The problems that are worth a search: those that take most of the time, until they cover [`COVERED`] of it.
    /// Without times, operations count in their place.
    pub fn worthwhile(&self) -> Vec<Problem> {
        let weights = weights(&self.products);
        let all: f64 = weights.iter().sum();
        let mut covered = 0.0;
        let taken = self.products.iter().zip(&weights).take_while(|(_, weight)| {
            let is_worth_it = covered < COVERED * all;
            covered += **weight;
            is_worth_it
        });
        taken.map(|(product, _)| product.problem).collect()
    }

    /// All problems with their time in microseconds. Without times, operations count in their place.
    pub fn weighted_problems(&self) -> Vec<(Problem, f64)> {
        let weights = weights(&self.products);
        self.products.iter().map(|product| product.problem).zip(weights).collect()
    }
}

/// Time of each product, or operations at the mean rate of the timed ones.
pub(super) fn weights(products: &[TracedProduct]) -> Vec<f64> {
    let timed = products.iter().filter_map(|one| Some((one.total()?, one.operations())));
    let (time, operations) =
        timed.fold((0.0, 0.0), |(time, all), (own, count)| (time + own, all + count));
    let per_operation = if operations > 0.0 { time / operations } else { 1.0 };
    let weight =
        |one: &TracedProduct| one.total().unwrap_or_else(|| one.operations() * per_operation);
    products.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{product, trace};
    use super::*;

    #[test]
    fn problems_are_tuned_until_the_rest_takes_little_time() {
        let extents = |trace: &Trace| -> Vec<u64> {
            trace.worthwhile().iter().map(|problem| problem.shape.m).collect()
        };
        let times = [(100, 80.0), (200, 16.0), (300, 3.0), (400, 1.0)];
        let of = |scale: f64| times.map(|(extent, time)| product(extent, 1, Some(time * scale)));
        assert_eq!(extents(&trace(of(1.0).to_vec())), [100, 200]);
        // Of 100 small problems alike, 95 are tuned.
        let alike = (1..=100).map(|extent| product(extent, 2, Some(4.0)));
        assert_eq!(extents(&trace(alike.collect())).len(), 95);
        // Without times, operations count.
        assert_eq!(extents(&trace(vec![product(8, 1, None), product(800, 1, None)])), [800]);
        assert!(trace(Vec::new()).worthwhile().is_empty());
        let weighted = trace(of(1.0).to_vec()).weighted_problems();
        assert_eq!(weighted.iter().map(|(_, weight)| *weight).sum::<f64>(), 100.0);
        assert_eq!((weighted[1].0.shape.m, weighted[1].1), (200, 16.0));
    }
}
