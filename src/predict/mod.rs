//! Predictions: the time of a kernel before it is measured. Search, tune, lookup and sessions ask [`Predictor`].

mod analytic;
mod calibration;
mod cpu_time;
mod device_limits;
mod drawn;
mod family_predictor;
mod features;
mod forecast;
pub mod gaussian_process;
mod greedy_cover;
mod kernel_set;
mod landmarks;
mod learned_model;
mod library_model;
mod library_training;
mod predictor;
mod streaming;
mod tensor_cores;
#[cfg(test)]
mod tests;
mod time_formula;
mod training;
mod transfer;

pub use analytic::CostModel;
pub use calibration::error_percent;
pub use cpu_time::{ExecutedLaunch, LaunchLoad, executed_time, modelled_time};
pub use device_limits::{least_time, least_traffic, memory_bandwidth, peak_rate};
pub use drawn::{DrawLimits, MOST_NARROW, draw};
pub use family_predictor::FamilyPredictor;
pub use features::{KernelFeatures, ProblemFeatures};
pub use forecast::Forecast;
pub(crate) use forecast::SERIOUS;
pub use gemm_tune_runtime::time_formula::{CAUTION, TimeFormula};
pub(crate) use greedy_cover::{GreedyCover, ServedCases};
pub use landmarks::{
    Landmark, LandmarkErrors, LandmarkModel, LocalErrors, LogErrors, ProblemPosition,
};
pub use learned_model::{FamilyModel, LearnedModel, LearnedModelError, StaleModel};
pub use library_model::{
    BATCH_WEIGHT, FORMULA_WEIGHT, KnownProduct, LAYOUT_WEIGHT, LEAST_PART, LIBRARY_MARGIN,
    LIBRARY_SPLITS, LIBRARY_TILES, LibraryChoice, LibraryCosts, LibraryModel, resident_blocks,
};
pub use predictor::{PredictedTime, PredictionSource, Predictor, Ranking};
pub use tensor_cores::modelled_error_percent;
pub use time_formula::{FormulaSample, fitted_to, launch_time, time_formula};
pub use training::{ProblemTimes, TrainingTimes};
pub(crate) use transfer::point;

use crate::model::{Configuration, Device, Problem};
use crate::space::Family;

/// Analytic cost of a configuration before it is compiled.
fn cost(
    (family, configuration): (&Family, &Configuration),
    pattern: &Problem,
    device: &Device,
) -> CostModel {
    CostModel::of((family, configuration), pattern, (device, None))
}
