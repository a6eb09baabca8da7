//! The race that screens candidates: how many samples one gets before it may be a finalist or is
//! out. It takes samples and says what to do next; it knows no device.
//!
//! A candidate whose first sample is twice as slow as the best is out, and so is one a fifth slower
//! in two. From then on it goes on, up to [`SAMPLES`] or fewer where each spans much, for as long as it may
//! still be among the finalists. Of 1000 kernels whose times scatter as in two spaces that others recorded, this
//! takes 6 % of the samples that 20 for each would be, and 12 % of 1000 that are all within 30 %
//! of the best, as a search asks for them in the end; a kernel within 0.5 % of the best was among
//! five finalists in each of 200 such races.
//!
//! Candidates are sampled minutes apart, so that nothing is paired here: what differs by less than
//! [`DRIFT`] is the same. The final decides between them ([`super::Final`]).
//!
//! A lucky sample does more harm than a slow one: as the best, it throws everyone else out. So a
//! time that beats the best must be seen again in a series of its own before it counts, and a
//! sample below the physical floor never does.

use std::fmt;
use std::mem;

use super::sampling::{CLEARLY_SLOWER, FIRST_LOOK, HOPELESS, SAMPLES};
use crate::model::{Micros, statistics};

/// How far the times of one kernel drift between two visits to the device, as a logarithm: the same
/// cubin differs by up to 1 % between runs on an H200 (4096x4096x4096).
const DRIFT: f64 = 0.01;

/// Standard errors by which a candidate must be behind to be out: with normal noise, one look of
/// 740 errs.
const STANDARD_ERRORS: f64 = 3.0;

/// The standard error of a median over that of a mean, for normal samples: √(π/2).
const MEDIAN_OVER_MEAN: f64 = 1.2533;

/// The standard deviation over the median absolute deviation, for normal samples.
const DEVIATION_OVER_MAD: f64 = 1.4826;

/// The noise of a sample before any is known, as a logarithm. On an H200 it is 0.1 to 0.3 %.
const USUAL_NOISE: f64 = 0.01;

/// Impossible samples after which a candidate is out.
const MOST_IMPOSSIBLE: usize = 3;

/// Series after which a time that was never seen twice is taken for the slower of the last two.
const MOST_SERIES: usize = 3;

/// The candidates until now, as far as the next one is judged by them.
#[derive(Debug, Clone)]
pub struct Race {
    finalists: usize,
    floor: Micros,
    /// Medians of the best, fastest first; as many as finalists at most.
    best: Vec<Micros>,
    /// The noise of each candidate that was sampled to the end, and the middle one of these.
    noises: Vec<f64>,
    usual_noise: f64,
}

/// A candidate that is being sampled.
#[derive(Debug, Clone)]
pub struct Racer {
    /// Samples that will do.
    enough: usize,
    series: Vec<Micros>,
    /// The series before this one, if it is to be confirmed.
    earlier: Option<Vec<Micros>>,
    repeats: usize,
    impossible: usize,
}

/// What to do with a candidate next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Sample it again.
    More,
    /// Prepare it anew, validation included, and go on: it must show this time, which is too good
    /// to be believed at once, in a second series.
    Confirm(Micros),
    /// Its samples will do.
    Enough,
    /// It is no finalist.
    Drop(Reason),
}

/// Why a candidate is out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
    /// One sample was so many times as slow as the best.
    Hopeless(f64),
    /// It is so many times as slow as the best.
    ClearlySlower(f64),
    /// It is surely slower than the last of the finalists.
    NoFinalist,
    /// Its samples are shorter than any kernel can take.
    Impossible {
        /// The shortest believable time.
        floor: Micros,
    },
}

impl Race {
    /// A race for so many places in the final; no kernel is faster than `floor`
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

    /// The time of the best.
    pub fn best(&self) -> Option<Micros> {
        self.best.first().copied()
    }

    /// Whether one sample is enough to see that a candidate is out. Serves a first look at a single
    /// launch, before a sequence of many is recorded, too.
    pub fn hopeless(&self, sample: Micros) -> Option<Reason> {
        let times = self.times_the_best(sample)?;
        (times > HOPELESS).then_some(Reason::Hopeless(times))
    }

    fn times_the_best(&self, time: Micros) -> Option<f64> {
        Some(time.0 / self.best()?.0)
    }

