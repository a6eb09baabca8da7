//! The final: samples finalists and libraries in interleaved rounds until the fastest differs
//! significantly from the others, or a tie is established. A state machine independent of the
//! device: it selects the entrants of the next round and takes their samples.
//!
//! **Interim analyses.** The evidence is analysed whenever the number of rounds has grown by √2:
//! after 10, 14, 20, 28, 40 and so on up to 160. Each analysis compares all entrants with the
//! leader by a [`Margin`]; entrants that differ leave. The final ends when no remaining entrant is
//! undecided, or the undecided differences are known precisely enough.
//!
//! **Error.** Bonferroni's inequality bounds how often identical entrants are declared different:
//! each interval has the confidence 1 - error / (analyses x pairs). All pairs count, because the
//! leader is selected from the same samples.
//!
//! **Decision.** A significantly faster candidate always wins; only candidates whose intervals contain
//! zero are decided by their keys ([`TieRule`], `decision.rs`).
//!
//! Power and error rates: `docs/decisions/2026-11-23-interim-analyses.md`.

mod decision;

use std::fmt;

use super::disturbance::Disturbance;
use super::margin::{MIN_ROUNDS, Margin};
use super::sampling_order::sampling_order;
use crate::model::{Micros, statistics};
use crate::worker::DeviceConditions;

/// Growth of the number of rounds between analyses.
const ANALYSIS_GROWTH: f64 = std::f64::consts::SQRT_2;

/// Parameters of a final.
#[derive(Debug, Clone, PartialEq)]
pub struct FinalRules {
    /// Rounds before the first analysis; at least [`MIN_ROUNDS`].
    pub first_analysis: usize,
    /// Maximum of valid rounds; at least [`Self::first_analysis`].
    pub max_rounds: usize,
    /// Number of disturbed rounds at which the final is aborted.
    pub max_disturbed: usize,
    /// Nominal probability that identical entrants are declared different.
    pub error: f64,
    /// Difference in per cent below which sampling ends without a separation.
    pub tie_percent: f64,
    /// Which differences are decided by keys.
    pub ties: TieRule,
    /// Half-width in per cent of an interval that is precise enough to stop. It saves 60 % of the
    /// rounds when a rival is slower by just a tie.
    pub known_percent: f64,
    /// Shortest possible time ([`crate::model::floor()`]).
    pub floor: Micros,
}

impl Default for FinalRules {
    /// The nominal error of 4 % stays below 5 % with autocorrelated noise. A tie is a difference
    /// below 0.5 %, by which the same cubin differs between runs on an H200 (8192x8192x8192; 1 % at
    /// 4096x4096x4096). Half of that is a sufficient precision.
    fn default() -> Self {
        Self {
            first_analysis: MIN_ROUNDS,
            max_rounds: 160,
            max_disturbed: 160,
            error: 0.04,
            tie_percent: 0.5,
            ties: TieRule::default(),
            known_percent: 0.25,
            floor: Micros(0.0),
        }
    }
}

/// Which differences are decided by keys instead of times. Both rules take only candidates that are slower
/// than the fastest by less than [`FinalRules::tie_percent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TieRule {
    /// Differences whose interval contains zero. A significantly faster candidate always wins.
    #[default]
    Insignificant,
    /// Significant ones too, so that runs with other noise select the same winner.
    Small,
}

/// A participant of a final.
#[derive(Debug, Clone, PartialEq)]
pub enum Entrant<K> {
    /// May win; of tied candidates the one with the smallest key does. The key contains no time:
    /// fewest resources first, then a name.
    Candidate(K),
    /// Reference for comparison that cannot win.
    Baseline,
}

/// State of a final.
#[derive(Debug)]
pub struct Final<K> {
    rules: FinalRules,
    entrants: Vec<Entrant<K>>,
    /// Samples of each entrant, one per valid round.
    samples: Vec<Vec<Micros>>,
    /// Entrants that are still sampled, in order.
    active: Vec<usize>,
    rounds: usize,
    disturbances: Vec<Disturbance>,
    ended: Option<FinalEnd>,
}

/// Reason that a final ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalEnd {
    /// All others differ from the fastest.
    Separated,
    /// The remaining ones tie with the fastest.
    Tied,
    /// The maximum of rounds was reached with an undecided entrant.
    OutOfRounds,
    /// Too many rounds were disturbed, or the device failed.
    BrokenOff,
}

/// Comparison of an entrant with the winner.
#[derive(Debug, Clone, PartialEq)]
pub struct FinalStanding {
    /// Index of the entrant.
    pub entrant: usize,
    /// Slowdown against the winner. The interval holds with the confidence 1 -
    /// [`FinalRules::error`], at whichever analysis the final ended.
    pub margin: Margin,
    /// Rounds behind the margin.
    pub rounds: usize,
    /// Whether it left because it differs from the leader by more than a tie. That any of several
    /// identical entrants leaves has the probability [`FinalRules::error`].
    pub differs: bool,
    /// Logarithm of its sample over the winner's, one per round that both have.
    pub log_ratios: Vec<f64>,
}

/// Evidence for a winner.
#[derive(Debug, Clone, PartialEq)]
pub struct Confidence {
    /// The fastest other candidate, if any.
    pub runner_up: Option<FinalStanding>,
    /// Valid rounds of the winner.
    pub rounds: usize,
    /// Discarded rounds.
    pub disturbed_rounds: usize,
    /// Candidates that keys decided among, the winner first; the winner alone when its time decided.
    pub tie_set: Vec<usize>,
    /// Reason that the final ended.
    pub ended: FinalEnd,
}

/// Result of a final.
#[derive(Debug, Clone, PartialEq)]
pub struct FinalResult {
    /// All entrants: the winner first, then by margin.
    pub order: Vec<FinalStanding>,
    /// Evidence for the winner.
    pub confidence: Confidence,
}

