//! Outcomes of candidates that were not rendered or compiled.

use crate::compile::{CompileError, Compiled, located_log, lost_overlap};
use crate::model::{Configuration, Device, Diagnostic, LocatedFailure, Outcome, Problem};
use crate::render::{NamedPlace, RenderError, SourceMap, Templates};
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

/// A fault of the `cpu` device, with the lines that it names: that of the access, then that of the other access of a race,
/// each with the calls that it was inlined at.
fn located_fault(message: &str, map: &SourceMap) -> LocatedFailure {
    let (text, places) = map.renamed(message);
    let mut accesses: Vec<Vec<Diagnostic>> = Vec::new();
    for NamedPlace { mut place, before } in places {
        let is_call = before.ends_with("inlined at ") || [", at ", " or "].contains(&&*before);
        let label = match before.as_str() {
            " or " => "or inlined here",
            _ if is_call => "inlined here",
            text if text.ends_with("has written it at ") => "written here",
            text if text.ends_with("has read it at ") => "read here",
            _ => &text,
        };
        place.message = label.to_owned();
        match accesses.last_mut().filter(|_| is_call) {
            Some(access) => access.push(place),
            None => accesses.push(vec![place]),
        }
    }
    if accesses.is_empty() {
        return LocatedFailure::plain(text);
    }
    // The faulty access stands last in the message.
    accesses.sort_by_key(|access| access[0].message != text);
    accesses[0][0].message.clone_from(&text);
    // Races after one access are one failure: a missing barrier shows in every access behind it.
    let key = accesses.get(1).map(|other| {
        let place = &other[0];
        format!("{}:{}: {}", place.file, place.position().0, place.message)
    });
    let places: Vec<Diagnostic> =
        accesses.into_iter().flat_map(|access| to_template(access, map)).collect();
    let failure = LocatedFailure::at(text, &places);
    LocatedFailure { key: key.unwrap_or(failure.key), ..failure }
}

/// The place of an access and the calls in the family's template. Where these have none, the innermost and the
/// outermost call are kept.
fn to_template(mut access: Vec<Diagnostic>, map: &SourceMap) -> Vec<Diagnostic> {
    let calls = access.split_off(1);
    let (own, parts): (Vec<_>, Vec<_>) =
        calls.into_iter().partition(|call| map.is_in_family_template(call));
    if !own.is_empty() {
        access.extend(own);
    } else if !map.is_in_family_template(&access[0]) {
        let last = parts.len().saturating_sub(1);
        let ends = parts.into_iter().enumerate().filter(|(at, _)| *at == 0 || *at == last);
        access.extend(ends.map(|(_, call)| call));
    }
    access
}

/// The outcome of a candidate whose compile failed for a reason of its own.
pub(super) fn failed_compile(error: CompileError) -> Outcome {
    match error {
        CompileError::Source { log } => Outcome::Compile { log },
        CompileError::TimedOut { seconds } => Outcome::Timeout { seconds },
        error => Outcome::Compile { log: error.to_string() },
    }
}

/// Refuses a kernel whose products of warpgroups lost their overlap, with the line that says so.
pub(super) fn overlapping(compiled: Compiled) -> Result<Compiled, CompileError> {
    match lost_overlap(&compiled.log) {
        Some(advisory) => Err(CompileError::Source { log: advisory.to_owned() }),
        None => Ok(compiled),
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
