//! Model-based search: a forest and a Gaussian process predict the times of the pool, and the acquisition functions
//! pick the next batch. The first proposals are spread over the space, or follow the predictions. Every family has
//! surrogates of its own, of logarithms of times; families that are far behind are dropped.
//!
//! The reasons for the constants stand in docs/decisions/2026-11-23-search-constants.md.

use std::ops::RangeInclusive;

use fastrand::Rng;
use rayon::prelude::*;

use super::acquisition::{AT_ONCE, Acquisition, PoolEntry, TimeLevels};
use super::encoding::{EncodedPoint, Encoding};
use super::history::{History, slowness};
use super::stopping::StoppingRule;
use super::strategy::{LEFT_BEHIND, Pick, SearchSpace, Strategy};
use super::surrogate::Surrogate;
use crate::model::Micros;
use crate::model::statistics::quantile;
use crate::predict::SERIOUS;

/// First proposals to a family: two for each axis, within these.
const FIRST: RangeInclusive<usize> = 4..=16;

/// Quantile of the times above which the process clips them, and while there are few.
const FOLLOWED: f64 = 0.5;
const FOLLOWED_OF_FEW: f64 = 0.75;
const FEW: usize = 100;

/// Forecast over the best from which a family gets half of the first proposals. A judgement.
const DOUBTFUL: f64 = 1.5;

/// With predictions, number of first proposals, also after corrections: of the configurations with the lowest
/// predicted times those that differ in at least two parameters.
const PREDICTED_FIRST: usize = 16;
const CORRECTED_FIRST: usize = 12;
const CHOSEN_FROM: usize = 200;
const DIFFERENT: usize = 2;

/// Random configurations of which the farthest from all others is proposed.
const DRAWN: usize = 300;

/// Random configurations in the pool of a batch, and the best of the last pool.
const POOL: usize = 1500;
const LEADS: usize = 1000;

/// The best so far, whose neighbours enter the pool, and near which further ones are picked.
const CENTRES: usize = 10;

/// Outcomes without a gain of 0.1 % after which half of the picks are random.
const STAGNATION: usize = 24;
const GAIN: f64 = 1e-3;

/// Share of random picks near the best: half of them a few changes away, half crossovers with another configuration.
const AROUND: f64 = 0.5;
const MOST_CHANGES: usize = 3;
const ATTEMPTS: usize = 300;

/// Every second crossover is with one of so many of the best.
const MATES: usize = 30;

/// See the module.
#[derive(Debug)]
pub(super) struct ModelBased {
    history: History,
    rng: Rng,
    surrogates: Vec<Surrogate>,
    /// Time of each family over the best, by forecasts.
    slowness: Vec<f64>,
    /// Proposals before those of the models, in reverse order.
    seeds: Vec<Pick>,
    /// Number of first proposals.
    firsts: usize,
    observed: usize,
    best: f64,
    /// Outcomes at the last gain.
    gained_at: usize,
    /// The best of the last pool.
    leads: Vec<Pick>,
    /// Logarithm of the lowest predicted time in the last pool.
    least: Option<f64>,
    /// Position in the sequence of acquisition functions.
    turn: f64,
}

impl ModelBased {
    pub(super) fn new(search_spaces: Vec<SearchSpace>, seed: u64) -> Self {
        let slowness = slowness(&search_spaces, |forecast| Some(forecast.best));
        let encodings = search_spaces.iter().map(|search_space| Encoding::of(&search_space.space));
        let surrogates = encodings.zip(&search_spaces).map(|(encoding, search_space)| {
            let forecast = search_space.forecast.as_ref();
            Surrogate::new(encoding, forecast.is_some_and(|forecast| forecast.times.is_some()))
        });
        let surrogates = surrogates.collect();
        let history = History::new(search_spaces);
        let mut seeds = promising_first(&history.search_spaces, &slowness);
        seeds.extend(history.starts());
        seeds.reverse();
        Self {
            history,
            rng: Rng::with_seed(seed),
            surrogates,
            slowness,
            seeds,
            firsts: 0,
            observed: 0,
            best: f64::INFINITY,
            gained_at: 0,
            leads: Vec::new(),
            least: None,
            turn: 0.0,
        }
    }

