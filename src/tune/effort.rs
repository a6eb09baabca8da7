//! Effort of a search, its stopping rule, and why it ended.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::model::{Device, Micros};

/// How much effort a problem gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effort {
    /// Until four in five such searches have nothing left that is 3 % better.
    Quick,
    /// Until four in five such searches have nothing left that is 1 % better.
    #[default]
    Normal,
    /// Until nothing is left or [`Effort::most`] candidates are evaluated.
    Full,
}

/// A word that names no effort.
#[derive(Debug, Error)]
#[error("`{word}` is no effort: choose one of {}", Effort::ALL.map(Effort::name).join(", "))]
pub struct UnknownEffort {
    word: String,
}

/// Stopping rule: a search ends as soon as its estimate of the chance that a configuration faster than the best by more than
/// a fraction is left falls below a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StopRule {
    /// The fraction.
    pub within: f64,
    /// The limit of the chance, from 0 to 1.
    pub chance: f64,
}

impl Effort {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Quick, Self::Normal, Self::Full];

    /// The name that is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Normal => "normal",
            Self::Full => "full",
        }
    }

    /// The stopping rule. A given `within` or `limit` of the chance replaces that of the effort.
    pub fn rule(self, within: Option<f64>, limit: Option<f64>) -> Option<StopRule> {
        let (own, chance) = match self {
            Self::Quick => (Some(0.03), 0.2),
            // 36 outcomes without a gain with a learned model (docs/decisions/2026-11-28-searches-that-go-on.md).
            Self::Normal => (Some(0.01), 0.15),
            Self::Full => (None, 0.15),
        };
        let own = own.or(limit.map(|_| 0.01));
        within.or(own).map(|within| StopRule { within, chance: limit.unwrap_or(chance) })
    }

    /// Most candidates to evaluate. A GPU takes about 40 ms for one, two cores of a host 0.8 s for
    /// one of 4096x4096x1024.
    pub fn most(self, device: &Device) -> usize {
        let on_gpu = match self {
            Self::Quick => 300,
            Self::Normal => 1000,
            Self::Full => 10_000,
        };
        if device.is_cpu() { on_gpu / 5 } else { on_gpu }
    }

    /// The time after which a search ends: unlimited on a GPU, minutes on the host.
    pub fn patience(self, device: &Device) -> Option<Duration> {
        let seconds = match self {
            Self::Quick => 60,
            Self::Normal => 240,
            Self::Full => return None,
        };
        device.is_cpu().then_some(Duration::from_secs(seconds))
    }
}

impl FromStr for Effort {
    type Err = UnknownEffort;

    fn from_str(word: &str) -> Result<Self, UnknownEffort> {
        let known = Self::ALL.into_iter().find(|effort| effort.name() == word);
        known.ok_or_else(|| UnknownEffort { word: word.to_owned() })
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SearchEnd {
    /// Every legal configuration was evaluated.
    Everything,
    /// The most candidates that it may evaluate were evaluated.
    Most,
    /// The stopping rule is satisfied.
    Unlikely(StopRule),
    /// Its time is over.
    OutOfTime,
    /// It was interrupted.
    Interrupted,
}

impl SearchEnd {
    /// Whether it ended before its rule was satisfied.
    pub fn is_early(self) -> bool {
        matches!(self, Self::OutOfTime | Self::Interrupted)
    }

    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Most => "most",
            Self::Unlikely(_) => "unlikely",
            Self::OutOfTime => "out_of_time",
            Self::Interrupted => "interrupted",
        }
    }
}

/// The chance that something better is left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GainChance {
    /// What counts as better: a time shorter by more than this fraction.
    pub within: f64,
    /// The chance, from 0 to 1.
    pub chance: f64,
}

/// The estimate of a search for the configurations that it did not evaluate.
#[derive(Debug, Clone, PartialEq)]
pub struct Rest {
    /// Gains, as fractions of the time, each with the chance that something better by more is left: that of the rule
    /// first. Empty where the strategy has no estimate.
    pub chances: Vec<GainChance>,
    /// The lowest predicted time among the configurations that the strategy scored.
    pub least: Option<Micros>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_effort_stops_later() {
        let (gpu, host) = (Device::h200(), Device::cpu());
        for pair in Effort::ALL.windows(2) {
            assert!(pair[0].most(&gpu) < pair[1].most(&gpu));
            assert!(pair[0].most(&host) < pair[1].most(&host));
            let rule = |effort: Effort| effort.rule(None, Some(0.1)).unwrap();
            assert!(rule(pair[0]).within >= rule(pair[1]).within);
        }
        assert_eq!(Effort::Full.rule(None, None), None);
        let rule = |within, chance| Some(StopRule { within, chance });
        assert_eq!(Effort::Normal.rule(Some(0.02), None), rule(0.02, 0.15));
        assert_eq!(Effort::Full.rule(None, Some(0.05)), rule(0.01, 0.05));
        assert_eq!(Effort::Quick.patience(&gpu), None);
        assert!(Effort::Quick.patience(&host) < Effort::Normal.patience(&host));
    }

    #[test]
    fn efforts_are_read_by_their_names() {
        for effort in Effort::ALL {
            assert_eq!(effort.to_string().parse::<Effort>().unwrap(), effort);
        }
        let error = "most".parse::<Effort>().unwrap_err().to_string();
        assert_eq!(error, "`most` is no effort: choose one of quick, normal, full");
    }
}
