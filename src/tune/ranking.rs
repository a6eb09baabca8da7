//! The ranking that a search ends with: correct candidates by their times, libraries, and how sure the winner is.

use crate::gpu::LibraryAlgorithm;
use crate::measure::{ConditionsRange, FinalEnd, MIN_ROUNDS, Margin};
use crate::model::{Configuration, LaunchPlan, Measurement, Resources, Validation};

/// The confidence of intervals, equal to that of the recorded finals.
pub(super) const CONFIDENCE: f64 = 0.96;

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

impl Standing {
    /// A library's time divided by its own: the estimate of a [`Margin`] from the rounds that both were sampled in. What
    /// both share, such as the clock of a round, cancels; it does not in the ratio of two medians, which is what is left
    /// for a candidate outside the final round.
    pub fn speedup_over(&self, library: &BaselineTime) -> f64 {
        if self.contested {
            return ratio(&library.measurement, &self.measurement);
        }
        median(&library.measurement) / median(&self.measurement)
    }
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

impl BaselineTime {
    /// Its time divided by another library's of the same final round.
    pub fn over(&self, other: &Self) -> f64 {
        ratio(&self.measurement, &other.measurement)
    }
}

/// Time of one entrant of a final round divided by another's: of the rounds that both were sampled in, if there are enough.
fn ratio(slower: &Measurement, faster: &Measurement) -> f64 {
    match slower.samples.len().min(faster.samples.len()) {
        MIN_ROUNDS.. => Margin::between(&slower.samples, &faster.samples, CONFIDENCE).ratio(),
        _ => median(slower) / median(faster),
    }
}

/// The time that measurements are ordered by, in microseconds.
pub(super) fn median(measurement: &Measurement) -> f64 {
    measurement.median().0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Micros, Regime, Timing};

    fn measurement(times: &[f64]) -> Measurement {
        Measurement {
            samples: times.iter().copied().map(Micros).collect(),
            launches_per_sample: 1,
            regime: Regime::default(),
            timing: Timing::Measured,
            sm_clock_mhz: None,
        }
    }

    /// The clock halves after ten rounds, and the library leaves two rounds later.
    #[test]
    fn a_ratio_compares_the_samples_of_a_round() {
        let own = measurement(&[vec![100.0; 10], vec![200.0; 10]].concat());
        let library = measurement(&[vec![110.0; 10], vec![220.0; 2]].concat());
        assert!((ratio(&library, &own) - 1.1).abs() < 1e-9, "{}", ratio(&library, &own));
        assert!(median(&library) / median(&own) < 0.75);
    }

    #[test]
    fn a_ratio_of_few_rounds_is_that_of_the_medians() {
        let (own, library) = (measurement(&[100.0, 101.0, 99.0]), measurement(&[120.0; 3]));
        assert!((ratio(&library, &own) - 1.2).abs() < 1e-12);
    }
}
