//! The final: finalists and libraries are sampled in turn until the fastest is told apart from the
//! others, or those that cannot be told apart are known. A state machine: it says who is sampled
//! next and takes what came of it; it knows no device.
//!
//! **Looks.** The evidence is looked at again whenever there are 1.4 times as many rounds: after 10, 14, 20, 28,
//! 40 and so on to 160. At a look everyone is compared with the leader by a [`Margin`], and whoever differs
//! leaves. The final ends when nobody who is left is in question, or when what is in question is known well
//! enough. With noise of 0.3 % a second that is 1 % slower is told apart after 20 rounds in the mean
//! of 1000 simulations, one that is 3 % slower after 12; twins tie after 21. Looks at twice as many rounds each
//! time asked less of the evidence, for they are fewer, and came too late: among seven contestants who are up to
//! 7 % slower, finals took 16 % more samples.
//!
//! **Error.** How often identical contestants are declared different is bounded by Bonferroni's
//! inequality: each interval has the confidence 1 - error / (looks x pairs). All pairs count, for
//! who leads is found in the same samples. Simulated without ties, 4000 finals of each noise and of
//! 2, 3, 6 and 8 contestants: 1.7 to 3.1 % err where samples are independent or share their noise,
//! 2.4 to 3.7 % where each has its own of autocorrelation 0.5, 4.0 to 5.4 % with 0.7.
//!
//! **Ties.** A difference below [`Rules::tie_percent`] is a tie even where it is significant. Among
//! those that tie, a rule decides that never looks at a clock: the smallest key. So another run,
//! with other noise, gives the same winner.

use std::fmt;

use super::margin::{FEWEST_ROUNDS, Margin};
use super::taint::Taint;
use super::turns::turns;
use crate::model::{Micros, statistics};
use crate::worker::DeviceConditions;

/// By how much the rounds grow from one look to the next.
const LOOKS_GROW: f64 = std::f64::consts::SQRT_2;

/// What a final is held by.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Rounds before the first look; at least [`FEWEST_ROUNDS`].
    pub first_look: usize,
    /// Untainted rounds at most; at least [`Self::first_look`].
    pub most_rounds: usize,
    /// Tainted rounds at which the final breaks off.
    pub most_tainted: usize,
    /// The nominal probability with which identical contestants are declared different.
    pub error: f64,
    /// Contestants whose times differ by less per cent tie.
    pub tie_percent: f64,
    /// A difference that is known to so many per cent, either way, is not looked at further: beside a rival
    /// that is slower by just a tie, 100 finals of the tests' noise take 3090 rounds in place of 7730.
    pub known_percent: f64,
    /// No kernel is faster ([`crate::model::floor()`]).
    pub floor: Micros,
}

impl Default for Rules {
    /// The error is nominally 4 %, so that it stays below 5 % with autocorrelated noise too. A tie
    /// is a difference below 0.5 %: the same cubin differs by as much from one run to the next on
    /// an H200 (8192x8192x8192; by 1 % at 4096x4096x4096), so that less is no property of a kernel,
    /// and to know a difference to half of that is enough.
    fn default() -> Self {
        Self {
            first_look: FEWEST_ROUNDS,
            most_rounds: 160,
            most_tainted: 160,
            error: 0.04,
            tie_percent: 0.5,
            known_percent: 0.25,
            floor: Micros(0.0),
        }
    }
}

/// Someone who takes part.
#[derive(Debug, Clone, PartialEq)]
pub enum Entrant<K> {
    /// May win; of those that tie, the one with the smallest key does. The key names no time: the
    /// fewest resources, then a name.
    Candidate(K),
    /// Is compared with, and cannot win.
    Baseline,
}

/// A final under way.
#[derive(Debug)]
pub struct Final<K> {
    rules: Rules,
    entrants: Vec<Entrant<K>>,
    /// Of each entrant, one a round that counted.
    samples: Vec<Vec<Micros>>,
    /// Who is still sampled, in the order of the entrants.
    active: Vec<usize>,
    rounds: usize,
    taints: Vec<Taint>,
    ended: Option<Ended>,
}

/// Why a final ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everyone but the fastest differs from it.
    Separated,
    /// Those that do not differ from the fastest surely tie with it.
    Tied,
    /// The rounds were used up with someone still in question.
    OutOfRounds,
    /// Too many rounds were tainted, or the stage failed.
    BrokenOff,
}

/// How an entrant compares with the winner.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// Which one, as counted from 0.
    pub entrant: usize,
    /// How much slower than the winner it is. The interval covers with the confidence 1 -
    /// [`Rules::error`], at whichever look the final ended.
    pub margin: Margin,
    /// Rounds that the margin is from.
    pub rounds: usize,
    /// Whether it left because it differs from the leader by more than a tie. That any of several
    /// identical entrants leaves has the probability [`Rules::error`].
    pub differs: bool,
}

