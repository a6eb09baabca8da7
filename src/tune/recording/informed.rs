//! What a search knows of its problem before anything is evaluated, for a journal that is replayed: the
//! defaults of the families that it has outcomes of, and what is expected of their configurations.
//! It knows them as they are now, also where they were others when the journal was written.

use super::{RecordingFault, recording as blind};
use crate::model::Device;
use crate::predict::forecast;
use crate::predict::{LearnedModel, TransferModel};
use crate::search::{Recording, SearchSpace};
use crate::space::Families;
use crate::tune::journal::Recorded;

/// The space of a journal, with that.
pub(super) fn recording(
    text: &str,
    families: &Families,
    experience: &LearnedModel,
) -> Result<Recording, RecordingFault> {
    let Some(Recorded { problem, device: name, .. }) = Recorded::parse(text) else {
        return Err(RecordingFault::somewhere(
            "no journal of this program: of others it is not known where a search would begin",
        ));
    };
    let device = Device::h200();
    if name != device.name {
        return Err(RecordingFault::somewhere(format!(
            "of {name}, whose properties are not known here, only those of {}: replay it without \
             them",
            device.name
        )));
    }
    let mut recording = blind(text)?;
    let mut is_known = false;
    recording.inform(|name, territory| {
        let Ok(family) = families.get(name) else { return };
        is_known = true;
        let SearchSpace { space, default, seeds, forecast: expected, .. } = territory;
        let mut known = family.defaults().iter().filter_map(|known| space.rank(known));
        *default = known.next();
        *seeds = known.collect();
        let best = default.and_then(|rank| space.get(rank));
        let predictor = experience.predictor(family, &device);
        *expected = forecast(
            family,
            space,
            best.as_ref(),
            (&problem, &device),
            (predictor.as_ref(), &TransferModel::default()),
        );
    });
    if !is_known {
        return Err(RecordingFault::somewhere(
            "none of its families comes with this program: of others it is not known where a search \
             would begin",
        ));
    }
    Ok(recording)
}
