//! The race that screens candidates: after each sample it decides whether a candidate needs more,
//! is a possible finalist, or is dropped. Independent of the device.
//!
//! A candidate is dropped when its first sample is twice as slow as the best, or both of its first
//! two are a fifth slower. Otherwise it is sampled up to [`SAMPLES`] times, or fewer for long
//! samples, while it can still be a finalist. In simulations a race takes 6 to 12 % of the samples
//! that 20 per candidate would be, and keeps the best: `docs/decisions/2026-11-23-race.md`.
//!
//! Candidates are sampled minutes apart, so samples are not paired: differences below [`DRIFT`]
//! count as equal. The final decides between such candidates ([`super::Final`]).
//!
//! A fast outlier is worse than a slow one: as the best it would drop all others. A time that beats
//! the best must therefore be confirmed by a second series, and a sample below the physical floor
//! never counts.

use std::fmt;
use std::mem;

use super::sampling::{CLEARLY_SLOWER, FIRST_CHECK, HOPELESS, SAMPLES};
use crate::model::{Micros, statistics};

/// Drift of one kernel's times between two visits to the device, as a logarithm (up to 1 % on an
/// H200 at 4096x4096x4096).
const DRIFT: f64 = 0.01;

/// Standard errors by which a candidate must be slower to be dropped: with normal noise, one check
/// of 740 errs.
const STANDARD_ERRORS: f64 = 3.0;

/// The standard error of a median over that of a mean, for normal samples: √(π/2).
const MEDIAN_OVER_MEAN: f64 = 1.2533;

/// The standard deviation over the median absolute deviation, for normal samples.
const DEVIATION_OVER_MAD: f64 = 1.4826;

/// Assumed noise of a sample before any is known, as a logarithm (0.1 to 0.3 % on an H200).
const USUAL_NOISE: f64 = 0.01;

/// Number of impossible samples after which a candidate is dropped.
const MAX_IMPOSSIBLE: usize = 3;

/// Number of series after which an unconfirmed time counts as the slower of the last two.
const MAX_SERIES: usize = 3;

/// State of the race: the best candidates and their noise.
#[derive(Debug, Clone)]
pub struct Race {
    finalists: usize,
    floor: Micros,
    /// Medians of the best candidates, fastest first; at most as many as finalists.
    best: Vec<Micros>,
    /// Noise of each fully sampled candidate.
    noises: Vec<f64>,
    usual_noise: f64,
}

/// Samples of the current candidate.
#[derive(Debug, Clone)]
pub struct RacingCandidate {
    /// Number of samples that suffice.
    enough: usize,
    series: Vec<Micros>,
    /// The previous series, if it needs confirmation.
    earlier: Option<Vec<Micros>>,
    repeats: usize,
    impossible: usize,
}

/// Next step for a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RaceStep {
    /// Take another sample.
    More,
    /// Prepare it again, including validation, and continue: it must confirm this suspiciously good
    /// time in a second series.
    Confirm(Micros),
    /// Its samples suffice.
    Enough,
    /// It is dropped.
    Drop(DropReason),
}

/// Reason that a candidate is dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DropReason {
    /// One sample took this many times the best.
    Hopeless(f64),
    /// It takes this many times the best.
    ClearlySlower(f64),
    /// It is significantly slower than the last finalist.
    NoFinalist,
    /// Its samples are shorter than any kernel can take.
    Impossible {
        /// The shortest possible time.
        floor: Micros,
    },
}

impl Race {
    /// Starts a race for `finalists` places in the final; no kernel is faster than `floor`
    /// ([`crate::model::floor()`]).
    pub fn new(finalists: usize, floor: Micros) -> Self {
        Self {
            finalists: finalists.max(1),
            floor,
            best: Vec::new(),
            noises: Vec::new(),
            usual_noise: USUAL_NOISE,
        }
    }

    /// Time of the best candidate.
    pub fn best(&self) -> Option<Micros> {
        self.best.first().copied()
    }

    /// Checks whether one sample suffices to drop a candidate. Also applies to the probe of a
    /// single launch, before a longer sequence is recorded.
    pub fn hopeless(&self, sample: Micros) -> Option<DropReason> {
        let times = self.times_the_best(sample)?;
        (times > HOPELESS).then_some(DropReason::Hopeless(times))
    }

    fn times_the_best(&self, time: Micros) -> Option<f64> {
        Some(time.0 / self.best()?.0)
    }

    /// Adds the samples of a candidate that got [`RaceStep::Enough`].
    pub fn admit(&mut self, samples: &[Micros]) {
        let Some(time) = median(samples) else { return };
        let place = self.best.partition_point(|better| *better <= time);
        self.best.insert(place, time);
        self.best.truncate(self.finalists);
        self.noises.push(noise(samples));
        self.usual_noise = statistics::median(&self.noises).unwrap_or(USUAL_NOISE);
    }

