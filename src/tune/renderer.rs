//! Renderer of one problem: what rendering a configuration needs, and what is known of it before it is compiled.

use super::failed::located;
use super::finalist::NeighbourPlan;
use crate::model::{Configuration, Device, LocatedFailure, Micros, Outcome, Problem};
use crate::predict::{PredictionSource, Predictor};
use crate::render::{Templates, render};
use crate::space::Family;

/// The problem, device, families and templates that configurations are rendered with.
pub(super) struct Renderer<'a> {
    pub(super) problem: &'a Problem,
    pub(super) families: &'a [Family],
    pub(super) templates: &'a Templates,
    pub(super) device: &'a Device,
    pub(super) predictor: &'a Predictor,
}

impl Renderer<'_> {
    /// The time of a configuration by a learned model, on the cpu device only: a GPU measures it.
    pub(super) fn predicted(
        &self,
        family: &Family,
        configuration: &Configuration,
    ) -> Option<Micros> {
        let predict = || self.predictor.time((family, configuration), self.problem, self.device);
        let predicted = self.device.is_cpu().then(predict)?;
        (predicted.source != PredictionSource::Analytic).then_some(predicted.time)
    }

    /// The failure of an outcome as people read it; `None` for a correct candidate.
    pub(super) fn located(
        &self,
        family: &str,
        configuration: &Configuration,
        outcome: &Outcome,
    ) -> Option<LocatedFailure> {
        let family = self.families.iter().find(|known| known.name == family)?;
        let target = (self.problem, self.device);
        located(outcome, (family, configuration), target, self.templates)
    }

    /// The problems one larger or smaller in a dimension that a candidate's source serves too: those for which the same
    /// source is rendered.
    pub(super) fn neighbours(
        &self,
        family: &str,
        configuration: &Configuration,
    ) -> Vec<NeighbourPlan> {
        let family = self.families.iter().find(|known| known.name == family);
        let Some(family) = family else { return Vec::new() };
        let render = |problem: &Problem| {
            render(family, self.templates, configuration, problem, self.device).ok()
        };
        let Some(own) = render(self.problem) else { return Vec::new() };
        let legal = |problem: &Problem| {
            family.refusal(problem, self.device).is_none()
                && matches!(family.violated(configuration, problem, self.device), Ok(None))
        };
        let neighbours = self.problem.neighbours().into_iter().filter(legal);
        let rendered = neighbours.filter_map(|problem| Some((problem, render(&problem)?)));
        rendered
            .filter(|(_, rendered)| rendered.source == own.source)
            .map(|(problem, rendered)| NeighbourPlan { problem, plan: rendered.plan })
            .collect()
    }
}