/// How sure a winner is.
#[derive(Debug, Clone, PartialEq)]
pub struct Confidence {
    /// The fastest other candidate; `None` where there is none.
    pub runner_up: Option<Place>,
    /// Rounds that the winner was sampled in.
    pub rounds: usize,
    /// Rounds that were taken and thrown away.
    pub tainted_rounds: usize,
    /// The candidates that tie, the winner first, then by their keys. Of a winner that the clock
    /// decided on, itself alone.
    pub tie_set: Vec<usize>,
    /// Why no more rounds were taken.
    pub ended: Ended,
}

/// What came of a final.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Every entrant: the winner first, then by their margins over it.
    pub order: Vec<Place>,
    /// How sure that is.
    pub confidence: Confidence,
}

/// What a final is held on: a device that samples entrants.
pub trait Stage {
    /// Why it cannot.
    type Error;

    /// The time of one launch of an entrant's work.
    ///
    /// # Errors
    /// The stage's own.
    fn sample(&mut self, entrant: usize) -> Result<Micros, Self::Error>;

    /// Reads the sensors, right after work.
    ///
    /// # Errors
    /// The stage's own.
    fn conditions(&mut self) -> Result<DeviceConditions, Self::Error>;
}

impl<K: Ord> Final<K> {
    /// A final among `entrants`.
    pub fn new(entrants: Vec<Entrant<K>>, rules: Rules) -> Self {
        let first_look = rules.first_look.max(FEWEST_ROUNDS);
        let most_rounds = rules.most_rounds.max(first_look);
        let rules = Rules { first_look, most_rounds, ..rules };
        Self {
            samples: vec![Vec::new(); entrants.len()],
            active: (0..entrants.len()).collect(),
            rounds: 0,
            taints: Vec::new(),
            ended: entrants.is_empty().then_some(Ended::Separated),
            entrants,
            rules,
        }
    }

    /// Holds the final to its end. Everyone is sampled once before the first round, to warm up.
    ///
    /// # Errors
    /// The stage's; the rounds until then are kept, and [`Self::verdict`] says what they support.
    pub fn hold<S: Stage>(&mut self, stage: &mut S) -> Result<(), S::Error> {
        for entrant in &self.active {
            stage.sample(*entrant)?;
        }
        let mut before = stage.conditions()?;
        while let Some(order) = self.next_round() {
            let mut samples = Vec::with_capacity(order.len());
            for entrant in order {
                samples.push((entrant, stage.sample(entrant)?));
            }
            let after = stage.conditions()?;
            self.record(&samples, Taint::between(&before, &after));
            before = after;
        }
        Ok(())
    }

    /// Who is to be sampled in the next round, in this order; `None` when the final has ended.
    pub fn next_round(&self) -> Option<Vec<usize>> {
        self.ended.is_none().then(|| turns(&self.active, self.rounds))
    }

    /// Takes a round as [`Self::next_round`] asked for it: each entrant with its sample. A tainted
    /// one is counted and asked for again.
    pub fn record(&mut self, samples: &[(usize, Micros)], taint: Option<Taint>) {
        let times = samples.iter().map(|(_, sample)| *sample);
        if let Some(taint) = taint.or_else(|| Taint::of_samples(times, self.rules.floor)) {
            self.taints.push(taint);
            if self.taints.len() >= self.rules.most_tainted {
                self.ended = Some(Ended::BrokenOff);
            }
            return;
        }
        for (entrant, sample) in samples {
            self.samples[*entrant].push(*sample);
        }
        self.rounds += 1;
        if self.looks().any(|rounds| rounds == self.rounds) {
            self.look();
        }
    }

    /// The samples of an entrant, one for each round that counted while it took part.
    pub fn samples(&self, entrant: usize) -> &[Micros] {
        &self.samples[entrant]
    }

    /// Why rounds did not count, in the order of the rounds.
    pub fn taints(&self) -> &[Taint] {
        &self.taints
    }

    /// What the rounds until now support; `None` where no candidate takes part.
    pub fn verdict(&self) -> Option<Verdict> {
        let leader = self.leader()?;
        let mut tie_set: Vec<usize> =
            self.active.iter().copied().filter(|entrant| self.ties(*entrant, leader)).collect();
        tie_set.sort_by_key(|entrant| self.key(*entrant));
        let winner = *tie_set.first()?;
        let mut order: Vec<Place> =
            (0..self.entrants.len()).map(|entrant| self.place(entrant, winner)).collect();
        order.sort_by(|a, b| {
            let later = |place: &Place| place.entrant != winner;
            later(a).cmp(&later(b)).then(a.margin.percent.total_cmp(&b.margin.percent))
        });
        let rival = |place: &&Place| place.entrant != winner && self.key(place.entrant).is_some();
        let confidence = Confidence {
            runner_up: order.iter().find(rival).cloned(),
            rounds: self.samples[winner].len(),
            tainted_rounds: self.taints.len(),
            tie_set,
            ended: self.ended.unwrap_or(Ended::BrokenOff),
        };
        Some(Verdict { order, confidence })
    }

