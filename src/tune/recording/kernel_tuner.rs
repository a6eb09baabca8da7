//! Cache files of Kernel Tuner: one JSON object whose `cache` has an entry for each configuration
//! that was tried, written line by line while tuning goes on.

use std::borrow::Cow;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value as Json;

use super::entry::{RecordingFault, configuration};
use crate::model::Micros;
use crate::search::RecordedRow;

/// From here on a time, in ms, is a failure: what old versions wrote for one.
const FAILED_MS: f64 = 1e20;

/// What is read of a file.
#[derive(Debug, Deserialize)]
pub(super) struct Cache {
    /// The parameters.
    tune_params_keys: Vec<String>,
    #[serde(default)]
    kernel_name: String,
    /// `value,value,...`: the parameters by name, `time` in ms (a word where it failed), and more.
    cache: IndexMap<String, IndexMap<String, Json>>,
}

/// The text of a file whose writer was interrupted, closed as Kernel Tuner itself closes it; any
/// other text as it is.
pub(super) fn closed(text: &str) -> Cow<'_, str> {
    let cut = text.trim_end();
    let Some(open) =
        cut.strip_suffix(',').or_else(|| cut.strip_suffix("\"cache\": {").map(|_| cut))
    else {
        return text.into();
    };
    format!("{open}\n}}\n}}").into()
}

pub(super) fn rows(cache: Cache) -> Result<Vec<RecordedRow>, RecordingFault> {
    let Cache { tune_params_keys: parameters, kernel_name, cache } = cache;
    let row = |(name, entry): (&String, &IndexMap<String, Json>)| {
        let values = parameters.iter().map(|key| (key.as_str(), entry.get(key)));
        let configuration = configuration(name, values)?;
        Ok(RecordedRow { family: kernel_name.clone(), configuration, time: time(name, entry)? })
    };
    cache.iter().map(row).collect()
}

/// The mean time of an entry; none where it failed.
fn time(name: &str, entry: &IndexMap<String, Json>) -> Result<Option<Micros>, RecordingFault> {
    match entry.get("time") {
        Some(Json::Number(number)) => {
            let ms = number.as_f64().unwrap_or_default();
            if ms <= 0.0 {
                let reason = format!("entry `{name}` has the time {number}, which is not above 0");
                return Err(RecordingFault::somewhere(reason));
            }
            Ok((ms < FAILED_MS).then_some(Micros(1e3 * ms)))
        }
        // The class of the failure.
        Some(Json::String(_)) => Ok(None),
        None if entry.contains_key("__error__") => Ok(None),
        _ => Err(RecordingFault::somewhere(format!(
            "entry `{name}` has no `time`: a number of ms, or the word for its failure"
        ))),
    }
}
