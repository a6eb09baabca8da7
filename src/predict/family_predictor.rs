//! Predictions of one family's kernels for one GEMM type, by its learned model.

use super::analytic::CostModel;
use super::boosted_trees::FeatureRow;
use super::features::{FeatureReader, KernelFeatures, ProblemFeatures, SpaceColumns};
use super::learned_model::{FamilyModel, LearnedModel};
use crate::model::{Configuration, Device, Micros, Problem, Value};
use crate::space::Family;

/// Learned model of a family, together with its parameters and the device.
#[derive(Debug)]
pub struct FamilyPredictor<'m> {
    reader: FeatureReader<'m>,
    /// The model.
    pub model: &'m FamilyModel,
    device: &'m Device,
}

impl<'m> FamilyPredictor<'m> {
    /// `None` without a model of the family, the problem's GEMM type and the device.
    pub(super) fn of(
        learned: &'m LearnedModel,
        family: &'m Family,
        problem: &Problem,
        device: &'m Device,
    ) -> Option<Self> {
        let model = learned.of(family, problem, device)?;
        Some(Self { reader: model.reader(family)?, model, device })
    }

    /// Predicts one kernel. `cost` assumes no measured occupancy, as in training.
    pub(super) fn time(
        &self,
        configuration: &Configuration,
        cost: &CostModel,
        problem: &ProblemFeatures,
    ) -> Micros {
        self.model.times(&[&self.prepare(configuration, cost)], problem, self.device)[0]
    }

    /// Prepares a kernel for many predictions.
    pub fn prepare(&self, configuration: &Configuration, cost: &CostModel) -> KernelFeatures {
        KernelFeatures { row: self.reader.row(configuration), cost: *cost }
    }

    /// Prepares a space whose configurations are given by the places of their values.
    pub(super) fn space(&self, parameters: &[(String, Vec<Value>)]) -> SpacePredictor<'_> {
        SpacePredictor { predictor: self, columns: self.reader.space(parameters) }
    }
}

/// Prepared space of configurations.
#[derive(Debug)]
pub(super) struct SpacePredictor<'m> {
    predictor: &'m FamilyPredictor<'m>,
    columns: SpaceColumns,
}

impl SpacePredictor<'_> {
    /// Prepares configurations with one cost, for one problem.
    pub(super) fn with_cost(
        &self,
        cost: &CostModel,
        problem: &ProblemFeatures,
    ) -> TilePredictor<'_> {
        let mut row = [0.0; super::boosted_trees::COLUMNS];
        let modelled = problem.complete(&mut row, cost, self.predictor.device);
        TilePredictor { space: self, row, modelled }
    }
}

/// Prepared configurations with one cost, for one problem.
#[derive(Debug)]
pub(super) struct TilePredictor<'m> {
    space: &'m SpacePredictor<'m>,
    row: FeatureRow,
    modelled: f64,
}

impl TilePredictor<'_> {
    /// Predicts the configuration with these values.
    pub(super) fn time(&self, indices: &[usize]) -> Micros {
        let mut row = self.row;
        self.space.columns.fill(&mut row, indices);
        let factor = self.space.predictor.model.boosted.predict(&row);
        Micros((self.modelled + f64::from(factor)).exp())
    }
}
