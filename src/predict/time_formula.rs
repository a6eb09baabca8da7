//! The analytic model as numbers for other programs: from one time of a kernel, its times for other problems.

use serde::{Deserialize, Serialize};

use super::analytic::CostModel;
use super::device_limits::memory_bandwidth;
use crate::model::{Configuration, Device, Dtype, GemmType, Micros, Problem, Shape};
use crate::space::{Family, Tiling, Work};

/// Distrust of a prediction for each factor of two between the costs: between two records with about the same
/// predicted time, the more similar one wins.
pub const CAUTION: f64 = 0.05;

/// Share of a time for starting its launches: half of it at most.
pub fn launch_time(cost: &CostModel, time: Micros) -> Micros {
    Micros(cost.launching().0.min(time.0 / 2.0))
}

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
    /// Fits a measured time of a configuration for `problem`; `occupancy` is the share of an SM's threads that are
    /// resident, where it is known.
    pub fn of(
        (family, configuration): (&Family, &Configuration),
        problem: &Problem,
        (device, occupancy): (&Device, Option<f64>),
        time: Micros,
    ) -> Self {
        // Shared tiles are no whole blocks: the time is then proportional to the work.
        let work = Work::of(family, configuration, problem, device);
        let tiling = work.tiling.filter(|tiling| tiling.wave == 1);
        let cost = CostModel::new(Work { tiling, ..work }, occupancy, device);
        let parts = cost.parts();
        let tiling = tiling.unwrap_or(Tiling {
            tile_m: 1,
            tile_n: 1,
            slice_k: u64::MAX,
            blocks_per_tile: 1,
            wave: 1,
            threads: 1,
        });
        let launch_us = launch_time(&cost, time).0;
        let unscaled = Self {
            tile_m: tiling.tile_m,
            tile_n: tiling.tile_n,
            slice_k: if tiling.slice_k == u64::MAX { 0 } else { tiling.slice_k },
            blocks_of_a_tile: tiling.blocks_per_tile,
            blocks_per_sm: parts.resident,
            busy_clocks: parts.busy,
            alone_clocks: parts.alone,
            block_clocks: parts.block,
            wave_clocks: parts.wave,
            a_clocks: parts.of_a,
            b_clocks: parts.of_b,
            launch_us,
            us_per_clock: 1.0,
            own_clocks: 1.0,
        };
        let unscaled = unscaled.streaming(family, problem, device);
        let own_clocks = unscaled.clocks(&problem.shape, problem.batch, device.sms);
        Self { us_per_clock: (time.0 - launch_us) / own_clocks, own_clocks, ..unscaled }
    }

    /// Adds the clocks in which memory brings the operands of a kernel that streams one of them.
    fn streaming(self, family: &Family, problem: &Problem, device: &Device) -> Self {
        let rate = memory_bandwidth(device).filter(|_| family.streams());
        let clocks_of_byte =
            rate.map_or(0.0, |rate| f64::from(device.max_sm_clock_mhz) * 1e6 / rate);
        let clocks = |dtype: Dtype| dtype.bytes() as f64 * clocks_of_byte;
        let GemmType { a, b, .. } = problem.types;
        Self { a_clocks: self.a_clocks + clocks(a), b_clocks: self.b_clocks + clocks(b), ..self }
    }

    /// Whether it gives a time for every problem: no tile and no cost of its own is zero.
    pub fn is_sound(&self) -> bool {
        let counts = [self.tile_m, self.tile_n, self.blocks_of_a_tile, self.blocks_per_sm];
        counts.into_iter().all(|count| (1..=u64::from(u32::MAX)).contains(&count))
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
        let share = blocks.div_ceil(u64::from(sms.max(1)));
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
}

/// A predicted time that a formula is fitted to.
#[derive(Debug, Clone, Copy)]
pub struct FormulaSample {
    /// The shape.
    pub shape: Shape,
    /// Number of products.
    pub batch: u64,
    /// Time of the kernel in microseconds.
    pub us: f64,
    /// Lowest time of any kernel for it in microseconds.
    pub best_us: f64,
}

impl FormulaSample {
    /// Weight of the error of a cautious time: high where the kernel is nearly the best, and, since a low time makes
    /// programs choose it, lower elsewhere only for times that are too high.
    fn error(&self, us: f64) -> f64 {
        let behind = (self.us / self.best_us).ln().max(0.0);
        let near = (-behind / NEAR).exp();
        let error = (us / self.us).ln();
        if error < 0.0 { near.max(FAR_WEIGHT) * -error } else { near * error }
    }
}

/// How far behind the best, as a logarithm, a kernel still counts.
const NEAR: f64 = 0.15;

/// Weight of a time that is too low for a kernel far behind the best.
const FAR_WEIGHT: f64 = 0.25;

/// Weight of a coefficient's distance from the analytic model, and the least number of samples.
const PRIOR: f64 = 0.02;
const FEWEST_SAMPLES: usize = 3;

