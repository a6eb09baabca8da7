//! The interface of search strategies, and the spaces that they search.

use crate::model::Micros;
use crate::predict::Forecast;
use crate::space::LegalSpace;

/// A configuration by its family's place in the list and its rank among that family's legal ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pick {
    /// Which space.
    pub family: usize,
    /// Which of its configurations.
    pub rank: usize,
}

/// A space and where to begin in it.
#[derive(Debug, Clone)]
pub struct SearchSpace {
    /// The legal configurations.
    pub space: LegalSpace,
    /// The rank of the family's default, where that is legal.
    pub default: Option<usize>,
    /// Ranks of configurations that won elsewhere, the most telling first.
    pub hints: Vec<usize>,
    /// Ranks of the family's other defaults that are legal: each is good somewhere.
    pub seeds: Vec<usize>,
    /// What is expected of it.
    pub forecast: Option<Forecast>,
}

/// A family whose best is this many times slower than the best of all is left behind. A judgement:
/// on an H200 at 4096x4096x1024 the bests of the ladder's lower rungs are 2.9, 4.8 and 7.2 times
/// slower than that of the highest.
pub(super) const LEFT_BEHIND: f64 = 3.0;

/// Where the forecast of a family's default is this many times slower than the best forecast, not
/// even that is tried; where problems of the same run tell, none that is left behind.
pub(super) const OUT_OF_SIGHT: f64 = 10.0;

/// Chooses candidates. Several may be under way: answers come later, in the order of the questions.
pub trait Strategy {
    /// Up to `most` candidates, never one twice; none when there is none for now. If none is under
    /// way either, the search is over.
    fn propose(&mut self, most: usize) -> Vec<Pick>;

    /// What became of one: its time, or `None` where it failed.
    fn observe(&mut self, pick: Pick, time: Option<Micros>);

    /// The chance that a configuration is left that takes less than the best by more than the
    /// fraction `within`; none where the strategy knows nothing of the rest.
    fn chance_of_better(&self, within: f64) -> Option<f64> {
        let _ = within;
        None
    }

    /// How many more answers without a gain it takes until that chance is below `chance`; none
    /// where it is not known.
    fn answers_until(&self, within: f64, chance: f64) -> Option<usize> {
        let _ = (within, chance);
        None
    }

    /// The least time that models expect of the configurations that they looked at and that were
    /// not proposed for; none where there are no models.
    fn least_predicted(&self) -> Option<Micros> {
        None
    }
}
