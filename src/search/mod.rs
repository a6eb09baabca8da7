//! Which configurations to try next. A strategy is asked for candidates and told what became of
//! them; it renders, compiles and times nothing, and two runs with one seed and one history of
//! answers ask the same.

mod exhaustive;
mod explore;

pub use exhaustive::Exhaustive;
pub use explore::Explore;

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
}

/// Chooses candidates. Several may be under way: answers come later, in the order of the questions.
pub trait Strategy {
    /// The next candidate, never one twice; `None` when there is none for now. If none is under
    /// way either, the search is over.
    fn ask(&mut self) -> Option<Pick>;

    /// What became of one: its time, or `None` where it failed.
    fn tell(&mut self, pick: Pick, time: Option<Micros>);
}

/// The strategy for a budget: all configurations where they fit, exploration otherwise.
pub fn strategy(territories: Vec<Territory>, budget: usize, seed: u64) -> Box<dyn Strategy> {
    let all: usize = territories.iter().map(|territory| territory.space.len()).sum();
    if all <= budget {
        Box::new(Exhaustive::new(&territories))
    } else {
        Box::new(Explore::new(territories, budget, seed))
    }
}
