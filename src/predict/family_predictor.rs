//! Predictions of one family's kernels for GEMM types that multiply alike, by its learned model.

use super::analytic::CostModel;
use super::features::{FeatureReader, KernelFeatures, ProblemFeatures, SpaceColumns};
use super::learned_model::{FamilyModel, LearnedModel};
use crate::model::{Configuration, Device, Micros, Problem, Value};
use crate::space::Family;
use crate::trees::{COLUMNS, Precision};

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
        KernelFeatures { row: self.reader.row(configuration), cost: cost.clone() }
    }

    /// Prepares the parameters of a space.
    pub(super) fn columns(&self, parameters: &[(String, Vec<Value>)]) -> SpaceColumns {
        self.reader.space(parameters)
    }

    /// Predicts configurations of a space with one cost, given by the places of their values.
    pub(super) fn times_of(
        &self,
        (columns, cost): (&SpaceColumns, &CostModel),
        problem: &ProblemFeatures,
        configurations: impl Iterator<Item = Vec<usize>>,
        precision: Precision,
    ) -> Vec<Micros> {
        let mut row = [0.0; COLUMNS];
        let modelled = problem.complete(&mut row, cost, self.device);
        let time = |indices: Vec<usize>| {
            columns.fill(&mut row, &indices);
            Micros((modelled + f64::from(self.model.boosted.predict(&row, precision))).exp())
        };
        configurations.map(time).collect()
    }
}
