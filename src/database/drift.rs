//! Drift: compares a record with new timings of its kernel. Pure; [`crate::tune::retime`] takes the
//! timings.

use std::fmt;

use super::record::Record;
use crate::measure::Margin;
use crate::model::Micros;
use crate::tune::Retimed;

/// Allowed change of a kernel's time between runs, in per cent. The same cubin varies by this much
/// on an H200 at 4096x4096x4096 ([`crate::measure::FinalRules`]).
const RUN_TO_RUN_PERCENT: f64 = 1.0;

/// Differences below this between two kernels of one final round are a tie, and no drift
/// ([`crate::measure::FinalRules`]).
const TIE_PERCENT: f64 = 0.5;

/// A statement of a record that new timings contradict.
#[derive(Debug, Clone, PartialEq)]
pub enum Drift {
    /// The winner is not legal any more, does not compile or computes wrong results.
    Broken {
        /// Why.
        why: String,
    },
    /// The family's template has changed since the record was made.
    Template {
        /// The recorded hash.
        stored: String,
        /// The current hash.
        now: String,
    },
    /// The winner's time is outside the 5 % to 95 % quantiles of its samples, by more than runs
    /// vary.
    Time {
        /// Lower and upper limit, with that allowance.
        allowed: [Micros; 2],
        /// The new median.
        now: Micros,
    },
    /// The runner-up's margin over the winner is outside the recorded interval, by more than a tie.
    Margin {
        /// The recorded interval, in per cent.
        stored: [f64; 2],
        /// The new margin.
        now: Margin,
    },
    /// The runner-up is now faster, by more than a tie.
    Overturned {
        /// Its new margin over the winner, below zero.
        now: Margin,
    },
    /// The fastest library's margin over the winner differs from the recorded one, by more than
    /// runs vary.
    Library {
        /// The recorded margin, in per cent.
        stored: f64,
        /// The new margin.
        now: Margin,
    },
}

impl Drift {
    /// Lists the statements of `record` that do not hold, given new timings of its winner and the
    /// current hash of its family's template.
    pub fn of(record: &Record, retimed: &Retimed, template_hash: &str) -> Vec<Self> {
        let mut drifts = Vec::new();
        let stored = &record.provenance.template_hash;
        if stored != template_hash {
            let (stored, now) = (stored.clone(), template_hash.to_owned());
            drifts.push(Self::Template { stored, now });
        }
        let winner = match &retimed.winner {
            Ok(winner) => winner,
            Err(why) => {
                drifts.push(Self::Broken { why: why.clone() });
                return drifts;
            }
        };
        let now = winner.measurement.median();
        let allowed = allowed(record);
        if !(allowed[0].0..=allowed[1].0).contains(&now.0) {
            drifts.push(Self::Time { allowed, now });
        }
        if let Some(margin) = retimed.margin.filter(|margin| margin.high.is_finite()) {
            let interval = record.confidence.as_ref().and_then(|stored| stored.interval_percent);
            if margin.high < -TIE_PERCENT {
                drifts.push(Self::Overturned { now: margin });
            } else if let Some(stored @ [low, high]) = interval
                && (margin.low > high + TIE_PERCENT || margin.high < low - TIE_PERCENT)
            {
                drifts.push(Self::Margin { stored, now: margin });
            }
        }
        let library = retimed.libraries.first().and_then(|(_, margin)| *margin);
        if let (Some(now), Some(baseline)) = (library, &record.baseline)
            && now.high.is_finite()
        {
            let stored = 100.0 * (baseline.speedup - 1.0);
            let near = now.low - RUN_TO_RUN_PERCENT..=now.high + RUN_TO_RUN_PERCENT;
            if !near.contains(&stored) {
                drifts.push(Self::Library { stored, now });
            }
        }
        drifts
    }
}

/// Range of times in which a record's winner holds.
fn allowed(record: &Record) -> [Micros; 2] {
    let allowance = RUN_TO_RUN_PERCENT / 100.0;
    let measurement = &record.measurement;
    // A hand-edited file may have inconsistent quantiles; the median is always inside the range.
    let low = measurement.p05_us.min(measurement.median_us);
    let high = measurement.p95_us.max(measurement.median_us);
    [Micros(low * (1.0 - allowance)), Micros(high * (1.0 + allowance))]
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let margin = |margin: &Margin| {
            format!("{:+.2} % ({:+.2} to {:+.2})", margin.percent, margin.low, margin.high)
        };
        match self {
            Self::Broken { why } => write!(f, "the winner cannot be confirmed: {why}"),
            Self::Template { stored, now } => {
                write!(f, "the template has changed, from {stored} to {now}: tune again")
            }
            Self::Time { allowed: [low, high], now } => {
                write!(f, "the winner takes {now}, outside {low} to {high}")
            }
            Self::Margin { stored: [low, high], now } => write!(
                f,
                "the runner-up takes {} more, outside {low:+.2} to {high:+.2} %",
                margin(now)
            ),
            Self::Overturned { now } => {
                write!(f, "the runner-up is now faster: it takes {} more", margin(now))
            }
            Self::Library { stored, now } => write!(
                f,
                "the fastest library takes {} more than the winner; the record says {stored:+.2} %",
                margin(now)
            ),
        }
    }
}
