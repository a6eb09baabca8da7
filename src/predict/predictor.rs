//! The questions that search, tune, lookup and sessions put to this room.

use std::sync::Arc;

use super::device_limits::least_time;
use super::family_predictor::FamilyPredictor;
use super::features::ProblemFeatures;
use super::forecast::{Forecast, forecast};
use super::learned_model::{FamilyModel, LearnedModel, StaleModel};
use super::library_model::{LibraryChoice, LibraryModel};
use super::tensor_cores::modelled_error_percent;
use super::training::ProblemTimes;
use super::transfer::TransferModel;
use crate::model::statistics::rank_correlation;
use crate::model::{CachePolicy, Configuration, Device, Micros, Problem, Storage};
use crate::render::Templates;
use crate::space::{Family, LegalSpace};

/// Predicts kernels by all that is known before they are measured: the analytic model, the learned model of a
/// device, and the timings of related problems. Without the latter two it predicts by the analytic model alone.
#[derive(Debug, Clone, Default)]
pub struct Predictor {
    learned: Arc<LearnedModel>,
    transfer: TransferModel,
}

/// Predicted time of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictedTime {
    /// The time.
    pub time: Micros,
    /// Error in per cent that nine in ten such predictions are within, where it is known.
    pub error_percent: Option<f64>,
    /// The model that predicted it.
    pub source: PredictionSource,
}

/// Model that a prediction comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PredictionSource {
    /// Tiles and waves alone.
    Analytic,
    /// The learned model of the device.
    Learned,
    /// The learned model, corrected by timings of related problems.
    Transferred,
}

/// How well predicted times rank the kernels of one problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// Best time among the first kernels by predicted time, over the time of the best of all, for each count of these.
    pub over_best: Vec<f64>,
    /// Rank correlation of predicted and measured times; `None` where all of either are the same.
    pub correlation: Option<f64>,
}

impl Predictor {
    /// Predicts by a learned model, as far as it belongs to the code of the families today. Returns the models
    /// that do not.
    pub fn new(
        mut learned: LearnedModel,
        families: &[Family],
        templates: &Templates,
    ) -> (Self, Vec<StaleModel>) {
        let stale = learned.remove_stale(families, templates);
        (Self { learned: Arc::new(learned), ..Self::default() }, stale)
    }