    /// Compares everyone with the leader.
    fn look(&mut self) {
        let Some(leader) = self.leader() else {
            self.ended = Some(Ended::Separated);
            return;
        };
        let count = self.entrants.len();
        let pairs = (count * (count - 1) / 2).max(1);
        let confidence = 1.0 - self.rules.error / (self.looks().count() * pairs) as f64;
        let (mut staying, mut in_question) = (Vec::new(), false);
        for entrant in self.active.iter().copied() {
            if entrant == leader || self.surely_ties(entrant, leader) {
                staying.push(entrant);
                continue;
            }
            let margin = self.margin(entrant, leader, confidence);
            if !margin.differs() || margin.percent.abs() < self.rules.tie_percent {
                staying.push(entrant);
                in_question |= !self.is_known(entrant, leader);
            }
        }
        self.active = staying;
        self.ended = if !in_question {
            Some(if self.active.len() == 1 { Ended::Separated } else { Ended::Tied })
        } else {
            (self.rounds >= self.rules.most_rounds).then_some(Ended::OutOfRounds)
        };
    }

    /// The rounds at which the evidence is looked at.
    fn looks(&self) -> impl Iterator<Item = usize> {
        let Rules { first_look, most_rounds, .. } = self.rules;
        let grown =
            (0..).map(move |look| (first_look as f64 * LOOKS_GROW.powi(look)).round() as usize);
        grown.take_while(move |rounds| *rounds < most_rounds).chain([most_rounds])
    }

    /// The candidate that takes the least time, by its rounds relative to the middle of those that
    /// are sampled beside it.
    fn leader(&self) -> Option<usize> {
        let middle: Vec<Micros> = (0..self.rounds)
            .map(|round| {
                let times: Vec<f64> =
                    self.active.iter().map(|entrant| self.samples[*entrant][round].0).collect();
                Micros(statistics::median(&times).unwrap_or(f64::NAN))
            })
            .collect();
        let behind = |entrant: usize| Margin::estimate(&self.samples[entrant], &middle);
        let candidates = self.active.iter().copied().filter(|entrant| self.key(*entrant).is_some());
        candidates.min_by(|a, b| behind(*a).total_cmp(&behind(*b)))
    }

    /// Whether the rule without a clock may choose `entrant`, which has not left, in place of the
    /// leader: a candidate that is not slower by more than a tie, as far as can be told.
    fn ties(&self, entrant: usize, leader: usize) -> bool {
        entrant == leader
            || self.key(entrant).is_some()
                && Margin::estimate(&self.samples[entrant], &self.samples[leader])
                    < self.rules.tie_percent
    }

    /// Whether a difference is known as well as is worth knowing: if it is a tie still may be in question,
    /// but not by more than [`Rules::known_percent`].
    fn is_known(&self, entrant: usize, leader: usize) -> bool {
        let Margin { low, high, .. } = self.margin(entrant, leader, 1.0 - self.rules.error);
        (high - low) / 2.0 <= self.rules.known_percent
    }

    fn surely_ties(&self, entrant: usize, leader: usize) -> bool {
        self.margin(entrant, leader, 1.0 - self.rules.error).is_within(self.rules.tie_percent)
    }

    fn place(&self, entrant: usize, winner: usize) -> Place {
        // Each look has its share of the error, so that the interval holds whenever the final ends.
        let confidence = 1.0 - self.rules.error / self.looks().count() as f64;
        let margin = if entrant == winner {
            Margin { percent: 0.0, low: 0.0, high: 0.0 }
        } else {
            self.margin(entrant, winner, confidence)
        };
        Place {
            entrant,
            margin,
            rounds: self.samples[entrant].len(),
            differs: !self.active.contains(&entrant),
        }
    }

    fn margin(&self, slower: usize, faster: usize, confidence: f64) -> Margin {
        Margin::between(&self.samples[slower], &self.samples[faster], confidence)
    }

    fn key(&self, entrant: usize) -> Option<&K> {
        match &self.entrants[entrant] {
            Entrant::Candidate(key) => Some(key),
            Entrant::Baseline => None,
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Separated => "separated",
            Self::Tied => "tied",
            Self::OutOfRounds => "out of rounds",
            Self::BrokenOff => "broken off",
        })
    }
}
