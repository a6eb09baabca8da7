//! The analytic model as numbers for other programs: from one time of a kernel, its times for other problems.

use gemm_tune_runtime::time_formula::TimeFormula;

use super::analytic::{CostModel, Parts};
use super::device_limits::memory_bandwidth;
use super::streaming::StreamingCost;
use crate::model::{Configuration, Device, Dtype, GemmType, Micros, Problem, Shape};
use crate::space::{Family, Tiling};

/// Share of a time for starting its launches: half of it at most.
pub fn launch_time(cost: &CostModel, time: Micros) -> Micros {
    constant_part(cost.launching().0, time)
}

/// The part of a time that does not depend on the extents: so many microseconds, half of it at most.
fn constant_part(us: f64, time: Micros) -> Micros {
    Micros(us.min(time.0 / 2.0))
}

/// Fits a measured time of a configuration for `problem`; `occupancy` is the share of an SM's threads that are
/// resident, where it is known.
pub fn time_formula(
    (family, configuration): (&Family, &Configuration),
    problem: &Problem,
    (device, occupancy): (&Device, Option<f64>),
    time: Micros,
) -> TimeFormula {
    let cost = CostModel::of((family, configuration), problem, (device, occupancy));
    let Counted { tiling, parts, once_clocks } = Counted::of(&cost, problem);
    let once_us = once_clocks / f64::from(device.max_sm_clock_mhz.max(1));
    let launch_us = constant_part(cost.launching().0 + once_us, time).0;
    let unscaled = TimeFormula {
        tile_m: tiling.tile_m,
        tile_n: tiling.tile_n,
        slice_k: if tiling.slice_k == u64::MAX { 0 } else { tiling.slice_k },
        blocks_of_a_tile: tiling.blocks_per_tile,
        blocks_per_sm: parts.resident,
        unused_sms: cost.unused_sms(),
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
    let unscaled = streaming(unscaled, family, problem, device);
    let own_clocks = unscaled.clocks(&problem.shape, problem.batch, device.sms);
    TimeFormula { us_per_clock: (time.0 - launch_us) / own_clocks, own_clocks, ..unscaled }
}

/// The blocks that a formula counts, and what they cost.
struct Counted {
    tiling: Tiling,
    parts: Parts,
    /// Clocks for the problem, however many blocks it has.
    once_clocks: f64,
}

impl Counted {
    fn of(cost: &CostModel, problem: &Problem) -> Self {
        if let Some(streaming) = cost.streaming(problem) {
            return Self::streamed(streaming);
        }
        let parts = cost.parts();
        match cost.tiling() {
            Some(tiling) if tiling.wave == 1 => Self { tiling, parts, once_clocks: 0.0 },
            Some(tiling) => Self::shared(tiling, parts, problem),
            None => {
                // Proportional to the work.
                let tiling = Tiling {
                    tile_m: 1,
                    tile_n: 1,
                    slice_k: u64::MAX,
                    blocks_per_tile: 1,
                    wave: 1,
                    threads: 1,
                };
                Self { tiling, parts, once_clocks: 0.0 }
            }
        }
    }

    /// Tiles that all blocks share evenly: steps of K are dealt out, and what a tile costs besides is spread over them.
    fn shared(tiling: Tiling, parts: Parts, problem: &Problem) -> Self {
        let of_tile = problem.shape.k.div_ceil(SHARED_STEP).max(1) as f64;
        Self {
            tiling: Tiling { slice_k: SHARED_STEP, wave: 1, ..tiling },
            parts: Parts { block: parts.block / of_tile, wave: 0.0, ..parts },
            once_clocks: parts.wave,
        }
    }

    /// Blocks that stream an operand. Where they split K, into a number of parts that the extents decide, spans of K are
    /// dealt out.
    fn streamed((cost, parts): (StreamingCost, Parts)) -> Self {
        let block = cost.block;
        let whole = Tiling {
            tile_m: block.tile[0],
            tile_n: block.tile[1],
            slice_k: u64::MAX,
            blocks_per_tile: 1,
            wave: 1,
            threads: block.needs.threads,
        };
        if block.parts == 1 {
            return Self { tiling: whole, parts, once_clocks: 0.0 };
        }
        Self {
            tiling: Tiling { slice_k: block.span, ..whole },
            parts: Parts { wave: 0.0, ..parts },
            once_clocks: parts.wave,
        }
    }
}

/// Steps of K that are dealt out where blocks share tiles.
const SHARED_STEP: u64 = 64;

/// Adds the clocks in which memory brings the operands of a kernel that streams one of them.
fn streaming(
    formula: TimeFormula,
    family: &Family,
    problem: &Problem,
    device: &Device,
) -> TimeFormula {
    let rate = memory_bandwidth(device).filter(|_| family.streams());
    let clocks_of_byte = rate.map_or(0.0, |rate| f64::from(device.max_sm_clock_mhz) * 1e6 / rate);
    let clocks = |dtype: Dtype| dtype.bytes() as f64 * clocks_of_byte;
    let GemmType { a, b, .. } = problem.types;
    TimeFormula {
        a_clocks: formula.a_clocks + clocks(a),
        b_clocks: formula.b_clocks + clocks(b),
        ..formula
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
        // A time that is too low by a large factor makes programs choose a very slow kernel.
        let low = |error: f64| near.max(FAR_WEIGHT) * (error + error * error);
        if error < 0.0 { low(-error) } else { near * error }
    }
}

/// How far behind the best, as a logarithm, a kernel still counts.
const NEAR: f64 = 0.15;

/// Weight of a time that is too low for a kernel far behind the best.
const FAR_WEIGHT: f64 = 0.6;

/// Weight of a coefficient's distance from the analytic model, and the least number of samples.
const PRIOR: f64 = 0.02;
const FEWEST_SAMPLES: usize = 3;

/// Fits the costs of launches, blocks, waves and packing to predicted times, by a coordinate search that begins
/// with the analytic model's.
pub fn fitted_to(formula: &TimeFormula, samples: &[FormulaSample], sms: u32) -> TimeFormula {
    if samples.len() < FEWEST_SAMPLES {
        return *formula;
    }
    let loss = |factors: &[f64; 7]| {
        let formula = formula.scaled(factors);
        let errors = samples
            .iter()
            .map(|sample| sample.error(formula.cautious_us(&sample.shape, sample.batch, sms)));
        let prior: f64 = factors.iter().map(|factor| factor.ln().abs()).sum();
        errors.sum::<f64>() / samples.len() as f64 + PRIOR * prior
    };
    let mut factors = [1.0; 7];
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
    formula.scaled(&factors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Layout, Value};
    use crate::space::{Families, Work};

    #[test]
    fn the_measured_time_is_predicted_and_others_are_proportional_to_the_cost() {
        let families = Families::built_in().unwrap();
        let device = Device::h200();
        for family in families.iter() {
            let problem = Problem::new("4096x4096x1024".parse().unwrap(), Dtype::F32);
            let Some(default) = family.default_for(&problem, &device).unwrap() else { continue };
            let found =
                time_formula((family, &default), &problem, (&device, Some(0.25)), Micros(800.0));
            let cost = |shape: &str| {
                let problem = Problem::new(shape.parse().unwrap(), Dtype::F32);
                let work = Work::of(family, &default, &problem, &device);
                CostModel::new(work, Some(0.25), &device).clocks(&problem)
            };
            let us = |shape: &str| found.us(&shape.parse().unwrap(), 1, device.sms);
            assert!((us("4096x4096x1024") - 800.0).abs() < 1e-6, "{}", family.name);
            for shape in ["100x5000x333", "4096x4096x2048", "1x1x1", "8000x16x16"] {
                let kernel = (family, &default);
                let start = CostModel::of(kernel, &problem, (&device, Some(0.25))).launching().0;
                let expected = start + (800.0 - start) * cost(shape) / cost("4096x4096x1024");
                assert!((us(shape) / expected - 1.0).abs() < 1e-6, "{} {shape}", family.name);
                let own: Shape = shape.parse().unwrap();
                assert!(found.cautious_us(&own, 1, device.sms) >= us(shape));
            }
        }
    }

    /// Kernels whose blocks share K, by an amount that depends on the extents, or stream an operand.
    #[test]
    fn formulas_of_uneven_kernels_follow_the_analytic_model() {
        let families = Families::built_in().unwrap();
        let device = Device::h200();
        let int = |value: i64| Value::Int(value);
        let shared = [("SCHEDULER", Value::Text("stream_k".to_owned()))];
        let clusters = [("SPLIT_K", int(3)), ("REDUCTION", Value::Text("cluster".to_owned()))];
        let blocks = |per_sm| [("BLOCKS_PER_SM", int(per_sm)), ("LINES_PER_THREAD", int(2))];
        for (name, set, own) in [
            ("pipelined", &shared[..], "2048x2304x4096"),
            ("pipelined", &clusters[..], "1000x1002x1001"),
            ("skinny", &blocks(0), "20000x8x4096"),
            ("skinny", &blocks(4), "512x8x16384"),
        ] {
            let family = families.get(name).unwrap();
            let problem = |shape: &str| Problem {
                layout: Layout::Nt,
                ..Problem::new(shape.parse().unwrap(), Dtype::F32)
            };
            let mut configuration = family.default_for(&problem(own), &device).unwrap().unwrap();
            let set = set.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            configuration.0.extend(set);
            let in_clusters = configuration.to_string().contains("REDUCTION=cluster");
            let own = problem(own);
            let cost = CostModel::of((family, &configuration), &own, (&device, Some(0.25)));
            let clock_mhz = device.max_sm_clock_mhz;
            let time = cost.time(&own, clock_mhz);
            let formula = time_formula((family, &configuration), &own, (&device, Some(0.25)), time);
            assert_eq!(formula.unused_sms > 0, in_clusters, "{name}");
            for (factor_m, factor_k) in [(1, 1), (2, 1), (1, 2), (4, 1), (3, 3)] {
                let Shape { m, n, k } = own.shape;
                let shape = Shape { m: m * factor_m, n, k: k * factor_k };
                let modelled = cost.time(&Problem { shape, ..own }, clock_mhz).0;
                let us = formula.us(&shape, 1, device.sms);
                assert!((us / modelled).ln().abs() < 0.2, "{name} {shape} {us} {modelled}");
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
        let formula = time_formula(kernel, &problem, (&device, None), Micros(800.0));
        let wanted = formula.scaled(&[1.0, 1.3, 1.0, 1.0, 1.0, 1.0, 4.0]);
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
        let fitted = fitted_to(&formula, &samples, device.sms);
        assert!(error(&formula) > 0.5 && error(&fitted) < 0.05, "{}", error(&fitted));
        assert_eq!(fitted_to(&formula, &samples[..2], device.sms), formula);
    }
}
