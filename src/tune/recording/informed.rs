//! What a search knows of its problem before anything is evaluated, for a journal that is replayed: the
//! defaults of the families that it has outcomes of, and what is expected of their configurations.
//! It knows them as they are now, also where they were others when the journal was written.

use super::{Fault, journal};
use crate::experience::{Experience, Kin};
use crate::model::Device;
use crate::search::{Recording, Row, Territory};
use crate::space::{Families, Footprints};
use crate::tune::forecast::forecast;
use crate::tune::journal::Recorded;

/// The space of a journal, with that.
pub(super) fn recording(
    text: &str,
    families: &Families,
    experience: &Experience,
) -> Result<Recording, Fault> {
    let Some(Recorded { problem, device: name, .. }) = Recorded::parse(text) else {
        return Err(Fault::somewhere(
            "no journal of this program: of others it is not known where a search would begin",
        ));
    };
    let device = Device::h200();
    if name != device.name {
        return Err(Fault::somewhere(format!(
            "of {name}, whose properties are not known here, only those of {}: replay it without \
             them",
            device.name
        )));
    }
    let rows = journal::rows(text).unwrap_or_default();
    let rows: Vec<Row> =
        rows.into_iter().map(|row| of_today(row, families)).collect::<Result<_, _>>()?;
    let mut recording = Recording::new(&rows)?;
    let mut is_known = false;
    recording.inform(|name, territory| {
        let Ok(family) = families.get(name) else { return };
        is_known = true;
        let Territory { space, default, seeds, forecast: expected, .. } = territory;
        let mut known = family.defaults(&device).iter().filter_map(|known| space.rank(known));
        *default = known.next();
        *seeds = known.collect();
        let best = default.and_then(|rank| space.get(rank));
        let expert = experience.expert(family, &device);
        *expected = forecast(
            family,
            space,
            best.as_ref(),
            (&problem, &device),
            (expert.as_ref(), &Kin::default()),
            &Footprints::new(),
        );
    });
    if !is_known {
        return Err(Fault::somewhere(
            "none of its families comes with this program: of others it is not known where a search \
             would begin",
        ));
    }
    Ok(recording)
}

/// A row whose parameters have the names and values that they have today, where its family is known.
fn of_today(row: Row, families: &Families) -> Result<Row, Fault> {
    let Ok(family) = families.get(&row.family) else { return Ok(row) };
    let configuration =
        family.completed(row.configuration).map_err(|error| Fault::somewhere(error.to_string()))?;
    Ok(Row { configuration, ..row })
}
