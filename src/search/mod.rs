//! Which configurations to try next. A strategy is asked for candidates and told what became of
//! them; it renders, compiles and times nothing, and two runs with one seed and one history of
//! answers ask the same. [`replay`] plays strategies against recorded times.

mod evolve;
mod exhaustive;
mod field;
mod forest;
mod gaussian;
mod ledger;
mod local;
mod model;
mod outlook;
mod prospects;
mod random;
mod recording;
pub mod replay;
mod terrain;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

pub use outlook::WITHIN;
pub use recording::{Recording, Row, RowError};

use crate::model::Micros;
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
pub struct Territory {
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

/// What is expected of a family before anything was evaluated. Times are optimistic.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// The time of its best.
    pub best: Micros,
    /// The time of its default.
    pub default: Option<Micros>,
    /// Ranks of configurations that are likely to be fast, the likeliest first; at least one.
    pub likely: Vec<usize>,
    /// What each configuration is expected to take, by rank, where other problems tell it; infinity
    /// of those that nobody looked at.
    pub expected: Option<Vec<Micros>>,
    /// Where problems of the same run told what these times are off by: the ranks of kernels that they
    /// tried, which are compiled.
    pub tried: Option<HashSet<usize>>,
}

/// Defaults and winners of other problems that are expected to take this many times as long as the
/// least are left to the models, where times are expected: forecasts of an H200's kernels are nine times in
/// ten within 1.15 of what they take.
const NOT_SERIOUS: f64 = 1.25;

/// The same where problems of the same run told what the forecasts are off by: of 19 layers of a language
/// model the best was always among those of which at most 1.05 times the least was expected.
const NOT_SERIOUS_AMONG_KIN: f64 = 1.05;

/// How many times as long one may take that is compiled and be asked for in place of one that is not, among
/// problems of one run. Compiling takes 0.7 s of a core, trying what is compiled 12 ms of the device. 20 layers of
/// a language model, tuned together on an H200 with 16 cores, compiled 380 and 400 kernels with 1, 310 to 370 with
/// 1.01 to 1.03 and 280 with 1.04, and what was found was 0.6, 0.6 and 0.8 % behind the best that is known; with
/// 1.05 it was once 3.2 % at worst.
const UNCOMPILED: f64 = 1.04;

impl Forecast {
    /// Whether problems of the same run told what its times are off by.
    fn is_among_kin(&self) -> bool {
        self.tried.is_some()
    }

    /// By what an expected time is multiplied when it is weighed whether to ask for a kernel among kin.
    pub fn price(is_new: bool) -> f64 {
        if is_new { UNCOMPILED } else { 1.0 }
    }

    /// The price of a configuration.
    fn price_of(&self, rank: usize) -> f64 {
        Self::price(self.tried.as_ref().is_some_and(|tried| !tried.contains(&rank)))
    }

    /// What a configuration is expected to take, where that is known.
    fn expects(&self, rank: usize) -> Option<Micros> {
        let expected = self.expected.as_ref()?;
        expected.get(rank).copied().filter(|time| time.0.is_finite())
    }

    /// Takes in that none of its family takes less than this, by what problems of the same run tell.
    pub fn raise_to(&mut self, least: Micros) {
        for time in [Some(&mut self.best), self.default.as_mut()].into_iter().flatten() {
            time.0 = time.0.max(least.0);
        }
    }

    /// How many times as long as the least may be expected of what is worth a first question.
    fn not_serious(&self) -> f64 {
        if self.is_among_kin() { NOT_SERIOUS_AMONG_KIN } else { NOT_SERIOUS }
    }
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

    /// A search of `territories` at its beginning.
    pub fn begin(self, territories: Vec<Territory>, seed: u64) -> Box<dyn Strategy> {
        match self {
            Self::Auto => {
                let all: usize = territories.iter().map(|territory| territory.space.len()).sum();
                let search = if all <= SMALL { Self::Exhaustive } else { Self::Model };
                search.begin(territories, seed)
            }
            Self::Exhaustive => Box::new(exhaustive::Exhaustive::new(&territories)),
            Self::Random => Box::new(random::Random::new(territories, seed)),
            Self::Local => Box::new(local::Local::new(territories, seed)),
            Self::Evolve => Box::new(evolve::Evolve::new(territories, seed)),
            Self::Model => Box::new(model::Model::new(territories, seed)),
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
