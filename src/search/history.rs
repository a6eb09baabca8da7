//! History of a search: proposals and outcomes, and the first proposals of all strategies.

use std::collections::HashSet;

use fastrand::Rng;

use super::strategy::{LEFT_BEHIND, OUT_OF_SIGHT, Pick, SearchSpace};
use crate::model::Micros;
use crate::predict::Forecast;

/// The spaces, the proposals and the outcomes so far.
#[derive(Debug)]
pub(super) struct History {
    pub(super) search_spaces: Vec<SearchSpace>,
    proposed: HashSet<Pick>,
    /// Proposals of each family.
    counts: Vec<usize>,
    /// In the order of observation; `None` for failures.
    observed: Vec<(Pick, Option<f64>)>,
}

impl History {
    pub(super) fn new(search_spaces: Vec<SearchSpace>) -> Self {
        let counts = vec![0; search_spaces.len()];
        Self { search_spaces, proposed: HashSet::new(), counts, observed: Vec::new() }
    }

    /// Records a proposal; returns it if it is new.
    pub(super) fn propose(&mut self, pick: Pick) -> Option<Pick> {
        let new = self.proposed.insert(pick);
        self.counts[pick.family] += usize::from(new);
        new.then_some(pick)
    }

    pub(super) fn observe(&mut self, pick: Pick, time: Option<Micros>) {
        self.observed.push((pick, time.map(|time| time.0)));
    }

    pub(super) fn is_proposed(&self, pick: Pick) -> bool {
        self.proposed.contains(&pick)
    }

    pub(super) fn proposed(&self) -> usize {
        self.proposed.len()
    }

    /// Configurations of a family that were not proposed.
    pub(super) fn left(&self, family: usize) -> usize {
        self.search_spaces[family].space.len() - self.counts[family]
    }

    /// Logarithm of a configuration's predicted time in microseconds, or of the longest prediction where the forecast
    /// lacks it; 0 for families without predictions.
    pub(super) fn expected(&self, pick: Pick) -> f64 {
        let forecast = self.search_spaces[pick.family].forecast.as_ref();
        let Some(forecast) = forecast.filter(|forecast| forecast.times.is_some()) else {
            return 0.0;
        };
        let slow = || forecast.likely.last().and_then(|rank| forecast.time(*rank));
        forecast.time(pick.rank).or_else(slow).map_or(0.0, |time| time.0.ln())
    }

    /// Logarithm of the factor for compiling a configuration.
    pub(super) fn price(&self, pick: Pick) -> f64 {
        let forecast = self.search_spaces[pick.family].forecast.as_ref();
        forecast.map_or(0.0, |forecast| forecast.compile_factor(pick.rank).ln())
    }

    /// Correct configurations with their times.
    pub(super) fn correct(&self) -> impl Iterator<Item = (Pick, f64)> {
        self.observed.iter().filter_map(|(pick, time)| Some((*pick, (*time)?)))
    }

    /// Families with configurations left whose best is not `far` times slower than the best of all.
    pub(super) fn promising(&self, far: f64) -> Vec<usize> {
        let mut bests = vec![f64::INFINITY; self.search_spaces.len()];
        for (pick, time) in self.correct() {
            bests[pick.family] = bests[pick.family].min(time);
        }
        let best = bests.iter().copied().fold(f64::INFINITY, f64::min);
        let families = bests.iter().enumerate().filter(|(_, own)| **own <= far * best);
        families.map(|(family, _)| family).filter(|family| self.left(*family) > 0).collect()
    }

    /// First proposals, see [`starts`].
    pub(super) fn starts(&self) -> Vec<Pick> {
        starts(&self.search_spaces)
    }

    /// The first of these that was not proposed.
    pub(super) fn next_of(&self, picks: &[Pick]) -> Option<Pick> {
        picks.iter().copied().find(|pick| !self.is_proposed(*pick))
    }

    /// A random configuration of a family that was not proposed.
    pub(super) fn any_of(&self, family: usize, rng: &mut Rng) -> Option<Pick> {
        let len = self.search_spaces[family].space.len();
        if self.left(family) == 0 {
            return None;
        }
        // A few draws; then the next free one after a random place.
        let draws: Vec<usize> = (0..20).map(|_| rng.usize(..len)).collect();
        let start = draws[0];
        let ranks = draws.into_iter().chain(start..len).chain(0..start);
        ranks.map(|rank| Pick { family, rank }).find(|pick| !self.is_proposed(*pick))
    }