    /// Records a proposal; returns it if it is new.
    fn note(&mut self, pick: Pick) -> Option<Pick> {
        let pick = self.history.propose(pick)?;
        let indices = self.history.search_spaces[pick.family].space.indices(pick.rank)?;
        self.surrogates[pick.family].propose(pick, &indices, self.history.expected(pick));
        Some(pick)
    }

    /// The stopping rule for the family of the best.
    fn stopping_rule(&self) -> StoppingRule {
        let best = self.history.correct().min_by(|a, b| a.1.total_cmp(&b.1));
        let forecast =
            best.and_then(|(pick, _)| self.history.search_spaces[pick.family].forecast.as_ref());
        match forecast.filter(|forecast| forecast.is_learned) {
            Some(_) => StoppingRule::LEARNED,
            None => StoppingRule::BLIND,
        }
    }

    /// Outcomes without a gain.
    fn since_gain(&self) -> usize {
        self.observed - self.gained_at
    }

    fn point(&self, pick: Pick) -> Option<EncodedPoint> {
        let indices = self.history.search_spaces[pick.family].space.indices(pick.rank)?;
        Some(self.surrogates[pick.family].encoding.point(&indices))
    }

    /// The next first proposal.
    fn first(&mut self) -> Option<Pick> {
        while let Some(seed) = self.seeds.pop() {
            if let Some(pick) = self.note(seed) {
                self.firsts += 1;
                return Some(pick);
            }
        }
        // The family with the smallest share of its first proposals.
        let share = |family: usize| {
            let surrogate = &self.surrogates[family];
            let wanted = (2 * surrogate.encoding.axes.len()).clamp(*FIRST.start(), *FIRST.end());
            let wanted = match self.slowness[family] {
                0.0..DOUBTFUL => wanted,
                DOUBTFUL..LEFT_BEHIND => wanted / 2,
                _ => 0,
            };
            let wanted = if surrogate.is_predicted { 0 } else { wanted };
            let wanted = wanted.min(surrogate.len() + self.history.left(family));
            (surrogate.len() < wanted).then_some(surrogate.len() as f64 / wanted as f64)
        };
        let shares = (0..self.surrogates.len()).filter_map(|family| Some((share(family)?, family)));
        let (_, family) = shares.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let pick = self.farthest(family)?;
        self.firsts += 1;
        self.note(pick)
    }

    /// The one of some random likely configurations of a family that is farthest from all proposals.
    fn farthest(&mut self, family: usize) -> Option<Pick> {
        let drawn = if self.surrogates[family].len() == 0 { 1 } else { DRAWN };
        let mut farthest: Option<(f32, Pick)> = None;
        for _ in 0..drawn {
            let pick = Pick { family, rank: self.likely(family) };
            if self.history.is_proposed(pick) {
                continue;
            }
            let nearest = self.surrogates[family].nearest(&self.point(pick)?);
            if farthest.is_none_or(|(most, _)| nearest > most) {
                farthest = Some((nearest, pick));
            }
        }
        match farthest {
            Some((_, pick)) => Some(pick),
            None => self.history.any_of(family, &mut self.rng),
        }
    }

    /// A random likely configuration of a family, or any without a forecast.
    fn likely(&mut self, family: usize) -> usize {
        let SearchSpace { space, forecast, .. } = &self.history.search_spaces[family];
        let likely = forecast.as_ref().and_then(|forecast| self.rng.choice(&forecast.likely));
        likely.copied().unwrap_or_else(|| self.rng.usize(..space.len()))
    }

