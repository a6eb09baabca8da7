//! This program's own journals: outcomes of one problem on one device, of one or more families.

use crate::model::Measurement;
use crate::search::RecordedRow;
use crate::tune::journal;

/// The outcomes of a journal; none where the text is no journal. Lines that were cut short are
/// passed over, as they are when a run goes on.
pub(super) fn rows(text: &str) -> Option<Vec<RecordedRow>> {
    let entries = journal::entries(text)?.map(|entry| RecordedRow {
        time: entry.outcome.measurement().map(Measurement::median),
        family: entry.family,
        configuration: entry.parameters,
    });
    Some(entries.collect())
}
