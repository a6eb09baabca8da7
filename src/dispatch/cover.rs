//! Kernel cover: the smallest set of kernels that is nearly as good as all of them.

use thiserror::Error;

use super::table::TimeTable;

/// Largest number of sets that are all evaluated. Above it, the set grows greedily by one kernel
/// and is improved by exchanges.
const MOST_SETS: u64 = 20_000;

/// Limits for a set of kernels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoverGoal {
    /// Largest number of kernels.
    pub max_kernels: usize,
    /// Allowed loss against the best kernels of the table, in the geometric mean over shapes: 0.05
    /// for 5 %.
    pub loss: f64,
}

/// A set of kernels.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelCover {
    /// Indices in the table, ascending.
    pub kernels: Vec<usize>,
    /// Mean over shapes of the logarithm of the set's time divided by the best time.
    pub loss: f64,
    /// Largest of these logarithms.
    pub worst: f64,
}

/// Reasons why no set meets the limits.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CoverError {
    /// The best set loses too much.
    #[error(
        "the best {kernels} of {known} kernels are {percent} % slower than all in the geometric mean, and {wanted} % is allowed: raise `--max-kernels` or `--loss`"
    )]
    Loss {
        /// Largest number of kernels.
        kernels: usize,
        /// Number of kernels in the table.
        known: usize,
        /// Loss of the best set, in per cent.
        percent: f64,
        /// Allowed loss, in per cent.
        wanted: f64,
    },
    /// No set of this size has a kernel for every shape.
    #[error("no set of {kernels} kernels serves all shapes: raise `--max-kernels`")]
    Unserved {
        /// Largest number of kernels.
        kernels: usize,
    },
}

/// Finds the smallest set within the allowed loss; of sets of one size, the one with the lowest
/// loss.
///
/// # Errors
/// [`CoverError`].
pub fn cover(table: &TimeTable, wanted: CoverGoal) -> Result<KernelCover, CoverError> {
    let most = wanted.max_kernels.clamp(1, table.kernels.len());
    let limit = wanted.loss.ln_1p();
    let mut grown: Vec<usize> = Vec::new();
    let mut best = None;
    for size in 1..=most {
        grown = grow(table, grown);
        let set = if sets(table.kernels.len(), size) <= MOST_SETS {
            of_all(table, size)
        } else {
            exchanged(table, grown.clone())
        };
        let found = judged(table, set);
        if found.loss <= limit {
            return Ok(found);
        }
        best = Some(found);
    }
    let loss = best.map_or(f64::INFINITY, |best| best.loss);
    if loss.is_infinite() {
        return Err(CoverError::Unserved { kernels: most });
    }
    Err(CoverError::Loss {
        kernels: most,
        known: table.kernels.len(),
        percent: percent(loss),
        wanted: 100.0 * wanted.loss,
    })
}

fn judged(table: &TimeTable, mut kernels: Vec<usize>) -> KernelCover {
    kernels.sort_unstable();
    let losses: Vec<f64> = (0..table.shapes.len())
        .map(|shape| {
            let of_set = kernels.iter().map(|kernel| table.log_loss(shape, *kernel));
            of_set.fold(f64::INFINITY, f64::min)
        })
        .collect();
    let worst = losses.iter().copied().fold(0.0, f64::max);
    KernelCover { loss: losses.iter().sum::<f64>() / losses.len() as f64, worst, kernels }
}

/// Cost of a set: the number of shapes without a kernel, then the loss of the others.
fn cost(table: &TimeTable, kernels: &[usize]) -> (usize, f64) {
    let mut unserved = 0;
    let mut loss = 0.0;
    for shape in 0..table.shapes.len() {
        let own = kernels.iter().map(|kernel| table.log_loss(shape, *kernel));
        match own.fold(f64::INFINITY, f64::min) {
            f64::INFINITY => unserved += 1,
            own => loss += own,
        }
    }
    (unserved, loss)
}

/// Number of sets of `size` out of `of` items.
fn sets(of: usize, size: usize) -> u64 {
    (0..size as u64).fold(1_u64, |sets, taken| sets.saturating_mul(of as u64 - taken) / (taken + 1))
}

/// Finds the best of all sets of a size.
fn of_all(table: &TimeTable, size: usize) -> Vec<usize> {
    let count = table.kernels.len();
    let mut set: Vec<usize> = (0..size).collect();
    let mut best = (cost(table, &set), set.clone());
    // Advances to the next set in lexicographic order.
    while let Some(place) = (0..size).rev().find(|place| set[*place] < count - size + place) {
        set[place] += 1;
        for after in place + 1..size {
            set[after] = set[after - 1] + 1;
        }
        let own = cost(table, &set);
        if own < best.0 {
            best = (own, set.clone());
        }
    }
    best.1
}

/// Adds the kernel that lowers the cost most.
fn grow(table: &TimeTable, set: Vec<usize>) -> Vec<usize> {
    let others = (0..table.kernels.len()).filter(|kernel| !set.contains(kernel));
    let grown = others.map(|kernel| [&set[..], &[kernel]].concat());
    let best = grown.map(|set| (cost(table, &set), set)).min_by(|a, b| order(a.0, b.0));
    best.map_or_else(|| set.clone(), |(_, set)| set)
}

/// Exchanges one kernel at a time while the cost falls.
fn exchanged(table: &TimeTable, mut set: Vec<usize>) -> Vec<usize> {
    loop {
        let own = cost(table, &set);
        let exchanges = (0..set.len()).flat_map(|place| {
            let others = (0..table.kernels.len()).filter(|kernel| !set.contains(kernel));
            let set = &set;
            others.map(move |kernel| {
                let mut other = set.clone();
                other[place] = kernel;
                other
            })
        });
        let best = exchanges.map(|set| (cost(table, &set), set)).min_by(|a, b| order(a.0, b.0));
        match best {
            Some((cost, better)) if cost < own => set = better,
            _ => return set,
        }
    }
}

fn order(a: (usize, f64), b: (usize, f64)) -> std::cmp::Ordering {
    a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
}

/// Converts a logarithm of a ratio to per cent above 1, rounded to a hundredth.
pub(super) fn percent(log: f64) -> f64 {
    (1e4 * log.exp_m1()).round() / 100.0
}
