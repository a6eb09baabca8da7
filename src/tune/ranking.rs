//! The ranking that a search ends with: correct candidates by their times, libraries, and how sure the winner is.

use crate::gpu::LibraryAlgorithm;
use crate::measure::{ConditionsRange, FinalEnd, Margin};
use crate::model::{Configuration, LaunchPlan, Measurement, Resources, Validation};

/// A correct candidate with its measurement.
#[derive(Debug, Clone)]
pub struct Standing {
    /// Its family.
    pub family: String,
    /// Its configuration.
    pub configuration: Configuration,
    /// How it is launched.
    pub plan: LaunchPlan,
    /// Its validation.
    pub validation: Validation,
    /// Extra checks that it passed as a finalist: other values, a second run with the same bits or within the bound,
    /// other shapes.
    pub also: Vec<String>,
    /// Its time: from the final round where it took part, otherwise from its own samples.
    pub measurement: Measurement,
    /// Registers, memory and occupancy.
    pub resources: Resources,
    /// Whether it took part in the final round.
    pub contested: bool,
}

/// How sure a winner is, from the final round.
#[derive(Debug, Clone)]
pub struct Certainty {
    /// The fastest other candidate: its family and configuration, and by how much it is slower.
    pub runner_up: Option<(String, Configuration, Margin)>,
    /// Rounds that the winner was sampled in.
    pub rounds: usize,
    /// Rounds that were discarded.
    pub tainted_rounds: usize,
    /// Why the first of them was discarded.
    pub taint: Option<String>,
    /// The candidates that tie, the winner first; the winner alone where there is no tie.
    pub tie_set: Vec<(String, Configuration)>,
    /// Why no more rounds were taken.
    pub ended: FinalEnd,
    /// What the sensors showed over the rounds.
    pub conditions: ConditionsRange,
    /// All finalists with their rounds, in the order that breaks ties.
    pub finalists: Vec<FinalistRounds>,
}

/// The rounds of a finalist.
#[derive(Debug, Clone)]
pub struct FinalistRounds {
    /// Its family.
    pub family: String,
    /// Its configuration.
    pub configuration: Configuration,
    /// Logarithm of its sample over the winner's, for each round that it was sampled in.
    pub log_ratios: Vec<f64>,
}

/// A library's time in the final round.
#[derive(Debug, Clone)]
pub struct BaselineTime {
    /// Which routine of which library.
    pub name: String,
    /// What makes its algorithm again; none for cuBLAS.
    pub algorithm: Option<LibraryAlgorithm>,
    /// Its samples.
    pub measurement: Measurement,
}

/// The time that measurements are ordered by, in microseconds.
pub(super) fn median(measurement: &Measurement) -> f64 {
    measurement.median().0
}
