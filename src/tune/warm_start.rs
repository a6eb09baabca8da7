//! Knowledge before a problem is tuned: its warm start and the predictor. This room reads no database.

use std::sync::Arc;

use super::prepare::{FamilySpace, Spaces};
use crate::model::{Configuration, Hint, WarmStart};
use crate::predict::Predictor;
use crate::search::{Pick, SearchSpace};

/// Knowledge about a problem. Hints that are not legal for it, or of no family that serves it, are skipped.
#[derive(Debug, Clone, Default)]
pub struct Hints {
    /// Kernels to start with.
    pub start: WarmStart,
    /// Predicts kernels of the device.
    pub predictor: Arc<Predictor>,
}

impl Hints {
    /// All kernels to start with, the record first.
    fn kernels(&self) -> impl Iterator<Item = &Hint> {
        self.start.record.iter().chain(&self.start.others)
    }
}

impl Spaces {
    /// The place of a hint in the spaces.
    fn find(&self, hint: &Hint) -> Option<Pick> {
        let family = self.families.iter().position(|known| known.name == hint.family)?;
        let rank = self.families[family].space.rank(&hint.configuration)?;
        Some(Pick { family, rank })
    }

    /// The kernels that are measured for many problems: the defaults of each family, and the hints.
    pub(super) fn landmarks(&self, hints: &Hints) -> Vec<(usize, Configuration)> {
        let defaults = self.families.iter().enumerate().flat_map(|(place, entry)| {
            entry.defaults().map(move |configuration| (place, configuration))
        });
        let mut landmarks: Vec<(usize, Configuration)> = defaults.collect();
        for hint in hints.kernels() {
            let found = self.find(hint).map(|pick| (pick.family, hint.configuration.clone()));
            landmarks.extend(found.filter(|found| !landmarks.contains(found)));
        }
        landmarks
    }

    /// The place of the record.
    pub(super) fn record(&self, hints: &Hints) -> Option<Pick> {
        self.find(hints.start.record.as_ref()?)
    }

    /// The spaces of a search with their hints, the record first; without hints for a `fresh` search.
    pub(super) fn search_spaces(&self, hints: &Hints, fresh: bool) -> Vec<SearchSpace> {
        let known = hints.kernels().filter(|_| !fresh);
        let known: Vec<Pick> = known.filter_map(|hint| self.find(hint)).collect();
        let search_space = |(place, family): (usize, &FamilySpace)| {
            let own = known.iter().filter(|pick| pick.family == place);
            SearchSpace {
                space: family.space.clone(),
                default: family.default.as_ref().and_then(|default| family.space.rank(default)),
                hints: own.map(|pick| pick.rank).collect(),
                seeds: family.seeds.clone(),
                forecast: family.forecast.clone(),
            }
        };
        self.families.iter().enumerate().map(search_space).collect()
    }
}
