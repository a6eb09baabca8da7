//! How a problem is tuned: effort, limits, search strategy and measuring conditions.

use std::path::PathBuf;
use std::time::Duration;

use super::effort::{Effort, StopRule};
use super::finalist::FinalOptions;
use super::sanitize::Sanitizer;
use crate::measure::TieRule;
use crate::model::{Device, Regime};
use crate::search::Search;

/// How a problem is tuned.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How much effort it gets.
    pub effort: Effort,
    /// What counts as better when a search ends because something better is unlikely to be left: a time shorter by more
    /// than this fraction. Without a value, the effort decides.
    pub within: Option<f64>,
    /// The chance below which a search ends. Without a value, the effort decides.
    pub stop_chance: Option<f64>,
    /// Most candidates to evaluate. Without a value, the effort decides.
    pub max_configs: Option<usize>,
    /// The time after which the search ends and the final begins. Without a value, the effort decides.
    pub budget: Option<Duration>,
    /// The folder of journals. Without one, an interrupted run leaves nothing behind.
    pub journals: Option<PathBuf>,
    /// Whether the search ignores the journal and warm starts. The record of the problem takes part in the final
    /// nevertheless.
    pub fresh: bool,
    /// How candidates are chosen.
    pub search: Search,
    /// The conditions that times are measured under. The host models times and has the default only.
    pub regime: Regime,
    /// A sanitizer that finalists run under, besides the validation of all candidates. The host takes none: it checks
    /// every access itself.
    pub sanitizer: Option<Sanitizer>,
    /// Which differences of finalists are decided without their times.
    pub ties: TieRule,
    /// Seeds operands and search.
    pub seed: u64,
}

impl Default for Settings {
    /// Normal effort within its own limits, in the default regime, without a journal.
    fn default() -> Self {
        Self {
            effort: Effort::Normal,
            within: None,
            stop_chance: None,
            max_configs: None,
            budget: None,
            journals: None,
            fresh: false,
            search: Search::Auto,
            regime: Regime::default(),
            sanitizer: None,
            ties: TieRule::default(),
            seed: 1,
        }
    }
}

impl Settings {
    /// When the search ends.
    pub fn rule(&self) -> Option<StopRule> {
        self.effort.rule(self.within, self.stop_chance)
    }

    /// How the final round is held.
    pub(super) fn final_options(&self) -> FinalOptions<'_> {
        FinalOptions { sanitizer: self.sanitizer.as_ref(), ties: self.ties }
    }

    /// The time after which a search on a device ends.
    pub fn patience(&self, device: &Device) -> Option<Duration> {
        self.budget.or_else(|| self.effort.patience(device))
    }

    /// Most candidates to evaluate on a device.
    pub fn most(&self, device: &Device) -> usize {
        self.max_configs.unwrap_or_else(|| self.effort.most(device))
    }
}
