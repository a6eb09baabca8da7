//! From what tuning a problem gave to the record of its winner.

use std::path::Path;

use super::{
    DatabaseError, LibraryTime, Provenance, Record, Recorded, Replace, Winner, record_winner,
};
use crate::model::Device;
use crate::tune::Summary;

/// Where a result comes from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The device that it was measured on.
    pub device: Device,
    /// The fingerprint of the winner's template.
    pub template_hash: String,
    /// The compiler's version.
    pub nvrtc: String,
    /// When it was measured.
    pub time: jiff::Timestamp,
    /// The run's seed.
    pub seed: u64,
}

/// Records a summary's winner; `None` where there is none.
///
/// # Errors
/// See [`DatabaseError`].
pub fn record_summary(
    summary: &Summary,
    origin: &Origin,
    path: &Path,
    replace: Replace,
) -> Result<Option<Recorded>, DatabaseError> {
    let Some(winner) = summary.winner() else { return Ok(None) };
    let libraries: Vec<LibraryTime> = summary
        .baselines
        .iter()
        .map(|baseline| LibraryTime::new(&baseline.name, baseline.measurement.median()))
        .collect();
    let record = Record::new(Winner {
        problem: &summary.problem,
        device: &origin.device,
        family: &winner.family,
        configuration: &winner.configuration,
        launch: &winner.plan,
        measurement: &winner.measurement,
        libraries: &libraries,
        validation: &winner.validation,
        resources: &winner.resources,
        provenance: Provenance {
            gemm_tune: env!("CARGO_PKG_VERSION").to_owned(),
            template_hash: origin.template_hash.clone(),
            nvrtc: origin.nvrtc.clone(),
            time: origin.time,
            seed: origin.seed,
            interim: summary.interim,
            command: None,
        },
    });
    record_winner(path, &record, replace).map(Some)
}
