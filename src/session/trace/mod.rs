//! Traces: the matrix products of a program, how often it computes them and how long it takes. A session tunes those
//! that are worth it.
//!
//! `file` reads and writes them, `worth` says which problems to tune, and `gain` what a program gains by tuned kernels.

mod file;
mod gain;
mod worth;

use std::collections::BTreeMap;

use crate::model::{Micros, Problem, Shape};
use file::MAX_COUNT;
pub use file::TraceError;
pub use gain::{KernelTimes, ProductGain, TraceGain};
pub use worth::COVERED;
use worth::weights;

/// A trace of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The program's name.
    pub program: Vec<String>,
    /// Version of PyTorch.
    pub torch: String,
    /// The GPU's name, or `cpu`.
    pub device: String,
    /// Time that the program ran for.
    pub seconds: f64,
    /// Its products, each problem once, those that take most of the time first.
    pub products: Vec<TracedProduct>,
    /// Products of other types, with the number of calls.
    pub others: BTreeMap<String, u64>,
}

/// A product of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TracedProduct {
    /// Its problem.
    pub problem: Problem,
    /// Number of calls.
    pub count: u64,
    /// Median time of a call; none where no call was timed.
    pub time: Option<Micros>,
    /// Number of timed calls.
    pub samples: u64,
}

impl Trace {
    /// The trace of several processes of a program; `None` without any.
    pub fn of_processes(traces: Vec<Self>) -> Option<Self> {
        let mut traces = traces.into_iter();
        let mut whole = traces.next()?;
        for other in traces {
            // A process without products on the GPU does not say which one the others used.
            if whole.device == "cpu" {
                whole.device = other.device;
            }
            whole.seconds = whole.seconds.max(other.seconds);
            whole.products.extend(other.products);
            for (name, count) in other.others {
                let own = whole.others.entry(name).or_default();
                *own = own.saturating_add(count).min(MAX_COUNT);
            }
        }
        whole.products = merged(whole.products);
        Some(whole)
    }

    /// Time of all products.
    pub fn total(&self) -> Micros {
        Micros(self.products.iter().filter_map(TracedProduct::total).sum())
    }
}

impl TracedProduct {
    /// Time of all calls.
    fn total(&self) -> Option<f64> {
        self.time.map(|time| time.0 * self.count as f64)
    }

    /// Operations of all calls.
    fn operations(&self) -> f64 {
        let Shape { m, n, k } = self.problem.shape;
        2.0 * m as f64 * n as f64 * k as f64 * self.problem.batch as f64 * self.count as f64
    }
}

/// Products with each problem once, those that take most of the time first. The time of a problem is the mean of its
/// medians, by calls.
fn merged(products: Vec<TracedProduct>) -> Vec<TracedProduct> {
    let mut by_problem: BTreeMap<Problem, TracedProduct> = BTreeMap::new();
    for product in products {
        match by_problem.get_mut(&product.problem) {
            None => drop(by_problem.insert(product.problem, product)),
            Some(own) => {
                let both = own.count.saturating_add(product.count);
                let mean = |(own_time, time): (Micros, Micros)| {
                    let sum = own_time.0 * own.count as f64 + time.0 * product.count as f64;
                    Micros(sum / both as f64)
                };
                own.time = own.time.zip(product.time).map(mean).or(own.time).or(product.time);
                own.count = both.min(MAX_COUNT);
                own.samples = own.samples.saturating_add(product.samples);
            }
        }
    }
    let products: Vec<TracedProduct> = by_problem.into_values().collect();
    let weights = weights(&products);
    let mut sorted: Vec<_> = weights.into_iter().zip(products).collect();
    sorted.sort_by(|(weight, _), (other, _)| other.total_cmp(weight));
    sorted.into_iter().map(|(_, product)| product).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    pub(super) fn product(extent: u64, count: u64, time: Option<f64>) -> TracedProduct {
        let problem = Problem::new(Shape { m: extent, n: extent, k: extent }, Dtype::Bf16);
        TracedProduct { problem, count, time: time.map(Micros), samples: 3 }
    }

    pub(super) fn trace(products: Vec<TracedProduct>) -> Trace {
        Trace {
            program: vec!["serve.py".to_owned()],
            torch: "2.9".to_owned(),
            device: "NVIDIA H200".to_owned(),
            seconds: 2.5,
            products: merged(products),
            others: BTreeMap::from([("mm of torch.float64".to_owned(), 3)]),
        }
    }

    #[test]
    fn processes_are_joined_and_problems_with_most_time_come_first() {
        let parts = vec![
            trace(vec![product(512, 3, Some(10.0)), product(64, 5, Some(1.0))]),
            trace(vec![product(512, 1, Some(30.0)), product(1024, 10, Some(90.0))]),
        ];
        let whole = Trace::of_processes(parts).unwrap();
        let found: Vec<_> = whole
            .products
            .iter()
            .map(|one| (one.problem.shape.m, one.count, one.time.unwrap().0))
            .collect();
        assert_eq!(found, [(1024, 10, 90.0), (512, 4, 15.0), (64, 5, 1.0)]);
        assert_eq!(whole.others["mm of torch.float64"], 6);
        assert!(Trace::of_processes(Vec::new()).is_none());
    }
}
