//! Learns from the answers: a forest and a Gaussian process predict the times of configurations
//! that were not tried, and those that promise most are proposed for.
//!
//! The first questions are spread over the space: each is the one of many random configurations
//! that is farthest from all others. On recorded GEMM spaces this gains 0.01 to 0.04 of the optimum
//! after 50 evaluations over random ones. A batch is then chosen by several rules in turn, for the
//! best few by one rule are too much alike; see `scored`.
//!
//! Every family has models of its own, of the logarithm of times. They compete with their
//! expectations; one that is far behind after its first questions gets no more.

use std::ops::RangeInclusive;

use fastrand::Rng;
use rayon::prelude::*;

use super::acquisition::{AT_ONCE, Acquisition, LookedAt, TimeLevels};
use super::encoding::{EncodedPoint, Encoding};
use super::history::{History, slowness};
use super::stopping::StoppingRule;
use super::strategy::{LEFT_BEHIND, Pick, SearchSpace, Strategy};
use super::surrogate::Surrogate;
use crate::model::Micros;
use crate::model::statistics::quantile;
use crate::predict::SERIOUS;

/// First questions to a family, its default among them: two for each axis, within these. On
/// recorded spaces of 10 axes 12 to 20 do about equally well; 8 lose 0.01 to 0.02 of the optimum after 50
/// evaluations, and 40 lose 0.03 to 0.06.
const FIRST: RangeInclusive<usize> = 4..=16;

/// What share of the times a process follows, and of the rest knows only that they are slow: while
/// there are few answers, the fastest half alone would be too few to learn from. With half from the
/// beginning, 60 trials each on two recorded spaces are 0.007 and 0.002 further from the optimum
/// after 50 evaluations.
const FOLLOWED: f64 = 0.5;
const FOLLOWED_OF_FEW: f64 = 0.75;
const FEW: usize = 100;

/// A family whose best is so many times slower by its forecast gets half of the first questions. A
/// judgement: forecasts of what is fast on large squares are within 1.3 of each other.
const DOUBTFUL: f64 = 1.5;

/// Where times are expected: so many configurations of which the least is expected are the first
/// questions instead, of so many those that differ from each other in at least two parameters; fewer where
/// problems of the same run told what is expected wrongly.
const PREDICTED_FIRST: usize = 16;
const CORRECTED_FIRST: usize = 12;
const CHOSEN_FROM: usize = 200;
const DIFFERENT: usize = 2;

/// Random configurations of which the farthest from all others is proposed for.
const DRAWN: usize = 300;

/// Random configurations that the models look at for a batch, and those that promised most when the
/// last one was chosen. With all of 18,000 configurations instead the fractions of the optimum after
/// 50, 100 and 200 evaluations were the same within the error of 0.005, for three to six times the
/// time.
const POOL: usize = 1500;
const LEADS: usize = 1000;

/// The best so far, all of whose neighbours are looked at, and near which further ones are picked.
const CENTRES: usize = 10;

/// Answers in a row without a gain of 0.1 % after which half of the picks are random: the models
/// may be wrong about a part of the space that they never look into.
const STAGNATION: usize = 24;
const GAIN: f64 = 1e-3;

/// The share of those that is not from anywhere but near one of the best: half of it a few changes
/// away, so many at most, half of it between that one and another, which may be many changes of
/// parameters that hang together; and throws until one is legal and new.
const AROUND: f64 = 0.5;
const MOST_CHANGES: usize = 3;
const ATTEMPTS: usize = 300;

/// Every second time the other one is among so many of the best, for what is good about two of them
/// may belong together. On three spaces measured whole on an H200 the mean fraction of the optimum
/// after 200 evaluations went from 0.994 to 0.999, ten blind trials each; of 180 trials on a recorded
/// one 1 instead of 3 ends 6 % behind it. Always among them is no better.
const MATES: usize = 30;

