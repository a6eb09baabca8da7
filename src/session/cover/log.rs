//! The log of a map: its steps, a line each, so that an interrupted run goes on where it was. It lies beside the database
//! that the steps are recorded in.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::CoverStep;
use crate::files::{GrowingFile, OutputFile};

/// Why a log cannot be kept.
#[derive(Debug, Error)]
#[error("cannot keep the log of the map `{}`: {error}; make it writable, or choose another database with `--db FILE`", .path.display())]
pub struct CoverLogError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub error: io::Error,
}

/// The file of a map.
#[derive(Debug)]
pub struct CoverLog {
    output: OutputFile,
    file: GrowingFile,
}

impl CoverLog {
    /// Opens the log at a path, with the steps that it has; it is made with its first step. Lines that are no step, as one cut short, are skipped.
    ///
    /// # Errors
    /// [`CoverLogError`].
    pub fn open(path: &Path) -> Result<(Self, Vec<CoverStep>), CoverLogError> {
        let failed = |error| CoverLogError { path: path.to_owned(), error };
        let output = OutputFile::of(path).map_err(failed)?;
        let (mut file, bytes) = GrowingFile::open(path).map_err(failed)?;
        if bytes.last().is_some_and(|last| *last != b'\n') {
            file.append(b"\n").map_err(failed)?;
        }
        let mut steps: Vec<CoverStep> = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            let step: Option<CoverStep> = serde_json::from_slice(line).ok();
            let is_possible = |step: &CoverStep| {
                step.problem.check_size().is_ok()
                    && step.after_s.is_finite()
                    && step.log_regret.is_none_or(f64::is_finite)
                    && steps.iter().all(|other| other.problem != step.problem)
            };
            steps.extend(step.filter(is_possible));
        }
        Ok((Self { output, file }, steps))
    }

    /// Adds steps, all at once.
    ///
    /// # Errors
    /// [`CoverLogError`].
    pub fn add(&mut self, steps: &[CoverStep]) -> Result<(), CoverLogError> {
        let mut lines = Vec::new();
        let written = steps.iter().try_for_each(|step| {
            serde_json::to_writer(&mut lines, step)?;
            lines.push(b'\n');
            Ok(())
        });
        written
            .and_then(|()| self.output.make_folder())
            .and_then(|()| self.file.append(&lines))
            .map_err(|error| CoverLogError { path: self.file.path().to_owned(), error })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::model::{Dtype, Problem};

    #[test]
    fn steps_are_read_again_and_broken_lines_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cover").join("gpu.jsonl");
        let step = |m: u64, log_regret| CoverStep {
            problem: Problem::new(format!("{m}x8x9").parse().unwrap(), Dtype::F32),
            log_regret,
            at_random: m.is_multiple_of(2),
            trainings: 3,
            after_s: 1.5,
        };
        let (mut log, steps) = CoverLog::open(&path).unwrap();
        assert!(steps.is_empty());
        assert!(!path.parent().unwrap().exists(), "an empty log is not made");
        log.add(&[step(1, Some(0.25)), step(2, None)]).unwrap();
        log.add(&[step(1, Some(9.0))]).unwrap();
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"problem\":");
        fs::write(&path, text).unwrap();
        let (mut log, steps) = CoverLog::open(&path).unwrap();
        assert_eq!(steps, [step(1, Some(0.25)), step(2, None)]);
        log.add(&[step(3, None)]).unwrap();
        let (_, steps) = CoverLog::open(&path).unwrap();
        assert_eq!(steps.len(), 3, "a line after one that was cut short is whole");
    }
}
