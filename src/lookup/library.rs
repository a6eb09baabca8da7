//! The library as a candidate beside an answer's kernel: its time where it was measured or is forecast, and whether it is
//! preferred to the kernel.

use super::answer::{Answer, AnswerSource, Question};
use super::index::Lookup;
use crate::database::Record;
use crate::gpu::{Cublas, LibraryAlgorithm, WORKSPACE, algorithm_name, algorithm_of_name};
use crate::model::Micros;
use crate::predict::LibraryChoice;

/// Share of a measured time by which the library has to be faster than the kernel: medians of two finals differ by as
/// much.
const CLEARLY: f64 = 0.01;

/// What a call of `cublasSgemm` takes the host beside an H200: 6 to 14 us (docs/decisions/2026-11-26-library-time.md).
const LIBRARY_CALL: Micros = Micros(10.0);

/// Workspace that the library is measured with, which an algorithm uses at most.
const MOST_WORKSPACE: u64 = 32 << 20;

/// The library's call for a question, beside an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct LibraryCandidate {
    /// Which call: with the algorithm where it was measured.
    pub name: String,
    /// What makes the algorithm again; empty for cuBLAS and for forecasts.
    pub algorithm: LibraryAlgorithm,
    /// Its time.
    pub time: Micros,
    /// Whether the time was measured beside the kernel, for this very problem.
    pub is_measured: bool,
    /// Error in per cent that nine in ten forecasts are within.
    pub error_percent: Option<f64>,
    /// Whether it is the one to call: where both were measured, it is faster by 1 %; else the kernel's prediction is not below
    /// [`LibraryModel::to_beat`](crate::predict::LibraryModel::to_beat).
    pub is_preferred: bool,
}

impl LibraryCandidate {
    /// The sentence of an answer about the library, against the kernel's time.
    pub fn against(&self, kernel: Option<Micros>) -> String {
        let time = self.time;
        let word = if self.is_measured { "measured" } else { "predicted" };
        let kernel = kernel.map_or(String::new(), |kernel| format!(" against {kernel}"));
        let (library, algorithm) = match (self.algorithm.is_empty(), self.is_measured) {
            (true, true) => ("cuBLAS", String::new()),
            (true, false) => ("cuBLASLt", ", with the best of its algorithms".to_owned()),
            (false, _) => ("cuBLASLt", format!(", algorithm {}", algorithm_name(&self.algorithm))),
        };
        let is = match (self.is_preferred, self.is_measured) {
            (true, true) => "is faster here",
            (true, false) => "may be as fast here",
            (false, _) => "is not clearly faster",
        };
        format!("{library} {is}: {time} {word}{kernel}{algorithm}")
    }
}

impl Lookup {
    /// The library's call beside an answer; `None` where no routine computes the problem, where its time is neither
    /// recorded nor forecast, and for pinned records, of which only the recorded time counts.
    pub fn library(&self, question: &Question, answer: &Answer<'_>) -> Option<LibraryCandidate> {
        if Cublas::refusal(&question.problem).is_some() || self.device.is_cpu() {
            return None;
        }
        match answer.source {
            AnswerSource::Exact => {
                let library = measured_library(answer.record?)?;
                let needed = library.algorithm.get(WORKSPACE).copied().unwrap_or(MOST_WORKSPACE);
                let is_preferred = library.is_preferred && question.workspace >= needed;
                Some(LibraryCandidate { is_preferred, ..library })
            }
            _ => self.forecast_library(question, answer),
        }
    }

    fn forecast_library(
        &self,
        question: &Question,
        answer: &Answer<'_>,
    ) -> Option<LibraryCandidate> {
        let Question { problem, workspace, .. } = question;
        let model = self.predictor.library(problem, &self.device, LibraryChoice::Best);
        let model = model.filter(|_| !self.pinned)?;
        let forecast = model.forecast(problem, &self.device);
        let to_beat = model.to_beat(problem, &self.device, LIBRARY_CALL);
        let is_preferred = answer.predicted.is_some_and(|kernel| to_beat.0 < kernel.0);
        Some(LibraryCandidate {
            name: "cuBLASLt".to_owned(),
            algorithm: LibraryAlgorithm::new(),
            time: self.possible(problem, forecast.0),
            is_measured: false,
            error_percent: Some(model.error_percent),
            is_preferred: is_preferred && *workspace >= MOST_WORKSPACE,
        })
    }
}

/// Whether a measured time of the library is clearly below that of a kernel.
pub fn is_clearly_faster(library: Micros, kernel: Micros) -> bool {
    library.0 < (1.0 - CLEARLY) * kernel.0
}

/// The library's time of a record, for its own problem with any workspace.
pub fn measured_library(record: &Record) -> Option<LibraryCandidate> {
    let baseline = record.baseline.as_ref()?;
    let algorithm = match baseline.algorithm.is_empty() {
        true => algorithm_of_name(&baseline.name).unwrap_or_default(),
        false => baseline.algorithm.clone(),
    };
    let is_preferred = is_clearly_faster(Micros(baseline.median_us), record.median());
    Some(LibraryCandidate {
        name: baseline.name.clone(),
        algorithm,
        time: Micros(baseline.median_us),
        is_measured: true,
        error_percent: None,
        is_preferred,
    })
}