    /// Learned predictions of a family's kernels for problems of one GEMM type; `None` without a learned model.
    pub fn family<'p>(
        &'p self,
        family: &'p Family,
        problem: &Problem,
        device: &'p Device,
    ) -> Option<FamilyPredictor<'p>> {
        FamilyPredictor::of(&self.learned, family, problem, device)
    }

    /// The learned model of a family for problems of one GEMM type.
    pub fn model(
        &self,
        family: &Family,
        problem: &Problem,
        device: &Device,
    ) -> Option<&FamilyModel> {
        self.learned.of(family, problem, device)
    }

    /// The forecast of the library's time for problems of one GEMM type without an epilogue.
    pub fn library(
        &self,
        problem: &Problem,
        device: &Device,
        algorithm: LibraryChoice,
    ) -> Option<&LibraryModel> {
        self.learned.library(problem, device, algorithm)
    }

    /// All forecasts of the library's time on a device.
    pub fn libraries(&self, device: &Device) -> &[LibraryModel] {
        self.learned.libraries(device)
    }

    /// Predicts the time of one kernel for a problem with packed operands outside of the cache: never less than is
    /// possible ([`least_time`]).
    pub fn time(
        &self,
        (family, configuration): (&Family, &Configuration),
        problem: &Problem,
        device: &Device,
    ) -> PredictedTime {
        let cost = super::cost((family, configuration), problem, device);
        let least = least_time(problem, device, CachePolicy::Rotate);
        let Some(predictor) = self.family(family, problem, device) else {
            let time = cost.time(problem, device.max_sm_clock_mhz).0.max(least.0);
            let error_percent = modelled_error_percent(family, device);
            let source = PredictionSource::Analytic;
            return PredictedTime { time: Micros(time), error_percent, source };
        };
        let features = ProblemFeatures::of(problem, &Storage::packed(problem));
        let time = predictor.time(configuration, &cost, &features);
        let correction = self.transfer.correction(family, problem);
        let factor = correction.as_ref().map(|one| one.factor(family, configuration));
        PredictedTime {
            time: Micros((time.0 * factor.unwrap_or(1.0)).max(least.0)),
            error_percent: Some(predictor.model.error_percent),
            source: match factor {
                Some(_) => PredictionSource::Transferred,
                None => PredictionSource::Learned,
            },
        }
    }

    /// Forecasts the legal spaces of families, each with its default, for one problem.
    pub fn forecasts(
        &self,
        spaces: &[(&Family, &LegalSpace, Option<&Configuration>)],
        problem: &Problem,
        device: &Device,
    ) -> Vec<Option<Forecast>> {
        let own = |(family, space, default): &(&Family, &LegalSpace, Option<&Configuration>)| {
            let predictor = self.family(family, problem, device);
            let correction = self.transfer.correction(family, problem);
            let models = (predictor.as_ref(), correction.as_ref());
            forecast((family, space), *default, (problem, device), models)
        };
        let mut forecasts: Vec<Option<Forecast>> = spaces.iter().map(own).collect();
        let bests = forecasts.iter().flatten().map(|forecast| forecast.best.0);
        let least = bests.fold(f64::INFINITY, f64::min);
        for (forecast, (family, ..)) in forecasts.iter_mut().zip(spaces) {
            if let (Some(slowness), Some(forecast)) =
                (self.transfer.slowness(family, problem), forecast)
            {
                forecast.raise_to(Micros(slowness * least));
            }
        }
        forecasts
    }

    /// Whether timings of a related problem have been observed.
    pub fn has_related(&self, problem: &Problem) -> bool {
        self.transfer.has_related(problem)
    }

    /// Adds the timings of a problem, in place of its earlier ones, to correct predictions for related problems.
    pub fn observe(&mut self, measured: &ProblemTimes, families: &[Family], device: &Device) {
        let learned = Arc::clone(&self.learned);
        let predictor = |family| {
            Some((family, FamilyPredictor::of(&learned, family, &measured.problem, device)?))
        };
        let predictors: Vec<_> = families.iter().filter_map(predictor).collect();
        self.transfer.learn(measured, &predictors, device);
    }

    /// How well predicted times rank the kernels of a problem that was measured. Only families with a learned model
    /// count; `None` without any. `counts` says how many kernels are taken as the first.
    pub fn ranking(
        &self,
        families: &[Family],
        device: &Device,
        measured: &ProblemTimes,
        counts: &[usize],
    ) -> Option<Ranking> {
        let problem = &measured.problem;
        let time = |(name, configuration, time): &(String, Configuration, Micros)| {
            let family = families.iter().find(|family| family.name == *name)?;
            // Journals of before a change of the family have its former parameters.
            let configuration = family.completed(configuration.clone()).ok()?;
            let predicted = self.time((family, &configuration), problem, device);
            let is_learned = predicted.source != PredictionSource::Analytic;
            is_learned.then_some((predicted.time.0, time.0))
        };
        let mut ranked: Vec<(f64, f64)> = measured.times.iter().filter_map(time).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let best_of = |count: &usize| {
            let first = ranked.iter().take(*count).map(|(_, time)| *time);
            first.fold(f64::INFINITY, f64::min) / measured.best()
        };
        let (predicted, timed): (Vec<f64>, Vec<f64>) = ranked.iter().copied().unzip();
        (!ranked.is_empty()).then(|| Ranking {
            over_best: counts.iter().map(best_of).collect(),
            correlation: rank_correlation(&predicted, &timed),
        })
    }

    #[cfg(test)]
    pub(super) fn transfer_model(&self) -> &TransferModel {
        &self.transfer
    }
}
