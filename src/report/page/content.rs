//! The content of a report: what is known of each problem.

use crate::database::Record;
use crate::model::{Device, Problem};
use crate::space::Pruned;
use crate::tune::Recorded;

/// What is known of a problem on a device; a record or a journal at least.
#[derive(Debug, Clone, Default)]
pub struct ProblemReport<'a> {
    /// The winner.
    pub record: Option<&'a Record>,
    /// All that was evaluated.
    pub journal: Option<&'a Recorded>,
    /// The winner's source, or why there is none.
    pub source: Option<String>,
    /// What constraints removed of the families that the journal has.
    pub pruned: Vec<Pruned>,
}

impl ProblemReport<'_> {
    /// The problem; none where a record has words of a later version.
    pub fn problem(&self) -> Option<Problem> {
        let recorded = self.journal.map(|journal| journal.problem);
        recorded.or_else(|| Problem::try_from(&self.record?.problem).ok())
    }

    /// The device, as far as a record tells.
    pub fn device(&self) -> Option<Device> {
        Device::try_from(&self.record?.device).ok()
    }

    pub(super) fn device_name(&self) -> &str {
        let recorded = self.record.map(|record| record.device.name.as_str());
        recorded.or_else(|| Some(self.journal?.device.as_str())).unwrap_or_default()
    }
}

pub(super) fn is_modelled(record: &Record) -> bool {
    record.measurement.timing.is_some()
}

/// The word before figures that no clock gave.
pub(super) fn modelled(record: &Record) -> &'static str {
    if is_modelled(record) { "modelled " } else { "" }
}

/// What a case's section is linked by.
pub(super) fn id(number: usize) -> String {
    format!("problem-{}", number + 1)
}