/// A device that samples entrants.
pub trait EntrantSampler {
    /// Error of a sample or reading.
    type Error;

    /// Returns the time of one launch of an entrant's work.
    ///
    /// # Errors
    /// The device's error.
    fn sample(&mut self, entrant: usize) -> Result<Micros, Self::Error>;

    /// Reads the sensors, right after work.
    ///
    /// # Errors
    /// The device's error.
    fn conditions(&mut self) -> Result<DeviceConditions, Self::Error>;
}

impl<K: Ord> Final<K> {
    /// Creates a final among `entrants`.
    pub fn new(entrants: Vec<Entrant<K>>, rules: FinalRules) -> Self {
        let first_analysis = rules.first_analysis.max(MIN_ROUNDS);
        let max_rounds = rules.max_rounds.max(first_analysis);
        let rules = FinalRules { first_analysis, max_rounds, ..rules };
        Self {
            samples: vec![Vec::new(); entrants.len()],
            active: (0..entrants.len()).collect(),
            rounds: 0,
            disturbances: Vec::new(),
            ended: entrants.is_empty().then_some(FinalEnd::Separated),
            entrants,
            rules,
        }
    }

    /// Runs the final to its end. All entrants are sampled once before the first round, to warm up.
    ///
    /// # Errors
    /// The device's error; earlier rounds are kept, and [`Self::result`] evaluates them.
    pub fn run<S: EntrantSampler>(&mut self, sampler: &mut S) -> Result<(), S::Error> {
        for entrant in &self.active {
            sampler.sample(*entrant)?;
        }
        let mut before = sampler.conditions()?;
        while let Some(order) = self.next_round() {
            let mut samples = Vec::with_capacity(order.len());
            for entrant in order {
                samples.push((entrant, sampler.sample(entrant)?));
            }
            let after = sampler.conditions()?;
            self.record(&samples, Disturbance::between(&before, &after));
            before = after;
        }
        Ok(())
    }

    /// Returns the entrants of the next round in sampling order; `None` when the final has ended.
    pub fn next_round(&self) -> Option<Vec<usize>> {
        self.ended.is_none().then(|| sampling_order(&self.active, self.rounds))
    }

    /// Adds the samples of a round from [`Self::next_round`]. A disturbed round is counted and
    /// repeated.
    pub fn record(&mut self, samples: &[(usize, Micros)], disturbance: Option<Disturbance>) {
        let times = samples.iter().map(|(_, sample)| *sample);
        if let Some(disturbance) =
            disturbance.or_else(|| Disturbance::of_samples(times, self.rules.floor))
        {
            self.disturbances.push(disturbance);
            if self.disturbances.len() >= self.rules.max_disturbed {
                self.ended = Some(FinalEnd::BrokenOff);
            }
            return;
        }
        for (entrant, sample) in samples {
            self.samples[*entrant].push(*sample);
        }
        self.rounds += 1;
        if self.analyses().any(|rounds| rounds == self.rounds) {
            self.analyse();
        }
    }

    /// Samples of an entrant, one per valid round.
    pub fn samples(&self, entrant: usize) -> &[Micros] {
        &self.samples[entrant]
    }

    /// Reasons for the discarded rounds, in order.
    pub fn disturbances(&self) -> &[Disturbance] {
        &self.disturbances
    }

    /// Compares all entrants with the leader.
    fn analyse(&mut self) {
        let Some(leader) = self.leader() else {
            self.ended = Some(FinalEnd::Separated);
            return;
        };
        let count = self.entrants.len();
        let pairs = (count * (count - 1) / 2).max(1);
        let confidence = 1.0 - self.rules.error / (self.analyses().count() * pairs) as f64;
        let (mut staying, mut undecided) = (Vec::new(), false);
        for entrant in self.active.iter().copied() {
            if entrant == leader || self.surely_ties(entrant, leader) {
                staying.push(entrant);
                continue;
            }
            let margin = self.margin(entrant, leader, confidence);
            if !margin.differs() || margin.percent.abs() < self.rules.tie_percent {
                staying.push(entrant);
                undecided |= !self.is_known(entrant, leader);
            }
        }
        self.active = staying;
        self.ended = if !undecided {
            Some(if self.active.len() == 1 { FinalEnd::Separated } else { FinalEnd::Tied })
        } else {
            (self.rounds >= self.rules.max_rounds).then_some(FinalEnd::OutOfRounds)
        };
    }

    /// Round counts at which the evidence is analysed.
    fn analyses(&self) -> impl Iterator<Item = usize> {
        let FinalRules { first_analysis, max_rounds, .. } = self.rules;
        let grown = (0..)
            .map(move |look| (first_analysis as f64 * ANALYSIS_GROWTH.powi(look)).round() as usize);
        grown.take_while(move |rounds| *rounds < max_rounds).chain([max_rounds])
    }

    /// Returns the fastest candidate, by its rounds relative to the median of the active entrants.
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

    /// Whether a difference is known to [`FinalRules::known_percent`]. It may remain undecided
    /// whether it is a tie.
    fn is_known(&self, entrant: usize, leader: usize) -> bool {
        let Margin { low, high, .. } = self.margin(entrant, leader, 1.0 - self.rules.error);
        (high - low) / 2.0 <= self.rules.known_percent
    }

    fn surely_ties(&self, entrant: usize, leader: usize) -> bool {
        self.margin(entrant, leader, 1.0 - self.rules.error).is_within(self.rules.tie_percent)
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

impl fmt::Display for FinalEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Separated => "separated",
            Self::Tied => "tied",
            Self::OutOfRounds => "out of rounds",
            Self::BrokenOff => "broken off",
        })
    }
}