    /// The pool of a family: `wanted` random configurations, half of them likely, the best of the last pool, and
    /// neighbours of the best.
    fn pool(&mut self, family: usize, wanted: usize, best: &[Pick]) -> Vec<PoolEntry> {
        let len = self.history.search_spaces[family].space.len();
        let mut ranks: Vec<usize> = if 2 * wanted >= len {
            (0..len).collect()
        } else {
            let near = best.iter().filter(|pick| pick.family == family);
            let near = near.flat_map(|pick| self.history.neighbours(*pick));
            let leads = self.leads.iter().copied().filter(|pick| pick.family == family);
            let mut ranks: Vec<usize> = near.chain(leads).map(|pick| pick.rank).collect();
            let forecast = self.history.search_spaces[family].forecast.as_ref();
            if let Some(forecast) = forecast.filter(|forecast| forecast.times.is_some()) {
                ranks.extend(forecast.likely.iter().take(wanted));
            }
            for number in 0..wanted {
                let likely = number % 2 == 0;
                ranks.push(if likely { self.likely(family) } else { self.rng.usize(..len) });
            }
            ranks
        };
        ranks.sort_unstable();
        ranks.dedup();
        let picks = ranks.into_iter().map(|rank| Pick { family, rank });
        let free: Vec<Pick> = picks.filter(|pick| !self.history.is_proposed(*pick)).collect();
        let look = |pick| {
            let (expected, price) = (self.history.expected(pick), self.history.price(pick));
            Some(PoolEntry { pick, point: self.point(pick)?, expected, price })
        };
        free.into_par_iter().with_min_len(AT_ONCE).filter_map(look).collect()
    }

    /// A configuration near one of the [`CENTRES`], the better ones more often: a few changes or a crossover. `best`
    /// are the best so far, at least one.
    fn around(&mut self, best: &[Pick]) -> Option<Pick> {
        let centres = &best[..best.len().min(CENTRES)];
        for _ in 0..ATTEMPTS {
            // The better of two.
            let place = self.rng.usize(..centres.len()).min(self.rng.usize(..centres.len()));
            let centre = centres[place];
            let mate = self.rng.choice(best).filter(|mate| mate.family == centre.family);
            let other = match mate {
                Some(mate) if self.rng.bool() => mate.rank,
                _ => self.likely(centre.family),
            };
            let space = &self.history.search_spaces[centre.family].space;
            let mut indices = space.indices(centre.rank)?;
            if self.rng.bool() {
                let radices: Vec<usize> = space.radices().collect();
                for _ in 0..self.rng.usize(1..=MOST_CHANGES) {
                    let parameter = self.rng.usize(..radices.len());
                    indices[parameter] = self.rng.usize(..radices[parameter]);
                }
            } else {
                let share = self.rng.f64();
                for (own, others) in indices.iter_mut().zip(space.indices(other)?) {
                    if self.rng.f64() < share {
                        *own = others;
                    }
                }
            }
            let Some(rank) = space.rank_of(&indices) else { continue };
            let pick = Pick { family: centre.family, rank };
            if !self.history.is_proposed(pick) {
                return Some(pick);
            }
        }
        None
    }

    /// Up to `most` picks by the models; none before a correct outcome.
    fn promising(&mut self, most: usize) -> Vec<Pick> {
        let mut correct: Vec<(f64, Pick)> =
            self.history.correct().map(|(pick, time)| (time.ln(), pick)).collect();
        correct.sort_by(|a, b| a.0.total_cmp(&b.0));
        let logs: Vec<f64> = correct.iter().map(|(time, _)| *time).collect();
        let followed = if logs.len() < FEW { FOLLOWED_OF_FEW } else { FOLLOWED };
        let (Some(fastest), Some(slow), Some(slowest)) =
            (logs.first().copied(), quantile(&logs, followed), logs.last().copied())
        else {
            return Vec::new();
        };
        let times = TimeLevels { fastest, slow, slowest };
        let best: Vec<Pick> = correct.iter().take(MATES).map(|(_, pick)| *pick).collect();
        let centres = &best[..best.len().min(CENTRES)];

        let families = self.history.promising(LEFT_BEHIND);
        let weight = |history: &History, family: usize| (history.left(family) as f64 + 1.0).ln();
        let total: f64 = families.iter().map(|family| weight(&self.history, *family)).sum();
        let mut acquisition = Acquisition::new(times, self.turn);
        for family in families {
            let share = weight(&self.history, family) / total;
            let entries = self.pool(family, (POOL as f64 * share).ceil() as usize, centres);
            acquisition.score_pool(&mut self.surrogates[family], entries, times, &mut self.rng);
        }
        let chosen_at = self.firsts.min(self.observed);
        let stagnates = self.observed - self.gained_at.max(chosen_at) >= STAGNATION;
        let mut picks = Vec::new();
        while picks.len() < most {
            let astray = stagnates && self.rng.bool();
            if astray
                && self.rng.f64() < AROUND
                && let Some(pick) = self.around(&best).filter(|pick| !picks.contains(pick))
            {
                picks.push(pick);
                continue;
            }
            match acquisition.pick(astray, &mut self.rng) {
                Some(pick) if picks.contains(&pick) => {}
                Some(pick) => picks.push(pick),
                None => break,
            }
        }
        self.leads = acquisition.leads(LEADS);
        self.least = acquisition.least();
        self.turn = acquisition.turn();
        picks.into_iter().filter_map(|pick| self.note(pick)).collect()
    }
}

