//! Journals that are replayed with the knowledge of a search: the defaults of today's families, and forecasts.

use super::entry::RecordingFault;
use super::journal;
use crate::model::Device;
use crate::predict::{LearnedModelError, Predictor};
use crate::search::{RecordedRow, Recording, SearchSpace};
use crate::space::Families;
use crate::tune::journal::{BEGINNING, Recorded, no_journal};

/// The space of a journal, with that knowledge.
pub(super) fn recording(
    text: &str,
    families: &Families,
    predictor_for: &dyn Fn(&Device) -> Result<Predictor, LearnedModelError>,
) -> Result<Recording, RecordingFault> {
    let Some(Recorded { problem, device: name, .. }) = Recorded::parse(text) else {
        return Err(RecordingFault::somewhere(if text.starts_with(BEGINNING) {
            no_journal(text)
        } else {
            "no journal of this program: of others it is not known where a search would begin"
                .to_owned()
        }));
    };
    let known = Device::known();
    let Some(device) = known.iter().find(|device| device.name == name) else {
        let names: Vec<&str> = known.iter().map(|device| device.name.as_str()).collect();
        return Err(RecordingFault::somewhere(format!(
            "of {name}, whose properties are not known here, only those of {}: replay it without them",
            names.join(" and ")
        )));
    };
    let predictor =
        predictor_for(device).map_err(|error| RecordingFault::somewhere(error.to_string()))?;
    let rows = journal::rows(text).unwrap_or_default();
    let rows: Vec<RecordedRow> =
        rows.into_iter().map(|row| of_today(row, families)).collect::<Result<_, _>>()?;
    let mut recording = Recording::new(&rows)?;
    let mut is_known = false;
    recording.inform(|name, search_space| {
        let Ok(family) = families.get(name) else { return };
        is_known = true;
        let SearchSpace { space, default, seeds, forecast, .. } = search_space;
        let mut known = family.defaults(device).iter().filter_map(|known| space.rank(known));
        *default = known.next();
        *seeds = known.collect();
        let best = default.and_then(|rank| space.get(rank));
        let spaces = [(family, &*space, best.as_ref())];
        *forecast = predictor.forecasts(&spaces, &problem, device).pop().flatten();
    });
    if !is_known {
        return Err(RecordingFault::somewhere(
            "none of its families comes with this program: of others it is not known where a search \
             would begin",
        ));
    }
    Ok(recording)
}

/// A row whose parameters have the names and values that they have today, where its family is known.
fn of_today(row: RecordedRow, families: &Families) -> Result<RecordedRow, RecordingFault> {
    let Ok(family) = families.get(&row.family) else { return Ok(row) };
    let configuration = family
        .completed(row.configuration)
        .map_err(|error| RecordingFault::somewhere(error.to_string()))?;
    Ok(RecordedRow { configuration, ..row })
}
