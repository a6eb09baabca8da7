//! The predicted time of a kernel as a formula of the extents, by which programs choose between kernels.

use serde::{Deserialize, Serialize};

use crate::model::Shape;

/// Distrust of a prediction for each factor of two between the costs: between two records with about the same
/// predicted time, the more similar one wins.
pub const CAUTION: f64 = 0.05;

/// Coefficients of a kernel's time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeFormula {
    /// Rows of C that a block computes.
    pub tile_m: u64,
    /// Columns of C.
    pub tile_n: u64,
    /// Steps of K that a block takes at most; 0 where it takes all.
    pub slice_k: u64,
    /// Blocks of a product of one tile.
    pub blocks_of_a_tile: u64,
    /// Blocks that an SM holds at once.
    pub blocks_per_sm: u64,
    /// SMs that hold no block, because clusters do not fill them.
    #[serde(default)]
    pub unused_sms: u64,
    /// Clocks of an SM for a block and a step of K, when it has enough of them.
    pub busy_clocks: f64,
    /// The same when it has one.
    pub alone_clocks: f64,
    /// Clocks of an SM for each block besides.
    #[serde(default)]
    pub block_clocks: f64,
    /// Clocks for each time that an SM is filled with blocks.
    #[serde(default)]
    pub wave_clocks: f64,
    /// Clocks for each element of A that is packed, or that memory has to bring.
    #[serde(default)]
    pub a_clocks: f64,
    /// The same of B.
    #[serde(default)]
    pub b_clocks: f64,
    /// Time of starting its launches.
    pub launch_us: f64,
    /// Measured for one problem.
    pub us_per_clock: f64,
    /// Clocks of that problem.
    pub own_clocks: f64,
}

impl TimeFormula {
    /// Whether it gives a time for every problem: no tile and no cost of its own is zero.
    pub fn is_sound(&self) -> bool {
        let counts = [self.tile_m, self.tile_n, self.blocks_of_a_tile, self.blocks_per_sm];
        counts.into_iter().all(|count| (1..=u64::from(u32::MAX)).contains(&count))
            && self.unused_sms <= u64::from(u32::MAX)
            && self.own_clocks > 0.0
    }

    /// Clocks of the busiest SM.
    pub fn clocks(&self, shape: &Shape, batch: u64, sms: u32) -> f64 {
        let slices = if self.slice_k == 0 { 1 } else { shape.k.div_ceil(self.slice_k) };
        let [rows, columns] = [shape.m.div_ceil(self.tile_m), shape.n.div_ceil(self.tile_n)];
        let counts = [rows, columns, slices, self.blocks_of_a_tile, batch];
        // At most what the other forms count to: those have 64 bits with a sign.
        let blocks = counts.into_iter().fold(1, u64::saturating_mul).min(i64::MAX as u64);
        let steps = if self.slice_k == 0 { shape.k } else { shape.k.min(self.slice_k) } as f64;
        let sms = u64::from(sms).saturating_sub(self.unused_sms);
        let share = blocks.div_ceil(sms.max(1));
        let waves = share.div_ceil(self.blocks_per_sm) as f64;
        let busy = share as f64 * steps * self.busy_clocks;
        let alone = waves * steps * self.alone_clocks;
        let of_a = (shape.m * shape.k) as f64 * self.a_clocks;
        let of_b = (shape.k * shape.n) as f64 * self.b_clocks;
        busy.max(alone)
            + share as f64 * self.block_clocks
            + waves * self.wave_clocks
            + (of_a + of_b) * batch as f64
    }

    /// Predicted time of a problem in microseconds.
    pub fn us(&self, shape: &Shape, batch: u64, sms: u32) -> f64 {
        self.launch_us + self.clocks(shape, batch, sms) * self.us_per_clock
    }

    /// The same for choosing between kernels: longer, the more the cost differs from that of the measured problem.
    pub fn cautious_us(&self, shape: &Shape, batch: u64, sms: u32) -> f64 {
        let clocks = self.clocks(shape, batch, sms);
        let mut ratio = clocks / self.own_clocks;
        if ratio < 1.0 {
            ratio = 1.0 / ratio;
        }
        let mut time = self.launch_us + clocks * self.us_per_clock;
        // A power of the ratio without a mathematics library, as the C form computes it.
        while (2.0..f64::INFINITY).contains(&ratio) {
            ratio /= 2.0;
            time *= 1.0 + CAUTION;
        }
        time * (1.0 + CAUTION * (ratio - 1.0))
    }

    /// The formula with all its times multiplied by a factor.
    #[must_use]
    pub fn slowed_by(&self, factor: f64) -> Self {
        self.scaled(&[factor, 1.0, 1.0, 1.0, 1.0, 1.0, factor])
    }

    /// The formula with its costs multiplied: all clocks, those of busy SMs, of SMs with a block each, of blocks, of
    /// waves, of packing, and the launches.
    #[must_use]
    pub fn scaled(&self, [all, busy, alone, block, wave, pack, launch]: &[f64; 7]) -> Self {
        Self {
            busy_clocks: self.busy_clocks * busy,
            alone_clocks: self.alone_clocks * alone,
            block_clocks: self.block_clocks * block,
            wave_clocks: self.wave_clocks * wave,
            a_clocks: self.a_clocks * pack,
            b_clocks: self.b_clocks * pack,
            launch_us: self.launch_us * launch,
            us_per_clock: self.us_per_clock * all,
            ..*self
        }
    }
}