    /// Largest difference of two medians of the same kernel, as a logarithm.
    fn tolerance(&self, samples: &[Micros]) -> f64 {
        let noise = self.usual_noise.max(noise(samples));
        let variance = 1.0 / samples.len() as f64 + 1.0 / SAMPLES as f64;
        DRIFT + STANDARD_ERRORS * MEDIAN_OVER_MEAN * noise * variance.sqrt()
    }
}

impl Default for RacingCandidate {
    fn default() -> Self {
        let (series, earlier) = (Vec::new(), None);
        Self { enough: SAMPLES, series, earlier, repeats: 0, impossible: 0 }
    }
}

impl RacingCandidate {
    /// A candidate without samples; [`SAMPLES`] suffice.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of samples that suffice, at least one, for long samples.
    pub(super) fn set_enough(&mut self, samples: usize) {
        self.enough = samples.max(1);
    }

    /// Samples since it was last prepared.
    pub fn samples(&self) -> &[Micros] {
        &self.series
    }

    /// Adds a sample and returns the next step. All samples span the same number of launches.
    pub fn take(&mut self, sample: Micros, race: &Race) -> RaceStep {
        let possible = sample.0.is_finite() && sample.0 > 0.0 && sample >= race.floor;
        if !possible {
            self.impossible += 1;
            return match self.impossible {
                MAX_IMPOSSIBLE.. => RaceStep::Drop(DropReason::Impossible { floor: race.floor }),
                _ => RaceStep::More,
            };
        }
        self.series.push(sample);
        let time = estimate(&self.series).unwrap_or(sample);
        let count = self.series.len();
        if count == 1
            && let Some(reason) = race.hopeless(time)
        {
            return RaceStep::Drop(reason);
        }
        if count == FIRST_CHECK
            && let Some(times) = race.times_the_best(time).filter(|times| *times > CLEARLY_SLOWER)
        {
            return RaceStep::Drop(DropReason::ClearlySlower(times));
        }
        if count >= FIRST_CHECK && self.is_no_finalist(time, race) {
            return RaceStep::Drop(DropReason::NoFinalist);
        }
        if count < self.enough {
            return RaceStep::More;
        }
        if self.is_suspicious(time, race) { self.confirm(time, race) } else { RaceStep::Enough }
    }

    fn is_no_finalist(&self, time: Micros, race: &Race) -> bool {
        let last = race.best.get(race.finalists - 1);
        last.is_some_and(|last| (time.0 / last.0).ln() > race.tolerance(&self.series))
    }

    /// Whether it beats the best by more than noise and drift explain.
    fn is_suspicious(&self, time: Micros, race: &Race) -> bool {
        race.best().is_none_or(|best| (best.0 / time.0).ln() > race.tolerance(&self.series))
    }

    /// Compares a full series with the previous one.
    fn confirm(&mut self, time: Micros, race: &Race) -> RaceStep {
        let series = mem::take(&mut self.series);
        if let Some(earlier) = self.earlier.take() {
            let before = median(&earlier).unwrap_or(time);
            if (time.0 / before.0).ln().abs() <= race.tolerance(&series) {
                self.series = series;
                return RaceStep::Enough;
            }
            if self.repeats + 1 == MAX_SERIES {
                self.series = if before > time { earlier } else { series };
                return RaceStep::Enough;
            }
        }
        self.repeats += 1;
        self.earlier = Some(series);
        RaceStep::Confirm(time)
    }
}

/// Returns the median, or the faster of two: one late sample says nothing about a kernel.
fn estimate(samples: &[Micros]) -> Option<Micros> {
    match samples {
        [first, second] => Some(Micros(first.0.min(second.0))),
        _ => median(samples),
    }
}

fn median(samples: &[Micros]) -> Option<Micros> {
    let times: Vec<f64> = samples.iter().map(|sample| sample.0).collect();
    statistics::median(&times).map(Micros)
}

/// The standard deviation of the logarithms, from their median absolute deviation.
fn noise(samples: &[Micros]) -> f64 {
    let Some(middle) = median(samples) else { return 0.0 };
    let away: Vec<f64> = samples.iter().map(|sample| (sample.0 / middle.0).ln().abs()).collect();
    DEVIATION_OVER_MAD * statistics::median(&away).unwrap_or(0.0)
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hopeless(times) => write!(f, "one sample was {times:.1} times the best"),
            Self::ClearlySlower(times) => write!(f, "takes {times:.2} times as long as the best"),
            Self::NoFinalist => write!(f, "significantly slower than the last finalist"),
            Self::Impossible { floor } => {
                write!(f, "its samples are impossible (no kernel takes less than {floor})")
            }
        }
    }
}