impl TimeFormula {
    /// Fits the costs of launches, blocks, waves and packing to predicted times, by a coordinate search that begins
    /// with the analytic model's.
    pub fn fitted(&self, samples: &[FormulaSample], sms: u32) -> Self {
        if samples.len() < FEWEST_SAMPLES {
            return *self;
        }
        let loss = |factors: &[f64; 6]| {
            let formula = self.scaled(factors);
            let errors = samples
                .iter()
                .map(|sample| sample.error(formula.cautious_us(&sample.shape, sample.batch, sms)));
            let prior: f64 = factors.iter().map(|factor| factor.ln().abs()).sum();
            errors.sum::<f64>() / samples.len() as f64 + PRIOR * prior
        };
        let mut factors = [1.0; 6];
        let mut least = loss(&factors);
        let mut step = 1.6_f64;
        while step > 1.01 {
            let before = least;
            for place in 0..factors.len() {
                for factor in [step, 1.0 / step] {
                    let mut other = factors;
                    other[place] *= factor;
                    let own = loss(&other);
                    if own < least {
                        (factors, least) = (other, own);
                    }
                }
            }
            if least >= before {
                step = step.sqrt();
            }
        }
        self.scaled(&factors)
    }

    /// The formula with all its times multiplied by a factor.
    #[must_use]
    pub fn slowed_by(&self, factor: f64) -> Self {
        self.scaled(&[factor, 1.0, 1.0, 1.0, 1.0, factor])
    }

    /// Multiplies its costs: all clocks, those of busy SMs, of blocks, of waves, of packing, and the launches.
    fn scaled(&self, [all, busy, block, wave, pack, launch]: &[f64; 6]) -> Self {
        Self {
            busy_clocks: self.busy_clocks * busy,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;
    use crate::space::Families;

    #[test]
    fn the_measured_time_is_predicted_and_others_are_proportional_to_the_cost() {
        let families = Families::built_in().unwrap();
        let device = Device::h200();
        for family in families.iter() {
            let problem = Problem::new("4096x4096x1024".parse().unwrap(), Dtype::F32);
            let Some(default) = family.default_for(&problem, &device).unwrap() else { continue };
            let found =
                TimeFormula::of((family, &default), &problem, (&device, Some(0.25)), Micros(800.0));
            let cost = |shape: &str| {
                let problem = Problem::new(shape.parse().unwrap(), Dtype::F32);
                let work = Work::of(family, &default, &problem, &device);
                CostModel::new(work, Some(0.25), &device).clocks(&problem)
            };
            let us = |shape: &str| found.us(&shape.parse().unwrap(), 1, device.sms);
            assert!((us("4096x4096x1024") - 800.0).abs() < 1e-6, "{}", family.name);
            for shape in ["100x5000x333", "4096x4096x2048", "1x1x1", "8000x16x16"] {
                let work = Work::of(family, &default, &problem, &device);
                let start = 2.0 + 1.4 * f64::from(work.more_launches);
                let expected = start + (800.0 - start) * cost(shape) / cost("4096x4096x1024");
                assert!((us(shape) / expected - 1.0).abs() < 1e-6, "{} {shape}", family.name);
                let own: Shape = shape.parse().unwrap();
                assert!(found.cautious_us(&own, 1, device.sms) >= us(shape));
            }
        }
    }

    #[test]
    fn a_formula_is_fitted_to_times_and_one_of_few_samples_is_left() {
        let families = Families::built_in().unwrap();
        let device = Device::h200();
        let family = families.iter().find(|family| family.name == "pipelined").unwrap();
        let problem = Problem::new("4096x4096x1024".parse().unwrap(), Dtype::F32);
        let default = family.default_for(&problem, &device).unwrap().unwrap();
        let kernel = (family, &default);
        let formula = TimeFormula::of(kernel, &problem, (&device, None), Micros(800.0));
        let wanted = formula.scaled(&[1.0, 1.3, 1.0, 1.0, 1.0, 4.0]);
        let shapes = ["64x64x64", "100x5000x333", "4096x4096x2048", "8000x16x16", "256x256x4000"];
        let samples: Vec<FormulaSample> = shapes
            .iter()
            .map(|shape| {
                let shape = shape.parse().unwrap();
                let us = wanted.cautious_us(&shape, 1, device.sms);
                FormulaSample { shape, batch: 1, us, best_us: us }
            })
            .collect();
        let error = |formula: &TimeFormula| {
            let errors = samples.iter().map(|sample| {
                (formula.cautious_us(&sample.shape, 1, device.sms) / sample.us).ln().abs()
            });
            errors.fold(0.0, f64::max)
        };
        let fitted = formula.fitted(&samples, device.sms);
        assert!(error(&formula) > 0.5 && error(&fitted) < 0.05, "{}", error(&fitted));
        assert_eq!(formula.fitted(&samples[..2], device.sms), formula);
    }
}
