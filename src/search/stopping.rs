//! Stopping rule: the probability that a better configuration is left, from the number of outcomes without a gain.
//!
//! "Better" means that a search of 60 s without any knowledge of the GPU, another run, or the same search when it goes on
//! finds it. The probabilities are those over problems, which a search cannot tell apart: in some, waiting finds what is
//! left, in [`LEAST_CHANCE`] of them it does not.

use std::ops::RangeInclusive;

/// Gains that count as better, as fractions of the time: the range of the fits.
pub const WITHIN: RangeInclusive<f64> = 0.005..=0.1;

/// Gain that the fits are centred on.
const CENTRE: f64 = 0.01;

/// Lowest chance that a search can state: the share of problems in which something better is left that no waiting
/// finds, as the search looks elsewhere.
pub const LEAST_CHANCE: f64 = 0.13;

/// Logarithm of the odds for a problem that waiting helps: a constant, a slope for each root of the outcomes without a gain of 0.1 %, and one for the
/// logarithm of the gain over 1 %. Fitted, problems weighted alike, to searches on an H200 and replays of recorded spaces (docs/decisions/2026-11-24-stopping-rule.md, `results/calibration.py`).
#[derive(Debug, Clone, Copy)]
pub(super) struct StoppingRule {
    constant: f64,
    waiting: f64,
    gain: f64,
}

impl StoppingRule {
    /// For searches whose best family has no learned model.
    pub(super) const BLIND: Self = Self { constant: 4.041, waiting: -0.826, gain: -0.801 };

    /// For searches with a learned model of the best family.
    pub(super) const LEARNED: Self = Self { constant: 1.264, waiting: -0.844, gain: -1.104 };

    /// Probability that a configuration better by more than a fraction is left, after outcomes without a gain.
    pub(super) fn chance_of_better(self, within: f64, since_gain: usize) -> f64 {
        let logit = self.at_once(within) + self.waiting * (since_gain as f64).sqrt();
        LEAST_CHANCE + (1.0 - LEAST_CHANCE) / (1.0 + (-logit).exp())
    }

    /// Outcomes without a gain after which the probability is below `chance`; no number is enough for [`LEAST_CHANCE`].
    pub(super) fn answers_until(self, within: f64, chance: f64) -> usize {
        if chance <= LEAST_CHANCE {
            return usize::MAX;
        }
        let chance = ((chance - LEAST_CHANCE) / (1.0 - LEAST_CHANCE)).clamp(1e-6, 1.0 - 1e-6);
        let wanted = (chance / (1.0 - chance)).ln();
        let root = ((wanted - self.at_once(within)) / self.waiting).max(0.0);
        (root * root).floor() as usize + 1
    }

    /// Logarithm of the odds right after a gain.
    fn at_once(self, within: f64) -> f64 {
        let within = within.clamp(*WITHIN.start(), *WITHIN.end());
        self.constant + self.gain * (within / CENTRE).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_until_inverts_the_chance() {
        for rule in [StoppingRule::BLIND, StoppingRule::LEARNED] {
            for (within, chance) in [(0.01, 0.2), (0.005, 0.3), (0.03, 0.15), (0.1, 0.14)] {
                let answers = rule.answers_until(within, chance);
                assert!(rule.chance_of_better(within, answers) < chance, "{chance} {answers}");
                let before = rule.chance_of_better(within, answers - 1);
                assert!(before >= chance || answers == 1, "{chance} {answers}: {before}");
            }
        }
    }

    /// What the rules say of the cases that they were fitted to, beside what was. `results/calibration.py` does the
    /// same with problems held out.
    #[test]
    fn stated_chances_came_true_in_the_committed_searches() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/results/calibration-h200.csv");
        let mut cases: Vec<(f64, f64, f64, f64)> = Vec::new();
        let rows: Vec<csv::StringRecord> =
            csv::Reader::from_path(path).unwrap().into_records().map(Result::unwrap).collect();
        let key = |row: &csv::StringRecord| (row[1].to_owned(), row[3].to_owned());
        let mut runs_of = std::collections::HashMap::new();
        for row in &rows {
            *runs_of.entry(key(row)).or_insert(0.0) += row[5].parse::<f64>().unwrap();
        }
        for row in &rows {
            let rule =
                if &row[3] == "learned" { StoppingRule::LEARNED } else { StoppingRule::BLIND };
            let number = |at: usize| row[at].parse::<f64>().unwrap();
            for (column, within) in [(7, 0.005), (8, 0.01), (9, 0.02), (10, 0.03)] {
                let said = rule.chance_of_better(within, number(4) as usize);
                cases.push((said, number(5), number(column), 1.0 / runs_of[&key(row)]));
            }
        }
        for (low, high) in [(0.13, 0.2), (0.2, 0.35), (0.35, 0.6), (0.6, 1.0)] {
            let (mut total, mut said, mut was) = (0.0, 0.0, 0.0);
            for (chance, runs, left, weight) in &cases {
                if (low..high).contains(chance) {
                    total += runs * weight;
                    said += chance * runs * weight;
                    was += left * weight;
                }
            }
            let [said, was] = [said, was].map(|sum| sum / total);
            assert!((said - was).abs() < 0.08, "{low} to {high}: said {said:.3}, was {was:.3}");
        }
    }

    #[test]
    fn larger_gains_are_less_likely_and_need_fewer_outcomes() {
        for rule in [StoppingRule::BLIND, StoppingRule::LEARNED] {
            for since_gain in [0, 10, 100] {
                let [small, large] =
                    [0.005, 0.03].map(|within| rule.chance_of_better(within, since_gain));
                assert!(small > large, "{since_gain}: {small} {large}");
            }
            assert!(rule.answers_until(0.005, 0.2) > rule.answers_until(0.03, 0.2));
            assert_eq!(rule.answers_until(0.01, 0.05), usize::MAX);
        }
    }
}
