//! Content of a page: the record and the journal of each problem.

use serde_json::{Value, json};

use super::super::plot;
use crate::database::Record;
use crate::model::{Device, Problem};
use crate::space::PrunedCount;
use crate::tune::Recorded;

/// The content for one problem on a device: a record, a journal or both.
#[derive(Debug, Clone, Default)]
pub struct ProblemReport<'a> {
    /// The winner.
    pub record: Option<&'a Record>,
    /// All evaluated configurations.
    pub journal: Option<&'a Recorded>,
    /// The winner's source, or the reason why there is none.
    pub source: Option<String>,
    /// Configurations that constraints removed, for the families of the journal.
    pub pruned: Vec<PrunedCount>,
}

impl ProblemReport<'_> {
    /// The problem; none for a record with words of a later version.
    pub fn problem(&self) -> Option<Problem> {
        let recorded = self.journal.map(|journal| journal.problem);
        recorded.or_else(|| Problem::try_from(&self.record?.problem).ok())
    }

    /// The device of the record.
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

/// Prefix of modelled figures.
pub(super) fn modelled(record: &Record) -> &'static str {
    if is_modelled(record) { "modelled " } else { "" }
}

/// Anchor of a section.
pub(super) fn id(number: usize) -> String {
    format!("problem-{}", number + 1)
}

/// A bar from the middle of 120 pixels; the ends are ratios of 1/4 and 4.
pub(super) fn ratio_bar(ratio: f64) -> Value {
    let length = (ratio.ln() / 4_f64.ln() * 60.0).clamp(-60.0, 60.0);
    let (x, class) = if length < 0.0 { (60.0 + length, "s1") } else { (60.0, "s2") };
    json!({ "x": plot::axis::tenths(x), "width": plot::axis::tenths(length.abs()), "class": class })
}
