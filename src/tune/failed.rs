//! Outcomes of candidates that were not rendered or compiled.

use crate::compile::{CompileError, located_log};
use crate::model::{Configuration, Device, LocatedFailure, Outcome, Problem};
use crate::render::{RenderError, SourceMap, Templates};
use crate::space::Family;

/// A candidate that failed.
#[derive(Debug, Clone)]
pub struct FailedCandidate {
    /// Its configuration.
    pub configuration: Configuration,
    /// Its outcome, as the compiler or the device told it.
    pub outcome: Outcome,
    /// The failure as people read it.
    pub failure: LocatedFailure,
}

/// The failure of an outcome as people read it: its lines of the rendered source become places in templates.
/// `None` for a correct candidate.
pub(super) fn located(
    outcome: &Outcome,
    (family, configuration): (&Family, &Configuration),
    (problem, device): (&Problem, &Device),
    templates: &Templates,
) -> Option<LocatedFailure> {
    let message = outcome.failure()?;
    let map = |text: &str| {
        let is_named = SourceMap::is_named(text, &family.name);
        let map = || SourceMap::new(family, templates, configuration, problem, device).ok();
        if is_named { map() } else { None }
    };
    Some(match outcome {
        Outcome::Compile { log } => match map(log) {
            Some(map) => located_log(log, &map),
            None => LocatedFailure::plain(message),
        },
        Outcome::Correctness(mismatch) => {
            let LocatedFailure { key, .. } = LocatedFailure::plain(mismatch.check.clone());
            LocatedFailure { key, ..LocatedFailure::plain(message) }
        }
        _ => match map(&message) {
            Some(map) => located_fault(&message, &map),
            None => LocatedFailure::plain(message),
        },
    })
}

/// A fault of the `cpu` device, with the lines that it names: that of the access, then that of the call.
fn located_fault(message: &str, map: &SourceMap) -> LocatedFailure {
    let (text, mut places) = map.renamed(message);
    for (place, at) in places.iter_mut().zip(0..) {
        place.message = if at == 0 { text.clone() } else { "inlined here".to_owned() };
    }
    if places.is_empty() {
        return LocatedFailure::plain(text);
    }
    LocatedFailure::at(text, &places)
}

/// The outcome of a candidate whose compile failed for a reason of its own.
pub(super) fn failed_compile(error: CompileError) -> Outcome {
    match error {
        CompileError::Source { log } => Outcome::Compile { log },
        CompileError::TimedOut { seconds } => Outcome::Timeout { seconds },
        error => Outcome::Compile { log: error.to_string() },
    }
}

/// The outcome of a candidate that was not rendered.
pub(super) fn failed_render(error: RenderError) -> Outcome {
    match error {
        RenderError::TimedOut { seconds, .. } => Outcome::Timeout { seconds },
        error => Outcome::Compile { log: error.to_string() },
    }
}

/// The failure of a candidate that was not rendered, as people read it.
pub(super) fn located_render(error: &RenderError) -> LocatedFailure {
    match error {
        RenderError::Located(place) => LocatedFailure::from(place.as_ref()),
        error => LocatedFailure::plain(error.to_string()),
    }
}
