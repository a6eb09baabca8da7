//! Shows a session: the progress of its problems, and their results.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::console::Console;
use super::progress::{ProgressBoard, TuneProgress};
use crate::database::StoreOutcome;
use crate::model::Device;
use crate::report::table::View;
use crate::report::{covered, json as documents, tuned};
use crate::session::{ProblemOutcome, ProblemResult, SessionEvent, SessionStep, StepEvent};
use crate::tune::Summary;

/// Draws progress and prints results.
pub(super) struct SessionDisplay {
    board: ProgressBoard,
    view: View,
    device: Device,
    database: PathBuf,
    running: Mutex<HashMap<SessionStep, TuneProgress>>,
}

impl SessionDisplay {
    pub(super) fn new(console: Console, device: &Device, database: &Path) -> Self {
        Self {
            board: ProgressBoard::new(console),
            view: console.view(),
            device: device.clone(),
            database: database.to_owned(),
            running: Mutex::default(),
        }
    }

    pub(super) fn event(&self, event: &SessionEvent<'_>) {
        match event {
            SessionEvent::Started { lanes, .. } => self.board.name_problems(*lanes > 1),
            SessionEvent::Step(step, StepEvent::Begun) => {
                let progress =
                    TuneProgress::new(&self.board, step.problem, &self.device, step.stage);
                self.running.lock().insert(*step, progress);
            }
            SessionEvent::Step(step, StepEvent::Progress(event)) => {
                if let Some(progress) = self.running.lock().get_mut(step) {
                    progress.event(event);
                }
            }
            SessionEvent::Step(step, StepEvent::Ended) => {
                let ended = self.running.lock().remove(step);
                if let Some(progress) = ended {
                    progress.finish();
                }
            }
            SessionEvent::Finished(result) => self.result(&result.outcome),
        }
    }

    /// Prints the result of a problem.
    fn result(&self, outcome: &ProblemOutcome) {
        match outcome {
            ProblemOutcome::Won { summary, recorded } => {
                let verdict = tuned::verdict(summary, &self.device, self.view.verbose);
                let (_, text) = recorded_words(*recorded, &self.database);
                let tables = self.tables(summary);
                self.board.result(&format!("\n{tables}\n{verdict}  {text}\n"));
            }
            ProblemOutcome::NoWinner(summary) => {
                self.board.result(&format!("\n{}", self.tables(summary)));
                let verdict = tuned::verdict(summary, &self.device, self.view.verbose);
                if summary.is_interim() {
                    self.board.note(verdict.trim_end());
                } else {
                    self.board.error(verdict.trim_end());
                }
            }
            ProblemOutcome::Failed(error) => self.board.error(&error.to_string()),
        }
    }

    /// The ranking and the coverage of a search.
    fn tables(&self, summary: &Summary) -> String {
        format!(
            "{}\n{}{}",
            tuned::ranking(summary, &self.device, self.view),
            tuned::coverage(summary, self.view.style),
            covered::text(summary, self.view.verbose)
        )
    }
}

/// The JSON document of a result.
pub(super) fn document(result: &ProblemResult, device: &Device) -> Value {
    let failed = |message: &str| json!({ "problem": documents::problem_document(&result.problem), "error": message });
    match &result.outcome {
        ProblemOutcome::Won { summary, recorded } => {
            let mut document = documents::summary(summary, device);
            document["recorded"] = json!(recorded_words(*recorded, Path::new("")).0);
            document
        }
        ProblemOutcome::NoWinner(summary) => {
            failed(tuned::verdict(summary, device, true).trim_end())
        }
        ProblemOutcome::Failed(error) => failed(&error.to_string()),
    }
}

/// What the database did with a record, in a word and in a sentence.
fn recorded_words(recorded: Option<StoreOutcome>, database: &Path) -> (&'static str, String) {
    let path = database.display();
    match recorded {
        None => ("nothing", "nothing recorded".to_owned()),
        Some(StoreOutcome::Added) => ("added", format!("recorded in {path}")),
        Some(StoreOutcome::Replaced { before }) => {
            ("replaced", format!("recorded in {path}, in place of one of {before}"))
        }
        Some(StoreOutcome::Kept { stored }) => (
            "kept",
            format!("{path} keeps its record of {stored}, which is faster (`--force` replaces)"),
        ),
    }
}
