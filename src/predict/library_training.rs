//! Training of the forecast of cuBLASLt's time on measured times.

use super::calibration;
use super::device_limits::{memory_bandwidth, peak_rate};
use super::library_model::{
    KnownProduct, LIBRARY_TILES, LibraryChoice, LibraryCosts, LibraryModel,
};
use crate::model::{Device, Micros, Problem};

/// Fewest problems of a GEMM type.
const FEWEST_PROBLEMS: usize = 20;

/// Folds of the cross-validation that finds a model's error.
const FOLDS: usize = 4;

/// Error, as a logarithm, above which a time counts no more: kernels of other kinds, such as those of vectors.
const OUTLIER: f64 = 0.5;

/// Costs besides those of tiles.
const PLAIN_COSTS: usize = 6;

/// Moves of the search: a cost each, all tiles, and the launch against waves.
const ALL_STEPS: usize = PLAIN_COSTS + LIBRARY_TILES.len();
const LAUNCH_FOR_WAVE: usize = ALL_STEPS + 1;
const MOVES: usize = LAUNCH_FOR_WAVE + 1;

impl LibraryModel {
    /// Trains a model for each GEMM type with at least 20 problems without an epilogue, on times of one choice of the
    /// algorithm.
    pub fn learn(
        device: &Device,
        algorithm: LibraryChoice,
        times: &[(Problem, Micros)],
    ) -> Vec<Self> {
        let is_plain = |(problem, time): &&(Problem, Micros)| {
            problem.epilogue.is_empty() && time.0 > 0.0 && time.0.is_finite()
        };
        let mut plain: Vec<(Problem, Micros)> = times.iter().filter(is_plain).copied().collect();
        plain.sort_by_key(|(problem, _)| (problem.types, problem.layout, problem.shape.m));
        let alike = plain.chunk_by(|(one, _), (other, _)| one.types == other.types);
        let trained = alike.filter_map(|own| Self::train(device, own));
        trained.map(|model| Self { algorithm, ..model }).collect()
    }

    fn train(device: &Device, times: &[(Problem, Micros)]) -> Option<Self> {
        if times.len() < FEWEST_PROBLEMS {
            return None;
        }
        let start = first_guess(&times.first()?.0, device);
        let all = Self::fitted(device, times.to_vec(), start)?;
        let of_fold = |fold: usize| -> Vec<f64> {
            let part = |is_own: bool| {
                let places = times.iter().enumerate();
                let own = places.filter(|(at, _)| (at % FOLDS == fold) == is_own);
                own.map(|(_, one)| *one).collect::<Vec<_>>()
            };
            let Some(model) = Self::fitted(device, part(false), all.costs) else {
                return Vec::new();
            };
            let error = |(problem, time): &(Problem, Micros)| {
                (time.0 / model.forecast(problem, device).0).ln()
            };
            part(true).iter().map(error).collect()
        };
        let error_percent = calibration::error_percent((0..FOLDS).flat_map(of_fold));
        Some(Self { error_percent: error_percent.unwrap_or(f64::NAN), ..all })
    }

    /// Fits costs by a coordinate search.
    fn fitted(device: &Device, times: Vec<(Problem, Micros)>, start: LibraryCosts) -> Option<Self> {
        let types = times.first()?.0.types;
        let loss = |costs: &LibraryCosts| {
            let errors = times.iter().map(|(problem, time)| {
                (costs.us(problem, device.sms) / time.0).ln().abs().min(OUTLIER)
            });
            errors.sum::<f64>() / times.len() as f64
        };
        let (mut costs, mut least, mut step) = (start, loss(&start), 1.5_f64);
        while step > 1.01 {
            let before = least;
            for place in 0..MOVES {
                for factor in [step, 1.0 / step] {
                    let other = costs.scaled(place, factor);
                    let own = loss(&other);
                    if own < least {
                        (costs, least) = (other, own);
                    }
                }
            }
            if least >= before - 1e-6 {
                step = step.sqrt();
            }
        }
        let known = times.iter().map(|(problem, time)| KnownProduct::new(problem, *time)).collect();
        let algorithm = LibraryChoice::Best;
        Some(Self { types, algorithm, error_percent: f64::NAN, costs, known })
    }
}

