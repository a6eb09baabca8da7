//! The interface of search strategies, and the spaces that they search.

use crate::model::Micros;
use crate::predict::Forecast;
use crate::space::LegalSpace;

/// A configuration: the index of its family's space and its rank in that space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pick {
    /// Index of the space.
    pub family: usize,
    /// Rank of the configuration.
    pub rank: usize,
}

/// A space and its warm start.
#[derive(Debug, Clone)]
pub struct SearchSpace {
    /// The legal configurations.
    pub space: LegalSpace,
    /// The rank of the family's default, where that is legal.
    pub default: Option<usize>,
    /// Ranks of winners of other problems, the most similar first.
    pub hints: Vec<usize>,
    /// Ranks of the family's other legal defaults.
    pub seeds: Vec<usize>,
    /// Its forecast.
    pub forecast: Option<Forecast>,
}

/// Time over the best of all from which a family is left behind. A judgement: the lower steps of the ladder are 2.9
/// to 7.2 times slower at 4096x4096x1024 on an H200.
pub(super) const LEFT_BEHIND: f64 = 3.0;

/// Forecast of a family's default over the best forecast from which not even that is evaluated; with corrected
/// forecasts, none that is left behind is.
pub(super) const OUT_OF_SIGHT: f64 = 10.0;

/// Proposes configurations. Several may be under evaluation; outcomes come in the order of the proposals.
pub trait Strategy {
    /// Proposes up to `most` configurations, none twice. An empty proposal with nothing under evaluation ends the
    /// search.
    fn propose(&mut self, most: usize) -> Vec<Pick>;

    /// Observes an outcome: a time, or `None` after a failure.
    fn observe(&mut self, pick: Pick, time: Option<Micros>);

    /// Probability that a configuration is left that is faster than the best by more than the fraction `within`;
    /// `None` where the strategy has no model of it.
    fn chance_of_better(&self, within: f64) -> Option<f64> {
        let _ = within;
        None
    }

    /// Further outcomes without a gain until that probability is below `chance`; `None` where the strategy has no model of
    /// it.
    fn answers_until(&self, within: f64, chance: f64) -> Option<usize> {
        let _ = (within, chance);
        None
    }

    /// Lowest predicted time of the scored configurations that were not proposed; `None` without models.
    fn least_predicted(&self) -> Option<Micros> {
        None
    }
}
