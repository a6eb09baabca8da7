//! From a configuration to its source and launch plan, with all that this needs.

use super::evaluator::{Elsewhere, Standing};
use crate::model::{Device, Problem};
use crate::render::{Templates, render};
use crate::space::Family;

/// What rendering needs.
pub(super) struct Renderer<'a> {
    pub(super) problem: &'a Problem,
    pub(super) families: &'a [Family],
    pub(super) templates: &'a Templates,
    pub(super) device: &'a Device,
}

impl Renderer<'_> {
    /// The problems one larger or smaller in a dimension that a candidate's source serves as well:
    /// where another would be rendered, this one claims nothing.
    pub(super) fn elsewhere(&self, standing: &Standing) -> Vec<Elsewhere> {
        let family = self.families.iter().find(|family| family.name == standing.family);
        let Some(family) = family else { return Vec::new() };
        let configuration = &standing.configuration;
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
            .map(|(problem, rendered)| Elsewhere { problem, plan: rendered.plan })
            .collect()
    }
}
