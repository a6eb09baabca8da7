//! The first candidates of a search, before it begins: what a session compiles ahead.

use super::error::TuneError;
use super::prepare::spaces;
use super::settings::Settings;
use super::warm_start::Hints;
use crate::compile::CompileRequest;
use crate::model::{Device, Problem};
use crate::render::{Templates, render};
use crate::space::Family;

/// What the first candidates of a search depend on, besides the problem.
pub(crate) struct Opening<'a> {
    /// The families to choose from.
    pub(crate) families: &'a [Family],
    /// Their templates.
    pub(crate) templates: &'a Templates,
    /// The device.
    pub(crate) device: &'a Device,
    /// How the problem will be tuned.
    pub(crate) settings: &'a Settings,
}

impl Opening<'_> {
    /// Renders the first `count` candidates that a search of a problem proposes. Candidates that do not render are left
    /// out.
    ///
    /// # Errors
    /// Those with which the search will end before it begins.
    pub(crate) fn requests(
        &self,
        problem: &Problem,
        hints: &Hints,
        count: usize,
    ) -> Result<Vec<CompileRequest>, TuneError> {
        let Self { families, templates, device, settings } = *self;
        let mut spaces = spaces(families, templates, problem, device, hints)?;
        spaces.forecast(families, problem, device, hints);
        let search_spaces = spaces.search_spaces(hints, settings.fresh);
        let picks = settings.search.begin(search_spaces, settings.seed).propose(count);
        let requests = picks.into_iter().filter_map(|pick| {
            let entry = &spaces.families[pick.family];
            let family = &families[entry.family];
            let configuration = entry.space.get(pick.rank).unwrap_or_default();
            let rendered = render(family, templates, &configuration, problem, device).ok()?;
            Some(CompileRequest::kernel(&family.name, rendered.source))
        });
        Ok(requests.collect())
    }
}
