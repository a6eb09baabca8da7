//! Turns the summary of a tuned problem into the record of its winner.

use std::path::Path;

use super::figures::round_us;
use super::{
    DatabaseError, LibraryTime, Provenance, Record, ReplacePolicy, StoreOutcome, StoredConditions,
    StoredConfidence, StoredFinalist, Winner, record_winner,
};
use crate::measure::ConditionsRange;
use crate::model::{Device, Problem};
use crate::tune::{BaselineTime, Certainty, FinalistRounds, Retimed, Summary};

/// Origin of a result.
#[derive(Debug, Clone)]
pub struct ResultOrigin {
    /// The device of the measurement.
    pub device: Device,
    /// Hash of the winner's template.
    pub template_hash: String,
    /// The compiler's version.
    pub nvrtc: String,
    /// When it was measured.
    pub time: jiff::Timestamp,
    /// The run's seed.
    pub seed: u64,
}

impl From<&Certainty> for StoredConfidence {
    fn from(certainty: &Certainty) -> Self {
        let margin = certainty.runner_up.as_ref().map(|(_, _, margin)| *margin);
        // Without enough rounds the ends of the interval are infinite; they are not stored.
        let interval = margin.filter(|margin| margin.high.is_finite());
        let hundredths = |percent: f64| (100.0 * percent).round() / 100.0;
        Self {
            runner_up: certainty.runner_up.as_ref().map(|(family, c, _)| format!("{family} {c}")),
            margin_percent: margin.map(|margin| hundredths(margin.percent)),
            interval_percent: interval.map(|margin| [margin.low, margin.high].map(hundredths)),
            rounds: certainty.rounds,
            tainted_rounds: certainty.tainted_rounds,
            ended: certainty.ended.to_string(),
            tie_set: (certainty.tie_set.iter().skip(1))
                .map(|(family, configuration)| format!("{family} {configuration}"))
                .collect(),
            finalists: certainty.finalists.iter().map(StoredFinalist::from).collect(),
        }
    }
}

impl From<&FinalistRounds> for StoredFinalist {
    fn from(FinalistRounds { family, configuration, log_ratios }: &FinalistRounds) -> Self {
        let ppm = |ratio: &f64| (1e6 * ratio).round() as i32;
        Self {
            kernel: format!("{family} {configuration}"),
            log_ratios_ppm: log_ratios.iter().map(ppm).collect(),
        }
    }
}

impl From<&ConditionsRange> for StoredConditions {
    fn from(range: &ConditionsRange) -> Self {
        let tenths = |watts: f64| (10.0 * watts).round() / 10.0;
        Self {
            sm_clock_mhz: range.sm_clock_mhz,
            power_w: range.power_w.map(|range| range.map(tenths)),
            temperature_c: range.temperature_c,
            throttle_reasons: range.throttle_reasons.clone(),
            other_processes: range.other_processes,
        }
    }
}

/// Writes the final of a verification into the file: the kernel that won it takes the place of the record, faster or
/// not. The record's landmarks stay. Returns the new record; `None` where no final was held.
///
/// # Errors
/// See [`DatabaseError`].
pub fn update_record(
    record: &Record,
    retimed: &Retimed,
    origin: &ResultOrigin,
    path: &Path,
) -> Result<Option<Record>, DatabaseError> {
    let (Some((winner, certainty)), Ok(problem)) =
        (&retimed.decided, Problem::try_from(&record.problem))
    else {
        return Ok(None);
    };
    let libraries = retimed.libraries.iter().map(|(library, _)| library);
    let libraries: Vec<LibraryTime> = libraries.map(LibraryTime::from).collect();
    let mut updated = Record::new(Winner {
        problem: &problem,
        device: &origin.device,
        family: &winner.family,
        configuration: &winner.configuration,
        launch: &winner.plan,
        measurement: &winner.measurement,
        confidence: Some(certainty.into()),
        conditions: Some((&certainty.conditions).into()),
        libraries: &libraries,
        speedup: retimed.libraries.first().map(|(library, _)| winner.speedup_over(library)),
        landmarks: &[],
        validation: &winner.validation,
        also_right_on: &winner.also,
        resources: &winner.resources,
        provenance: origin.provenance(record.provenance.interim),
    });
    updated.landmarks_us.clone_from(&record.landmarks_us);
    record_winner(path, &updated, ReplacePolicy::Always)?;
    Ok(Some(updated))
}

impl ResultOrigin {
    fn provenance(&self, interim: bool) -> Provenance {
        Provenance {
            gemm_tune: env!("CARGO_PKG_VERSION").to_owned(),
            template_hash: self.template_hash.clone(),
            nvrtc: self.nvrtc.clone(),
            time: self.time,
            seed: self.seed,
            interim,
            command: None,
        }
    }
}

impl From<&BaselineTime> for LibraryTime {
    fn from(baseline: &BaselineTime) -> Self {
        let (name, median_us) = (baseline.name.clone(), round_us(baseline.measurement.median()));
        Self { name, median_us, algorithm: baseline.algorithm.clone().unwrap_or_default() }
    }
}

/// Records a summary's winner; `None` where the summary has none.
///
/// # Errors
/// See [`DatabaseError`].
pub fn record_summary(
    summary: &Summary,
    origin: &ResultOrigin,
    path: &Path,
    replace: ReplacePolicy,
) -> Result<Option<StoreOutcome>, DatabaseError> {
    let Some(winner) = summary.winner() else { return Ok(None) };
    let libraries: Vec<LibraryTime> = summary.baselines.iter().map(LibraryTime::from).collect();
    let record = Record::new(Winner {
        problem: &summary.problem,
        device: &origin.device,
        family: &winner.family,
        configuration: &winner.configuration,
        launch: &winner.plan,
        measurement: &winner.measurement,
        confidence: summary.certainty.as_ref().map(StoredConfidence::from),
        conditions: summary.certainty.as_ref().map(|certainty| (&certainty.conditions).into()),
        libraries: &libraries,
        speedup: summary.speedup(),
        landmarks: &summary.landmarks,
        validation: &winner.validation,
        also_right_on: &winner.also,
        resources: &winner.resources,
        provenance: origin.provenance(summary.is_interim()),
    });
    record_winner(path, &record, replace).map(Some)
}
