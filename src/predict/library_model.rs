//! Forecast of the time of cuBLASLt for a problem: the least of many tiles and splits of K, corrected by the known times of
//! similar problems. Only additions, multiplications and
//! divisions, so that exported programs compute the same without a mathematics library.

use serde::{Deserialize, Serialize};

use crate::model::{Device, GemmType, Layout, Micros, Problem, Shape};

/// Tiles of the library's kernels: rows and columns of D. These are the tiles of cuBLASLt's SIMT kernels
/// (`cublasLtMatmulTile_t`).
pub const LIBRARY_TILES: [(u64, u64); 11] = [
    (32, 32),
    (32, 64),
    (64, 32),
    (64, 64),
    (32, 128),
    (128, 32),
    (64, 128),
    (128, 64),
    (128, 128),
    (256, 128),
    (128, 256),
];

/// Parts that K is split into, where each has at least [`LEAST_PART`] steps.
pub const LIBRARY_SPLITS: [u64; 13] = [1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 24, 32];

/// See [`LIBRARY_SPLITS`].
pub const LEAST_PART: u64 = 32;

/// Blocks of a tile that an SM holds: what registers and shared memory allow, at most eight.
const MOST_BLOCKS: u64 = 8;

/// Weight of the formula among the known times near a problem, each of which weighs 1 at no distance.
pub const FORMULA_WEIGHT: f64 = 0.05;

/// Weights of other batches and other layouts in the square of a distance. Extents count by their ratio less 1.
pub const BATCH_WEIGHT: f64 = 4.0;
/// See [`BATCH_WEIGHT`].
pub const LAYOUT_WEIGHT: f64 = 0.2;

/// A kernel that was not measured is preferred to the library where it is predicted to be faster by more than this share of
/// its own time. Of 300 drawn problems, the preferred one takes over 1.03 times the library's time in none; with 0 in seven
/// (docs/decisions/2026-11-26-library-time.md).
pub const LIBRARY_MARGIN: f64 = 0.08;

/// Which algorithm of the library a time is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LibraryChoice {
    /// The fastest of those that it proposes, found by timing them.
    Best,
    /// The one that it chooses itself, as cuBLAS does.
    Own,
}

/// Forecasts for problems of one GEMM type, without an epilogue, on the device of the learned model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LibraryModel {
    /// GEMM type.
    #[serde(flatten)]
    pub types: GemmType,
    /// Algorithm that the times are of.
    pub algorithm: LibraryChoice,
    /// Error in per cent that nine in ten forecasts are within, for problems outside the training data.
    pub error_percent: f64,
    /// The formula.
    pub costs: LibraryCosts,
    /// Known times.
    pub known: Vec<KnownProduct>,
}

/// Costs of the formula in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryCosts {
    /// Of a launch.
    pub launch_us: f64,
    /// Factor on a step of a block that is alone on its SM.
    pub alone: f64,
    /// Of each time that an SM is filled with blocks.
    pub wave_us: f64,
    /// Of each byte of an operand.
    pub byte_us: f64,
    /// Of the launch that adds the parts of a split.
    pub split_us: f64,
    /// Of each element of a part.
    pub part_us: f64,
    /// Of a block and a step of K, for each of [`LIBRARY_TILES`].
    pub step_us: [f64; LIBRARY_TILES.len()],
}

/// A product with its measured time: M, N, K, batch, layout, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct KnownProduct(u64, u64, u64, u64, Layout, f64);

impl KnownProduct {
    pub(super) fn new(problem: &Problem, time: Micros) -> Self {
        let Shape { m, n, k } = problem.shape;
        Self(m, n, k, problem.batch, problem.layout, time.0)
    }

    /// Its problem, of a GEMM type.
    pub fn problem(&self, types: GemmType) -> Problem {
        let Self(m, n, k, batch, layout, _) = *self;
        let problem = Problem::new(Shape { m, n, k }, types.a);
        Problem { types, batch, layout, ..problem }
    }

    /// Its time.
    pub fn time(&self) -> Micros {
        Micros(self.5)
    }

