//! What a traced program gains by tuned kernels.

use std::collections::BTreeMap;

use super::{Trace, TracedProduct, weights};
use crate::model::{Micros, Problem};

/// Times of the kernels of a problem on the GPU of a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelTimes {
    /// Time of the tuned kernel.
    pub tuned: Micros,
    /// Time of the fastest library that was measured beside it.
    pub library: Option<Micros>,
}

/// What a program gains by tuned kernels.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceGain {
    /// All products, those that take most of the time first.
    pub rows: Vec<ProductGain>,
    /// Time of all timed products of the trace.
    pub total: Micros,
}

/// What a program gains by one kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProductGain {
    /// The product.
    pub product: TracedProduct,
    /// Part of the time of all products, from 0 to 1. A product without a time counts by its operations.
    pub share: f64,
    /// The kernels of its problem; none where it was not tuned.
    pub kernels: Option<KernelTimes>,
}

impl Trace {
    /// What the program gains where kernels of these times replace PyTorch's.
    pub fn gain(&self, tuned: &BTreeMap<Problem, KernelTimes>) -> TraceGain {
        let weights = weights(&self.products);
        let all: f64 = weights.iter().sum();
        let rows = self.products.iter().zip(weights).map(|(product, weight)| ProductGain {
            product: *product,
            share: if all > 0.0 { weight / all } else { 0.0 },
            kernels: tuned.get(&product.problem).copied(),
        });
        TraceGain { rows: rows.collect(), total: self.total() }
    }
}

impl ProductGain {
    /// PyTorch's time over that of the kernel; none without both.
    pub fn speedup(&self) -> Option<f64> {
        Some(self.product.time?.0 / self.kernels?.tuned.0)
    }

    /// Time that all calls gain: below 0 where the kernel is slower. None without both times.
    pub fn saved(&self) -> Option<Micros> {
        let (torch, tuned) = (self.product.time?, self.kernels?.tuned);
        Some(Micros((torch.0 - tuned.0) * self.product.count as f64))
    }
}

impl TraceGain {
    /// Time that the program gains where it uses each kernel that is faster than PyTorch.
    pub fn saved(&self) -> Micros {
        let saved = self.rows.iter().filter_map(ProductGain::saved);
        Micros(saved.map(|saved| saved.0.max(0.0)).sum())
    }

    /// The same as a part of the time of all products, from 0 to 1.
    pub fn part(&self) -> f64 {
        if self.total.0 > 0.0 { self.saved().0 / self.total.0 } else { 0.0 }
    }

    /// Number of products with a tuned kernel.
    pub fn tuned(&self) -> usize {
        self.rows.iter().filter(|row| row.kernels.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{product, trace};
    use super::*;

    #[test]
    fn the_gain_is_that_of_kernels_that_are_faster() {
        let trace = trace(vec![
            product(512, 10, Some(20.0)),
            product(64, 100, Some(5.0)),
            product(32, 1, Some(100.0)),
        ]);
        let kernels = [(512, 15.0), (64, 6.0)].map(|(extent, time)| {
            let times = KernelTimes { tuned: Micros(time), library: None };
            (product(extent, 1, None).problem, times)
        });
        let gain = trace.gain(&BTreeMap::from(kernels));
        let rows: Vec<_> = gain.rows.iter().map(|row| (row.share, row.saved())).collect();
        let expected = [(0.625, Some(Micros(-100.0))), (0.25, Some(Micros(50.0))), (0.125, None)];
        assert_eq!(rows, expected);
        assert_eq!(
            (gain.saved().0, gain.total.0, gain.part(), gain.tuned()),
            (50.0, 800.0, 0.0625, 2)
        );
    }
}