    /// A random configuration of these families, in shares by the logarithm of their remaining sizes.
    pub(super) fn any(&self, families: &[usize], rng: &mut Rng) -> Option<Pick> {
        let weight = |family: usize| (self.left(family) as f64 + 1.0).ln();
        let total: f64 = families.iter().map(|family| weight(*family)).sum();
        let mut at = rng.f64() * total;
        let mut drawn = families.iter().copied().filter(|family| self.left(*family) > 0);
        let family = drawn.clone().find(|family| {
            at -= weight(*family);
            at <= 0.0
        });
        self.any_of(family.or(drawn.next_back())?, rng)
    }

    /// All legal configurations that differ from one in one parameter.
    pub(super) fn neighbours(&self, of: Pick) -> Vec<Pick> {
        let space = &self.search_spaces[of.family].space;
        let mut indices = space.indices(of.rank).unwrap_or_default();
        let radices: Vec<usize> = space.radices().collect();
        let mut neighbours = Vec::new();
        for parameter in 0..indices.len() {
            let own = indices[parameter];
            for other in (0..radices[parameter]).filter(|index| *index != own) {
                indices[parameter] = other;
                let rank = space.rank_of(&indices);
                neighbours.extend(rank.map(|rank| Pick { family: of.family, rank }));
            }
            indices[parameter] = own;
        }
        neighbours
    }
}

/// First proposals: the default of every family, the hints of all, then the other defaults, where their predicted
/// times are low enough. Defaults are ordered by their forecasts; those of hopeless families come last or not at all.
pub(super) fn starts(search_spaces: &[SearchSpace]) -> Vec<Pick> {
    let slowness = slowness(search_spaces, |forecast| forecast.default);
    let mut forecasts =
        search_spaces.iter().filter_map(|search_space| search_space.forecast.as_ref());
    let has_corrections = forecasts.any(Forecast::is_corrected);
    let out_of_sight = if has_corrections { LEFT_BEHIND } else { OUT_OF_SIGHT };
    let mut defaults: Vec<(f64, Pick)> = search_spaces
        .iter()
        .enumerate()
        .filter_map(|(family, search_space)| {
            Some((slowness[family], Pick { family, rank: search_space.default? }))
        })
        .filter(|(slowness, _)| *slowness <= out_of_sight)
        .collect();
    defaults.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (hopeful, hopeless): (Vec<_>, Vec<_>) =
        defaults.into_iter().partition(|(slowness, _)| *slowness <= LEFT_BEHIND);
    let least = search_spaces.iter().filter_map(|search_space| {
        let forecast = search_space.forecast.as_ref()?;
        forecast.time(*forecast.likely.first()?)
    });
    let least = least.map(|time| time.0).fold(f64::INFINITY, f64::min);
    let is_serious = |pick: &Pick| {
        search_spaces[pick.family].forecast.as_ref().is_none_or(|forecast| {
            let time = forecast.time(pick.rank);
            time.is_none_or(|time| time.0 <= forecast.serious() * least)
        })
    };
    let hints = search_spaces.iter().enumerate().flat_map(|(family, search_space)| {
        search_space.hints.iter().map(move |rank| Pick { family, rank: *rank })
    });
    let hints = hints.filter(&is_serious);
    let [hopeful, hopeless] =
        [hopeful, hopeless].map(|defaults| defaults.into_iter().map(|(_, pick)| pick));
    let mut starts: Vec<Pick> = Vec::new();
    let seeds = search_spaces.iter().enumerate().flat_map(|(family, search_space)| {
        let seeds = search_space.seeds.iter().map(move |rank| Pick { family, rank: *rank });
        seeds.filter(|pick| slowness[pick.family] <= LEFT_BEHIND)
    });
    let seeds = seeds.filter(&is_serious);
    for pick in hopeful.chain(hints).chain(seeds).chain(hopeless) {
        if !starts.contains(&pick) {
            starts.push(pick);
        }
    }
    starts
}

/// Time of each family over the best of all, by a time of its forecast; 1 without a forecast.
pub(super) fn slowness(
    search_spaces: &[SearchSpace],
    time: impl Fn(&Forecast) -> Option<Micros>,
) -> Vec<f64> {
    let forecasts = || search_spaces.iter().map(|search_space| search_space.forecast.as_ref());
    let bests = forecasts().flatten().map(|forecast| forecast.best.0);
    let least = bests.fold(f64::INFINITY, f64::min);
    let own = |forecast: &Forecast| time(forecast).map(|time| time.0 / least);
    forecasts().map(|forecast| forecast.and_then(own).unwrap_or(1.0)).collect()
}