    /// Takes the samples of a candidate that got [`Step::Enough`] into account.
    pub fn admit(&mut self, samples: &[Micros]) {
        let Some(time) = median(samples) else { return };
        let place = self.best.partition_point(|better| *better <= time);
        self.best.insert(place, time);
        self.best.truncate(self.finalists);
        self.noises.push(noise(samples));
        self.usual_noise = statistics::median(&self.noises).unwrap_or(USUAL_NOISE);
    }

    /// What two medians may differ by and be of the same kernel, as a logarithm.
    fn tolerance(&self, samples: &[Micros]) -> f64 {
        let noise = self.usual_noise.max(noise(samples));
        let variance = 1.0 / samples.len() as f64 + 1.0 / SAMPLES as f64;
        DRIFT + STANDARD_ERRORS * MEDIAN_OVER_MEAN * noise * variance.sqrt()
    }
}

impl Default for Racer {
    fn default() -> Self {
        let (series, earlier) = (Vec::new(), None);
        Self { enough: SAMPLES, series, earlier, repeats: 0, impossible: 0 }
    }
}

impl Racer {
    /// A candidate without samples, of which [`SAMPLES`] will do.
    pub fn new() -> Self {
        Self::default()
    }

    /// So many samples will do, at least one: each spans much.
    pub(super) fn be_content_with(&mut self, samples: usize) {
        self.enough = samples.max(1);
    }

    /// The samples that count: those since it was last prepared.
    pub fn samples(&self) -> &[Micros] {
        &self.series
    }

    /// Takes a sample and says what is next. All samples span the same number of launches.
    pub fn take(&mut self, sample: Micros, race: &Race) -> Step {
        let believable = sample.0.is_finite() && sample.0 > 0.0 && sample >= race.floor;
        if !believable {
            self.impossible += 1;
            return match self.impossible {
                MOST_IMPOSSIBLE.. => Step::Drop(Reason::Impossible { floor: race.floor }),
                _ => Step::More,
            };
        }
        self.series.push(sample);
        let time = estimate(&self.series).unwrap_or(sample);
        let count = self.series.len();
        if count == 1
            && let Some(reason) = race.hopeless(time)
        {
            return Step::Drop(reason);
        }
        if count == FIRST_LOOK
            && let Some(times) = race.times_the_best(time).filter(|times| *times > CLEARLY_SLOWER)
        {
            return Step::Drop(Reason::ClearlySlower(times));
        }
        if count >= FIRST_LOOK && self.is_no_finalist(time, race) {
            return Step::Drop(Reason::NoFinalist);
        }
        if count < self.enough {
            return Step::More;
        }
        if self.is_suspicious(time, race) { self.confirm(time, race) } else { Step::Enough }
    }

    fn is_no_finalist(&self, time: Micros, race: &Race) -> bool {
        let last = race.best.get(race.finalists - 1);
        last.is_some_and(|last| (time.0 / last.0).ln() > race.tolerance(&self.series))
    }

    /// Whether it is faster than the best by more than noise and drift explain.
    fn is_suspicious(&self, time: Micros, race: &Race) -> bool {
        race.best().is_none_or(|best| (best.0 / time.0).ln() > race.tolerance(&self.series))
    }

    /// Compares a full series with the one before.
    fn confirm(&mut self, time: Micros, race: &Race) -> Step {
        let series = mem::take(&mut self.series);
        if let Some(earlier) = self.earlier.take() {
            let before = median(&earlier).unwrap_or(time);
            if (time.0 / before.0).ln().abs() <= race.tolerance(&series) {
                self.series = series;
                return Step::Enough;
            }
            if self.repeats + 1 == MOST_SERIES {
                self.series = if before > time { earlier } else { series };
                return Step::Enough;
            }
        }
        self.repeats += 1;
        self.earlier = Some(series);
        Step::Confirm(time)
    }
}

/// The middle sample, or the faster of two: one that is late says nothing of a kernel.
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

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hopeless(times) => write!(f, "one sample was {times:.1} times the best"),
            Self::ClearlySlower(times) => write!(f, "takes {times:.2} times as long as the best"),
            Self::NoFinalist => write!(f, "surely slower than the last of the finalists"),
            Self::Impossible { floor } => {
                write!(f, "its samples are impossible (no kernel takes less than {floor})")
            }
        }
    }
}