/// See the module.
#[derive(Debug)]
pub(super) struct ModelBased {
    history: History,
    rng: Rng,
    surrogates: Vec<Surrogate>,
    /// How many times slower each family is than the best, by forecasts.
    slowness: Vec<f64>,
    /// What is proposed for before the models have a say, the next one last.
    seeds: Vec<Pick>,
    /// How many of the first questions were proposed.
    firsts: usize,
    told: usize,
    best: f64,
    /// How many were told when the best last gained.
    gained_at: usize,
    /// What promised most when the last batch was chosen.
    leads: Vec<Pick>,
    /// The logarithm of the least time that was expected of those that were not picked then.
    least: Option<f64>,
    /// Where the turn of the rules is.
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
            told: 0,
            best: f64::INFINITY,
            gained_at: 0,
            leads: Vec::new(),
            least: None,
            turn: 0.0,
        }
    }

    /// Notes a question; gives it back if it is a new one.
    fn note(&mut self, pick: Pick) -> Option<Pick> {
        let pick = self.history.propose(pick)?;
        let indices = self.history.search_spaces[pick.family].space.indices(pick.rank)?;
        self.surrogates[pick.family].propose(pick, &indices, self.history.expected(pick));
        Some(pick)
    }

    /// What is known of the family that has the best.
    fn stopping_rule(&self) -> StoppingRule {
        let best = self.history.correct().min_by(|a, b| a.1.total_cmp(&b.1));
        let forecast =
            best.and_then(|(pick, _)| self.history.search_spaces[pick.family].forecast.as_ref());
        match forecast.filter(|forecast| forecast.times.is_some()) {
            Some(forecast) if forecast.is_corrected() => StoppingRule::CORRECTED,
            Some(_) => StoppingRule::LEARNED,
            None => StoppingRule::BLIND,
        }
    }

    /// Answers in a row without a gain; those before the models choose count where waiting for them says
    /// something.
    fn since_gain(&self, counts_first: bool) -> usize {
        let chosen_at = if counts_first { 0 } else { self.firsts.min(self.told) };
        self.told - self.gained_at.max(chosen_at)
    }

    fn point(&self, pick: Pick) -> Option<EncodedPoint> {
        let indices = self.history.search_spaces[pick.family].space.indices(pick.rank)?;
        Some(self.surrogates[pick.family].encoding.point(&indices))
    }

    /// The next of the first questions, none where all were proposed.
    fn first(&mut self) -> Option<Pick> {
        while let Some(seed) = self.seeds.pop() {
            if let Some(pick) = self.note(seed) {
                self.firsts += 1;
                return Some(pick);
            }
        }
        // The family whose share of what it should be proposed is smallest.
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

    /// Of some random configurations of a family, the one farthest from all that were proposed for;
    /// of those that are likely to be fast, where that is known.
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

    /// A random configuration of a family that is likely to be fast; any, where nothing is known.
    fn likely(&mut self, family: usize) -> usize {
        let SearchSpace { space, forecast, .. } = &self.history.search_spaces[family];
        let likely = forecast.as_ref().and_then(|forecast| self.rng.choice(&forecast.likely));
        likely.copied().unwrap_or_else(|| self.rng.usize(..space.len()))
    }

    /// The configurations of a family that the models look at: `wanted` random ones, half of them of
    /// those that are likely to be fast, those that promised most before, and the neighbours of the best.
    fn pool(&mut self, family: usize, wanted: usize, best: &[Pick]) -> Vec<LookedAt> {
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
            Some(LookedAt { pick, point: self.point(pick)?, expected, price })
        };
        free.into_par_iter().with_min_len(AT_ONCE).filter_map(look).collect()
    }

    /// A configuration that differs in a few parameters from one of the [`CENTRES`], or has some of
    /// another one's; the better ones more often. `best` are the best so far, at least one.
    fn around(&mut self, best: &[Pick]) -> Option<Pick> {
        let centres = &best[..best.len().min(CENTRES)];
        for _ in 0..ATTEMPTS {
            // Of two places the better one.
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

    /// Up to `most` picks by the models; none before there is a correct answer.
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
        let mut scored = Acquisition::new(times, self.turn);
        for family in families {
            let share = weight(&self.history, family) / total;
            let looked_at = self.pool(family, (POOL as f64 * share).ceil() as usize, centres);
            scored.survey(&mut self.surrogates[family], looked_at, times, &mut self.rng);
        }
        let stagnates = self.since_gain(false) >= STAGNATION;
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
            match scored.pick(astray, &mut self.rng) {
                Some(pick) if picks.contains(&pick) => {}
                Some(pick) => picks.push(pick),
                None => break,
            }
        }
        self.leads = scored.leads(LEADS);
        self.least = scored.least();
        self.turn = scored.turn();
        picks.into_iter().filter_map(|pick| self.note(pick)).collect()
    }
}

/// Of each family that is not left behind and of which times are expected, the configurations of which
/// the least is, but none that is nearly another one; the least of all first.
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
        // Picks that know little of what is under way would be much alike.
        let under_way = self.history.proposed() - self.told;
        if under_way >= (2 * most).max(self.told / 2) {
            return Vec::new();
        }
        let mut picks = Vec::new();
        while picks.len() < most
            && let Some(pick) = self.first()
        {
            picks.push(pick);
        }
        if picks.len() < most {
            // On a thread of those that share the work: another one would be woken after each of some thirty pieces.
            picks.extend(rayon::scope(|_| self.promising(most - picks.len())));
        }
        if picks.is_empty() && under_way == 0 {
            // Nothing was correct so far, or all that is not far behind was tried.
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
        self.told += 1;
        if let Some(Micros(time)) = time
            && time < self.best
        {
            if time < (1.0 - GAIN) * self.best {
                self.gained_at = self.told;
            }
            self.best = time;
        }
    }

    fn chance_of_better(&self, _: f64) -> Option<f64> {
        let mut families = 0..self.surrogates.len();
        // What is under way is left too.
        let is_all_told = self.told == self.history.proposed();
        if is_all_told && families.all(|family| self.history.left(family) == 0) {
            return Some(0.0);
        }
        let stopping_rule = self.stopping_rule();
        Some(stopping_rule.chance_of_better(self.since_gain(stopping_rule.counts_first)))
    }

    fn answers_until(&self, _: f64, chance: f64) -> Option<usize> {
        let stopping_rule = self.stopping_rule();
        let answers = stopping_rule.answers_until(chance);
        Some(answers.saturating_sub(self.since_gain(stopping_rule.counts_first)))
    }

    fn least_predicted(&self) -> Option<Micros> {
        self.least.map(|least| Micros(least.exp()))
    }
}