impl LibraryCosts {
    /// Multiplies one of the costs, or those of all tiles, or the launch at the expense of waves: a search one by one
    /// stops before the optimum of these.
    fn scaled(mut self, place: usize, factor: f64) -> Self {
        let cost = match place {
            0 => &mut self.launch_us,
            1 => &mut self.alone,
            2 => &mut self.wave_us,
            3 => &mut self.byte_us,
            4 => &mut self.split_us,
            5 => &mut self.part_us,
            ALL_STEPS => {
                self.step_us = self.step_us.map(|step| step * factor);
                return self;
            }
            LAUNCH_FOR_WAVE => {
                self.wave_us /= factor;
                &mut self.launch_us
            }
            tile => &mut self.step_us[tile - PLAIN_COSTS],
        };
        *cost *= factor;
        self
    }
}

/// Costs that the search begins with: kernels a fifth slower than the peak rate, and memory at the rate of the data
/// sheet.
fn first_guess(problem: &Problem, device: &Device) -> LibraryCosts {
    // Two operations in each of 128 lanes of an SM, where no rate is known.
    let lanes = 256.0 * f64::from(device.max_sm_clock_mhz.max(1)) * 1e-6;
    let rate = peak_rate(problem, device).map_or(lanes, |rate| rate.0 / f64::from(device.sms));
    let step = |(m, n): (u64, u64)| 2.0 * (m * n) as f64 * 1.2e-6 / rate;
    let byte_us = memory_bandwidth(device).map_or(1e-6, |rate| 1e6 / rate);
    LibraryCosts {
        launch_us: 3.0,
        alone: 1.5,
        wave_us: 0.4,
        byte_us,
        split_us: 1.0,
        part_us: 5.0 * byte_us,
        step_us: LIBRARY_TILES.map(step),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, GemmType, Layout};

    fn problem(shape: &str) -> Problem {
        Problem::new(shape.parse().unwrap(), Dtype::F32)
    }

    /// Problems of several sizes, and times by other costs than those that the search begins with.
    fn times() -> Vec<(Problem, Micros)> {
        let device = Device::h200();
        let guess = first_guess(&problem("64x64x64"), &device);
        let costs = guess.scaled(0, 1.4).scaled(3, 1.2).scaled(14, 0.8).scaled(9, 1.3);
        let extents = [70_u64, 300, 900, 2500];
        let shapes = extents
            .into_iter()
            .flat_map(|m| extents.into_iter().map(move |n| (m, n, if m > n { 128 } else { 2000 })));
        let problems = shapes.map(|(m, n, k)| problem(&format!("{m}x{n}x{k}")));
        let batches = problems.flat_map(|one| [one, Problem { batch: 3, ..one }]);
        batches.map(|one| (one, Micros(costs.us(&one, device.sms)))).collect()
    }

    #[test]
    fn times_of_other_problems_are_forecast_and_known_ones_are_kept() {
        let device = Device::h200();
        let models = LibraryModel::learn(&device, LibraryChoice::Own, &times());
        let [model] = &models[..] else { panic!("{models:?}") };
        assert!(model.error_percent < 15.0, "{}", model.error_percent);
        for (problem, time) in times() {
            let forecast = model.forecast(&problem, &device);
            assert!((forecast.0 / time.0).ln().abs() < 0.05, "{problem} {forecast:?}");
        }
        // The file form is read again.
        let text = serde_json::to_string(&models).unwrap();
        let again: Vec<LibraryModel> = serde_json::from_str(&text).unwrap();
        let problem = problem("500x400x300");
        let [own, read] = [model, &again[0]].map(|model| model.forecast(&problem, &device).0);
        assert!((own / read - 1.0).abs() < 1e-12, "{own} {read}");
    }

    #[test]
    fn few_problems_and_epilogues_are_not_learned() {
        let device = Device::h200();
        let few: Vec<_> = times().into_iter().take(FEWEST_PROBLEMS - 1).collect();
        assert!(LibraryModel::learn(&device, LibraryChoice::Own, &few).is_empty());
        let with_bias: Vec<_> = times()
            .into_iter()
            .map(|(one, time)| (Problem { epilogue: "bias".parse().unwrap(), ..one }, time))
            .collect();
        assert!(LibraryModel::learn(&device, LibraryChoice::Own, &with_bias).is_empty());
        // GEMM types are learned apart.
        let f16 = GemmType::of(Dtype::F16);
        let other = times().into_iter().map(|(one, time)| {
            (Problem { types: f16, layout: Layout::Nt, ..one }, Micros(time.0 / 4.0))
        });
        let both: Vec<_> = times().into_iter().chain(other).collect();
        let types: Vec<GemmType> = LibraryModel::learn(&device, LibraryChoice::Own, &both)
            .iter()
            .map(|model| model.types)
            .collect();
        assert_eq!(types, [GemmType::of(Dtype::F32), f16]);
    }
}
