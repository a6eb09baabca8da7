//! Predictions: what a kernel will take before it is measured.
//!
//! `analytic` is the model of tiles and waves, `learned` the trees that correct it from measured times,
//! `transfer` the corrections from related problems of the same run, `forecast` what a search starts with, and
//! `cpu_time` the modelled time of what the `cpu` device executed.

mod analytic;
pub mod cholesky;
mod cpu_time;
mod forecast;
mod learned;
mod transfer;

pub use analytic::CostModel;
pub use cpu_time::{ExecutedLaunch, modelled_time};
pub use forecast::Forecast;
pub(crate) use forecast::{NOT_SERIOUS, forecast};
pub use learned::{
    FamilyModel, KernelFeatures, LearnedModel, LearnedModelError, Predictor, ProblemFeatures,
    ProblemTimes, SpacePredictor, TilePredictor, cost,
};
pub use transfer::{Correction, TransferModel};
