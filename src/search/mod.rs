//! Which configurations to try next. A strategy is asked for candidates and told what became of
//! them; it renders, compiles and times nothing, and two runs with one seed and one history of
//! answers ask the same. [`replay`] plays strategies against recorded times.

mod acquisition;
mod encoding;
mod evolve;
mod exhaustive;
mod forest;
mod gaussian;
mod history;
mod local;
mod model_based;
mod random;
mod recording;
pub mod replay;
mod stopping;
mod surrogate;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

pub use recording::{Recording, Row, RowError};
pub use stopping::WITHIN;

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
const LEFT_BEHIND: f64 = 3.0;

/// Where the forecast of a family's default is this many times slower than the best forecast, not
/// even that is tried; where problems of the same run tell, none that is left behind.
const OUT_OF_SIGHT: f64 = 10.0;

/// Chooses candidates. Several may be under way: answers come later, in the order of the questions.
pub trait Strategy {
    /// Up to `most` candidates, never one twice; none when there is none for now. If none is under
    /// way either, the search is over.
    fn ask(&mut self, most: usize) -> Vec<Pick>;

    /// What became of one: its time, or `None` where it failed.
    fn tell(&mut self, pick: Pick, time: Option<Micros>);

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
    /// not asked for; none where there are no models.
    fn least_expected(&self) -> Option<Micros> {
        None
    }
}

/// Spaces up to this size are tried whole: the models' first questions take a third of them, and
/// there is little to gain by choosing among the rest.
const SMALL: usize = 48;

/// The strategies, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// The default: `exhaustive` for small spaces, `model` for others.
    Auto,
    /// All configurations, defaults and hints first.
    Exhaustive,
    /// Defaults, then any.
    Random,
    /// Descents from random places along changes of one parameter, with kicks from the best.
    Local,
    /// Offspring and neighbours of the best.
    Evolve,
    /// What models of the answers promise most of.
    Model,
}

/// A word that names no strategy.
#[derive(Debug, Error)]
#[error("`{word}` is no search: choose one of {}", Search::ALL.map(Search::name).join(", "))]
pub struct UnknownSearch {
    word: String,
}

impl Search {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Exhaustive, Self::Random, Self::Local, Self::Evolve, Self::Model];

    /// The name that is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Exhaustive => "exhaustive",
            Self::Random => "random",
            Self::Local => "local",
            Self::Evolve => "evolve",
            Self::Model => "model",
        }
    }

    /// A search of `search_spaces` at its beginning.
    pub fn begin(self, search_spaces: Vec<SearchSpace>, seed: u64) -> Box<dyn Strategy> {
        match self {
            Self::Auto => {
                let all: usize = search_spaces.iter().map(|territory| territory.space.len()).sum();
                let search = if all <= SMALL { Self::Exhaustive } else { Self::Model };
                search.begin(search_spaces, seed)
            }
            Self::Exhaustive => Box::new(exhaustive::Exhaustive::new(&search_spaces)),
            Self::Random => Box::new(random::Random::new(search_spaces, seed)),
            Self::Local => Box::new(local::Local::new(search_spaces, seed)),
            Self::Evolve => Box::new(evolve::Evolve::new(search_spaces, seed)),
            Self::Model => Box::new(model_based::ModelBased::new(search_spaces, seed)),
        }
    }
}

impl FromStr for Search {
    type Err = UnknownSearch;

    fn from_str(word: &str) -> Result<Self, UnknownSearch> {
        let known = Self::ALL.into_iter().find(|search| search.name() == word);
        known.ok_or_else(|| UnknownSearch { word: word.to_owned() })
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
