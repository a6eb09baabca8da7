//! Reads recorded spaces for `replay`: cache files of Kernel Tuner, results of the T4 format, and
//! this program's journals, plain or compressed by gzip. The content of a file decides its format.

mod entry;
mod informed;
mod journal;
mod kernel_tuner;
mod t4;
mod times;

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use thiserror::Error;

use crate::files::{self, InputKind};
use crate::model::{Device, Micros};
use crate::predict::{LearnedModelError, Predictor};
use crate::search::Recording;
use crate::space::Families;
use crate::tune::journal::{BEGINNING as JOURNAL_BEGINNING, Recorded, no_journal};
use entry::RecordingFault;
pub use times::MeasuredTimes;

/// Why a file is no recorded space.
#[derive(Debug, Error)]
#[error("{}{}: {reason}", .path.display(), .at.map_or(String::new(), |(line, column)| format!(":{line}:{column}")))]
pub struct RecordingError {
    /// The file.
    pub path: PathBuf,
    /// Line and column, from 1, where they are known.
    pub at: Option<(usize, usize)>,
    /// What is wrong.
    pub reason: String,
}

/// Reads a recorded space.
///
/// # Errors
/// [`RecordingError`]: where the file cannot be read, and what about it makes no sense.
pub fn read_recording(path: &Path) -> Result<Recording, RecordingError> {
    read(path, recording)
}

/// Reads a journal of this program as a recorded space with the knowledge of a search: the defaults of
/// `families`, and forecasts of the predictor for the journal's device.
///
/// # Errors
/// [`RecordingError`]: as of [`read_recording`], where it is no journal, or of a device or of families alone that are not
/// known here, and what `predictor_for` refuses.
pub fn read_informed(
    path: &Path,
    families: &Families,
    predictor_for: impl Fn(&Device) -> Result<Predictor, LearnedModelError>,
) -> Result<Recording, RecordingError> {
    read(path, |text| informed::recording(text, families, &predictor_for))
}

/// Reads the bytes of a file of any form, compressed by gzip or not; `path` is for messages.
///
/// # Errors
/// [`RecordingError`].
pub fn parse_recording(bytes: &[u8], path: &Path) -> Result<Recording, RecordingError> {
    let bytes = files::decompressed(bytes.to_vec(), InputKind::RecordedSpace);
    parsed(path, bytes, recording)
}

/// Reads a journal of this program, compressed by gzip or not. Lines that are no outcome are skipped and listed.
///
/// # Errors
/// [`RecordingError`].
pub fn read_journal(path: &Path) -> Result<Recorded, RecordingError> {
    read(path, journal_of)
}

fn journal_of(text: &str) -> Result<Recorded, RecordingFault> {
    Recorded::parse(text).ok_or_else(|| RecordingFault::somewhere(no_journal(text)))
}

/// Reads a file of measured times, or those of a journal.
///
/// # Errors
/// [`RecordingError`].
pub fn read_measured_times(path: &Path) -> Result<MeasuredTimes, RecordingError> {
    read(path, |text| {
        if text.starts_with(times::BEGINNING) {
            return MeasuredTimes::parse(text);
        }
        let recorded = journal_of(text)?;
        Ok(MeasuredTimes::from(&recorded))
    })
}

/// What `parse` makes of a file's text.
fn read<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, RecordingFault>,
) -> Result<T, RecordingError> {
    parsed(path, files::read_decompressed(path, InputKind::RecordedSpace), parse)
}

fn parsed<T>(
    path: &Path,
    bytes: io::Result<Vec<u8>>,
    parse: impl FnOnce(&str) -> Result<T, RecordingFault>,
) -> Result<T, RecordingError> {
    let failed = |fault: RecordingFault| RecordingError {
        path: path.to_owned(),
        at: fault.at,
        reason: fault.reason,
    };
    let bytes = bytes
        .map_err(|error| failed(RecordingFault::somewhere(format!("cannot be read: {error}"))))?;
    text(&bytes).and_then(parse).map_err(failed)
}

/// A file's bytes as text.
fn text(bytes: &[u8]) -> Result<&str, RecordingFault> {
    str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let at = Some((line, before.len() - line_start + 1));
        RecordingFault { at, reason: "a byte that is no UTF-8".to_owned() }
    })
}

/// The space that a text is of.
fn recording(text: &str) -> Result<Recording, RecordingFault> {
    let rows = if let Some(rows) = journal::rows(text) {
        rows
    } else if text.starts_with(JOURNAL_BEGINNING) {
        return Err(RecordingFault::somewhere(no_journal(text)));
    } else {
        let closed = kernel_tuner::closed(text);
        let document: Json = json(&closed)?;
        if document.get("cache").is_some() {
            kernel_tuner::rows(json(&closed)?)?
        } else if document.get("results").is_some() {
            t4::rows(json(&closed)?)?
        } else {
            return Err(RecordingFault::somewhere(
                "neither a Kernel Tuner cache (`cache`), nor T4 results (`results`), nor a journal \
                 of this program",
            ));
        }
    };
    let is_time = |time: Micros| time.0.is_finite() && time.0 > 0.0;
    if let Some((place, time)) = (1..)
        .zip(&rows)
        .find_map(|(place, row)| Some((place, row.time.filter(|time| !is_time(*time))?)))
    {
        return Err(RecordingFault::somewhere(format!(
            "entry {place} has the time {} us: times are above 0 and finite",
            time.0
        )));
    }
    Ok(Recording::new(&rows)?)
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, RecordingFault> {
    Ok(serde_json::from_str(text)?)
}

#[cfg(test)]
mod tests;