    /// Its weight for another problem: 1 for the same one.
    fn weight(&self, problem: &Problem) -> f64 {
        let Shape { m, n, k } = problem.shape;
        let distance = |own: u64, other: u64| {
            let (own, other) = (own.max(1) as f64, other.max(1) as f64);
            let more = own.max(other) / own.min(other) - 1.0;
            more * more
        };
        let is_other = if self.4 == problem.layout { 0.0 } else { LAYOUT_WEIGHT };
        let square = distance(self.0, m)
            + distance(self.1, n)
            + distance(self.2, k)
            + BATCH_WEIGHT * distance(self.3, problem.batch)
            + is_other;
        1.0 / ((1.0 + square) * (1.0 + square))
    }
}

/// Blocks of a tile that an SM holds.
pub const fn resident_blocks(tile: (u64, u64)) -> u64 {
    // 64 K registers, of which accumulators take about half, and some for each block.
    let needed = tile.0 * tile.1 * 22 + 40960;
    let blocks = (655_360 + needed / 2) / needed;
    if blocks < 1 {
        1
    } else if blocks > MOST_BLOCKS {
        MOST_BLOCKS
    } else {
        blocks
    }
}

impl LibraryCosts {
    /// Time of the fastest tile and split for a product on a device with so many SMs.
    pub fn us(&self, problem: &Problem, sms: u32) -> f64 {
        let (Shape { m, n, k }, types, batch) = (problem.shape, problem.types, problem.batch);
        let count = |rows: u64, columns: u64| rows as f64 * columns as f64 * batch as f64;
        let bytes = count(m, k) * types.a.bytes() as f64
            + count(k, n) * types.b.bytes() as f64
            + count(m, n) * types.d.bytes() as f64;
        let moving = bytes * self.byte_us;
        let parts_us = count(m, n) * self.part_us;
        let mut least = f64::INFINITY;
        for (tile, step_us) in LIBRARY_TILES.into_iter().zip(self.step_us) {
            // At most what the C form counts to: it has 64 bits with a sign.
            let times = |a: u64, b: u64| a.saturating_mul(b).min(i64::MAX as u64);
            let tiles = times(times(m.div_ceil(tile.0), n.div_ceil(tile.1)), batch);
            for split in LIBRARY_SPLITS {
                if split > 1 && k < split * LEAST_PART {
                    break;
                }
                let steps = k.div_ceil(split) as f64;
                let share = times(tiles, split).div_ceil(u64::from(sms.max(1)));
                let waves = share.div_ceil(resident_blocks(tile)) as f64;
                let busy = share as f64 * steps * step_us;
                let alone = waves * steps * step_us * self.alone;
                let computing = busy.max(alone) + waves * self.wave_us;
                let adding = if split > 1 { self.split_us + split as f64 * parts_us } else { 0.0 };
                least = least.min(self.launch_us + computing.max(moving) + adding);
            }
        }
        least
    }
}

impl LibraryModel {
    /// The forecast for a problem of the model's GEMM type.
    pub fn forecast(&self, problem: &Problem, device: &Device) -> Micros {
        let (mut weights, mut errors) = (0.0, 0.0);
        for known in &self.known {
            let weight = known.weight(problem);
            weights += weight;
            errors += weight * self.ratio(known, device);
        }
        let formula = self.costs.us(problem, device.sms);
        Micros(formula * (1.0 + errors / (FORMULA_WEIGHT + weights)))
    }

    /// The time that a kernel's prediction has to be below, to be preferred: see [`LIBRARY_MARGIN`]. `call` is what a call of
    /// the library takes the host: such calls follow each other no faster.
    pub fn to_beat(&self, problem: &Problem, device: &Device, call: Micros) -> Micros {
        Micros(self.forecast(problem, device).0.max(call.0) / (1.0 + LIBRARY_MARGIN))
    }

    /// By how much of the formula's time a known time is longer.
    pub fn ratio(&self, known: &KnownProduct, device: &Device) -> f64 {
        known.time().0 / self.costs.us(&known.problem(self.types), device.sms) - 1.0
    }

    /// Whether it forecasts a problem.
    pub fn serves(&self, problem: &Problem) -> bool {
        self.types == problem.types && problem.epilogue.is_empty()
    }
}
