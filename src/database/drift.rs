//! Whether a record still holds: what it says against times that were taken anew. Pure; who takes
//! the times is [`crate::tune::retime`].

use std::fmt;

use super::record::Record;
use crate::measure::Margin;
use crate::model::Micros;
use crate::tune::Retimed;

/// By how many per cent a kernel's time may differ from one run to the next without anything having
/// changed: the same cubin does by as much on an H200 at 4096x4096x4096 ([`crate::measure::FinalRules`]).
const RUN_TO_RUN_PERCENT: f64 = 1.0;

/// Differences between two kernels of one final below this are a tie, and no drift either
/// ([`crate::measure::FinalRules`]).
const TIE_PERCENT: f64 = 0.5;

/// Something that a record says and that is not so any more.
#[derive(Debug, Clone, PartialEq)]
pub enum Drift {
    /// The winner is not legal, does not compile or is wrong.
    Broken {
        /// Why.
        why: String,
    },
    /// The family's template is not the one that the record was made with.
    Template {
        /// Its hash then.
        stored: String,
        /// Its hash now.
        now: String,
    },
    /// The winner's time left the 5 % to 95 % of its samples, by more than one run differs from
    /// another.
    Time {
        /// From and to, with that allowance.
        allowed: [Micros; 2],
        /// The median now.
        now: Micros,
    },
    /// The runner-up's margin over the winner left its interval, by more than a tie.
    Margin {
        /// The interval then, in per cent.
        stored: [f64; 2],
        /// The margin now.
        now: Margin,
    },
    /// The runner-up is faster now, by more than a tie.
    Overturned {
        /// Its margin over the winner now: below zero.
        now: Margin,
    },
    /// The fastest library's margin over the winner left what was recorded, by more than one run
    /// differs from another.
    Library {
        /// What it took more than the winner then, in per cent.
        stored: f64,
        /// And now.
        now: Margin,
    },
}

impl Drift {
    /// What of `record` does not hold, given its winner timed again, and the hash of its family's
    /// template now.
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

/// Within which times a record's winner holds.
fn allowed(record: &Record) -> [Micros; 2] {
    let allowance = RUN_TO_RUN_PERCENT / 100.0;
    let measurement = &record.measurement;
    // A file shortened by hand may lack sense here; the median is within in any case.
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
            Self::Broken { why } => write!(f, "the winner does not hold: {why}"),
            Self::Template { stored, now } => {
                write!(f, "the template has changed since, from {stored} to {now}: tune again")
            }
            Self::Time { allowed: [low, high], now } => {
                write!(f, "the winner takes {now}, outside of {low} to {high}")
            }
            Self::Margin { stored: [low, high], now } => write!(
                f,
                "the runner-up takes {} more, outside of {low:+.2} to {high:+.2} %",
                margin(now)
            ),
            Self::Overturned { now } => {
                write!(f, "the runner-up is faster now: it takes {} more", margin(now))
            }
            Self::Library { stored, now } => write!(
                f,
                "the fastest library takes {} more than the winner, recorded were {stored:+.2} %",
                margin(now)
            ),
        }
    }
}
