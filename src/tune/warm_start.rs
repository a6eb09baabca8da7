//! What is known before a problem is tuned, by whoever knows it: this room reads no database.

use std::sync::Arc;

use super::prepare::Spaces;
use crate::model::Configuration;
use crate::predict::{LearnedModel, TransferModel};
use crate::search::{Pick, SearchSpace};

/// A configuration that won somewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    /// Its family.
    pub family: String,
    /// Its values.
    pub configuration: Configuration,
}

/// What is known of a problem. What is not legal for it, or of no family that serves it, is passed
/// over.
#[derive(Debug, Clone, Default)]
pub struct Hints {
    /// The record of this very problem. It is evaluated in any case and takes part in the final.
    pub record: Option<Hint>,
    /// What won for others, the most telling first. Tried right after the families' defaults.
    pub others: Vec<Hint>,
    /// What kernels took for other problems.
    pub experience: Arc<LearnedModel>,
    /// What they took for problems of the same run.
    pub transfer: Arc<TransferModel>,
}

impl Spaces {
    /// Where a hint is.
    fn find(&self, hint: &Hint) -> Option<Pick> {
        let family = self.families.iter().position(|known| known.name == hint.family)?;
        let rank = self.families[family].space.rank(&hint.configuration)?;
        Some(Pick { family, rank })
    }

    /// What is measured for many problems: the defaults of each family, and what won elsewhere.
    pub(super) fn landmarks(&self, hints: &Hints) -> Vec<(usize, Configuration)> {
        let defaults = self.families.iter().enumerate().flat_map(|(place, entry)| {
            entry.defaults().map(move |configuration| (place, configuration))
        });
        let mut landmarks: Vec<(usize, Configuration)> = defaults.collect();
        for hint in hints.record.iter().chain(&hints.others) {
            let found = self.find(hint).map(|pick| (pick.family, hint.configuration.clone()));
            landmarks.extend(found.filter(|found| !landmarks.contains(found)));
        }
        landmarks
    }

    /// Where the record is.
    pub(super) fn record(&self, hints: &Hints) -> Option<Pick> {
        self.find(hints.record.as_ref()?)
    }

    /// Where to search, and with which hints to begin, the record first; with none where everything
    /// is to be found anew.
    pub(super) fn search_spaces(&self, hints: &Hints, fresh: bool) -> Vec<SearchSpace> {
        let known = hints.record.iter().chain(&hints.others).filter(|_| !fresh);
        let known: Vec<Pick> = known.filter_map(|hint| self.find(hint)).collect();
        let territory = |(place, family): (usize, &super::prepare::FamilySpace)| {
            let own = known.iter().filter(|pick| pick.family == place);
            SearchSpace {
                space: family.space.clone(),
                default: family.default.as_ref().and_then(|default| family.space.rank(default)),
                hints: own.map(|pick| pick.rank).collect(),
                seeds: family.seeds.clone(),
                forecast: family.forecast.clone(),
            }
        };
        self.families.iter().enumerate().map(territory).collect()
    }
}
