//! Search strategies: they propose configurations and observe their outcomes. They render, compile and time nothing;
//! with one seed and one history of outcomes they propose the same. [`replay`] runs them on recorded times.

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
mod strategy;
mod surrogate;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

pub use recording::{RecordedRow, Recording, RowError};
pub use stopping::{LEAST_CHANCE, WITHIN};
pub use strategy::{Pick, SearchSpace, Strategy};

/// Largest space that is evaluated whole: the models' first proposals are a third of it.
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
    /// Descents along changes of one parameter, restarted near the best.
    Local,
    /// Offspring and neighbours of the best.
    Evolve,
    /// The configurations with the most expected improvement by models.
    Model,
}

/// Unknown name of a strategy.
#[derive(Debug, Error)]
#[error("`{word}` is no search: choose one of {}", Search::ALL.map(Search::name).join(", "))]
pub struct UnknownSearch {
    word: String,
}

impl Search {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Exhaustive, Self::Random, Self::Local, Self::Evolve, Self::Model];

    /// The name on the command line.
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

    /// Starts a search of `search_spaces`.
    pub fn begin(self, search_spaces: Vec<SearchSpace>, seed: u64) -> Box<dyn Strategy> {
        match self {
            Self::Auto => {
                let all: usize =
                    search_spaces.iter().map(|search_space| search_space.space.len()).sum();
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
