//! All evaluated configurations of one family, as input for the formats of other tuners. These
//! describe one kernel with one list of parameters, without booleans.

use jiff::Timestamp;
use serde_json::Value as Json;
use thiserror::Error;

use crate::model::{Configuration, Problem, Timing, Value};
use crate::tune::{Entry, Recorded};

/// Outcomes of one family for a problem on a device.
#[derive(Debug)]
pub struct EvaluatedSpace<'a> {
    pub(super) problem: Problem,
    pub(super) device: &'a str,
    pub(super) family: &'a str,
    pub(super) parameters: Vec<&'a str>,
    pub(super) entries: Vec<&'a Entry>,
    pub(super) time: Timestamp,
}

/// Reasons why a journal cannot be exported.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SpaceExportError {
    /// The journal has several families, and none was selected.
    #[error("the journal has outcomes of {}: select one with `--family NAME`", .families.join(", "))]
    Several {
        /// Each family with its number of outcomes.
        families: Vec<String>,
    },
    /// The journal lacks the selected family.
    #[error("the journal has no outcome of `{family}`; it has outcomes of {}", .families.join(", "))]
    Missing {
        /// The selected family.
        family: String,
        /// Each family of the journal, with its number of outcomes.
        families: Vec<String>,
    },
    /// The journal is empty.
    #[error("the journal has no outcome yet")]
    Empty,
}

impl<'a> EvaluatedSpace<'a> {
    /// Takes the outcomes of `family`, or of the only family. Of several configurations with the
    /// same kernel, the journal has the first. `time` is the time of the search.
    ///
    /// # Errors
    /// [`SpaceExportError`].
    pub fn of(
        recorded: &'a Recorded,
        family: Option<&str>,
        time: Timestamp,
    ) -> Result<Self, SpaceExportError> {
        let mut names: Vec<&str> =
            recorded.entries.iter().map(|entry| entry.family.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let counted = || {
            let count = |name: &&str| {
                let own = recorded.entries.iter().filter(|entry| entry.family == **name);
                format!("`{name}` ({})", own.count())
            };
            names.iter().map(count).collect::<Vec<_>>()
        };
        let chosen = match (family, names.as_slice()) {
            (_, []) => return Err(SpaceExportError::Empty),
            (None, [only]) => *only,
            (None, _) => return Err(SpaceExportError::Several { families: counted() }),
            (Some(wanted), _) => match names.iter().find(|name| **name == wanted) {
                Some(name) => *name,
                None => {
                    let family = wanted.to_owned();
                    return Err(SpaceExportError::Missing { family, families: counted() });
                }
            },
        };
        let entries: Vec<&Entry> =
            recorded.entries.iter().filter(|entry| entry.family == chosen).collect();
        let first = entries.first().map(|entry| &entry.parameters.0);
        let parameters = first.into_iter().flat_map(|values| values.keys().map(String::as_str));
        Ok(Self {
            problem: recorded.problem,
            device: &recorded.device,
            family: chosen,
            parameters: parameters.collect(),
            entries,
            time,
        })
    }

    /// Number of configurations.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none; [`EvaluatedSpace::of`] refuses that.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Name of the kernel in files of other tuners: `gemm_f32_nn_tiled`.
    pub(super) fn kernel_name(&self) -> String {
        format!("gemm_{}_{}", self.problem.pattern().identifier(), self.family)
    }

    /// The time in the format of other tuners: `2026-01-31 12:00:00+00:00`.
    pub(super) fn timestamp(&self) -> String {
        self.time.strftime("%Y-%m-%d %H:%M:%S+00:00").to_string()
    }

    /// Whether times were modelled and not measured.
    pub fn is_modelled(&self) -> bool {
        let measured = self.entries.iter().filter_map(|entry| entry.outcome.measurement());
        measured.into_iter().any(|measurement| measurement.timing == Timing::Modelled)
    }
}

/// A value for other tuners: booleans become 0 and 1.
pub(super) fn plain(value: &Value) -> Json {
    match value {
        Value::Bool(value) => Json::from(i64::from(*value)),
        Value::Int(value) => Json::from(*value),
        Value::Float(value) => Json::from(*value),
        Value::Text(value) => Json::from(value.as_str()),
    }
}

/// The same as text without quotes.
pub(super) fn word(value: &Value) -> String {
    match plain(value) {
        Json::String(text) => text,
        other => other.to_string(),
    }
}

/// The values of a configuration in the order of `parameters`.
pub(super) fn ordered<'a>(
    configuration: &'a Configuration,
    parameters: &'a [&str],
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    parameters.iter().filter_map(|name| Some((*name, configuration.get(name)?)))
}