/// The configurations with the lowest predicted times of each family that is not left behind, without similar ones, the
/// fastest first.
fn promising_first(search_spaces: &[SearchSpace], slowness: &[f64]) -> Vec<Pick> {
    let mut all: Vec<(Micros, Pick)> = Vec::new();
    for (family, SearchSpace { space, forecast, .. }) in search_spaces.iter().enumerate() {
        let Some(forecast) = forecast.as_ref().filter(|_| slowness[family] <= LEFT_BEHIND) else {
            continue;
        };
        let most = if forecast.is_corrected() { CORRECTED_FIRST } else { PREDICTED_FIRST };
        let mut chosen: Vec<Vec<usize>> = Vec::new();
        for rank in forecast.likely.iter().take(CHOSEN_FROM) {
            let (Some(time), Some(indices)) = (forecast.time(*rank), space.indices(*rank)) else {
                continue;
            };
            let differs = |other: &Vec<usize>| {
                indices.iter().zip(other).filter(|(a, b)| a != b).count() >= DIFFERENT
            };
            if chosen.len() < most && chosen.iter().all(differs) {
                chosen.push(indices);
                all.push((
                    Micros(time.0 * forecast.compile_factor(*rank)),
                    Pick { family, rank: *rank },
                ));
            }
        }
    }
    all.sort_by(|a, b| a.0.0.total_cmp(&b.0.0));
    let least = all.first().map_or(f64::INFINITY, |(time, _)| time.0);
    all.retain(|(time, _)| time.0 <= SERIOUS * least);
    all.into_iter().map(|(_, pick)| pick).collect()
}

impl Strategy for ModelBased {
    fn propose(&mut self, most: usize) -> Vec<Pick> {
        // Picks with few outcomes between them would be much alike.
        let under_way = self.history.proposed() - self.observed;
        if under_way >= (2 * most).max(self.observed / 2) {
            return Vec::new();
        }
        let mut picks = Vec::new();
        while picks.len() < most
            && let Some(pick) = self.first()
        {
            picks.push(pick);
        }
        if picks.len() < most {
            // On a worker thread, which needs no wake-up after each piece of work.
            picks.extend(rayon::scope(|_| self.promising(most - picks.len())));
        }
        if picks.is_empty() && under_way == 0 {
            // No outcome was correct, or the promising families are exhausted.
            let families: Vec<usize> = (0..self.surrogates.len()).collect();
            while picks.len() < most
                && let Some(pick) = self.history.any(&families, &mut self.rng)
            {
                picks.extend(self.note(pick));
            }
        }
        picks
    }

    fn observe(&mut self, pick: Pick, time: Option<Micros>) {
        self.history.observe(pick, time);
        self.surrogates[pick.family].observe(pick, time);
        self.observed += 1;
        if let Some(Micros(time)) = time
            && time < self.best
        {
            if time < (1.0 - GAIN) * self.best {
                self.gained_at = self.observed;
            }
            self.best = time;
        }
    }

    fn chance_of_better(&self, within: f64) -> Option<f64> {
        let mut families = 0..self.surrogates.len();
        // Points under evaluation are left too.
        let is_all_told = self.observed == self.history.proposed();
        if is_all_told && families.all(|family| self.history.left(family) == 0) {
            return Some(0.0);
        }
        Some(self.stopping_rule().chance_of_better(within, self.since_gain()))
    }

    fn answers_until(&self, within: f64, chance: f64) -> Option<usize> {
        let answers = self.stopping_rule().answers_until(within, chance);
        Some(answers.saturating_sub(self.since_gain()))
    }

    fn least_predicted(&self) -> Option<Micros> {
        self.least.map(|least| Micros(least.exp()))
    }
}
