//! Stopping rule: the probability that a better configuration is left, from the number of outcomes without a gain.

use std::ops::RangeInclusive;

/// Gains that count as better, as fractions of the time: the range of the fits.
pub const WITHIN: RangeInclusive<f64> = 0.005..=0.1;

/// Logarithm of the odds: a constant, and a slope for each root of the outcomes without a gain of 0.1 %. Fits for
/// gains of 1 % and 5 % agree within the error (docs/decisions/2026-11-23-search-constants.md).
#[derive(Debug, Clone, Copy)]
pub(super) struct StoppingRule {
    constant: f64,
    waiting: f64,
    /// Whether outcomes before the first choice of the models count.
    pub(super) counts_first: bool,
}

impl StoppingRule {
    /// For searches without predictions, fitted to 30 trials each on recorded spaces of two GPUs.
    pub(super) const BLIND: Self = Self::of(1.7, -0.35);

    /// For searches with a learned model, fitted to four trials each of 35 held-out problems.
    pub(super) const LEARNED: Self = Self::of(-0.9, -0.45);

    /// For searches with corrections from related problems, fitted to seven runs of 20 layers of a language model.
    pub(super) const CORRECTED: Self = Self { counts_first: true, ..Self::of(0.6, -1.0) };

    const fn of(constant: f64, waiting: f64) -> Self {
        Self { constant, waiting, counts_first: false }
    }

    /// Probability that a better configuration is left after outcomes without a gain.
    pub(super) fn chance_of_better(self, since_gain: usize) -> f64 {
        let logit = self.constant + self.waiting * (since_gain as f64).sqrt();
        1.0 / (1.0 + (-logit).exp())
    }

    /// Outcomes without a gain after which the probability is below `chance`.
    pub(super) fn answers_until(self, chance: f64) -> usize {
        let chance = chance.clamp(1e-6, 1.0 - 1e-6);
        let root = (((chance / (1.0 - chance)).ln() - self.constant) / self.waiting).max(0.0);
        (root * root).floor() as usize + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_until_inverts_the_chance() {
        for rule in [StoppingRule::BLIND, StoppingRule::LEARNED, StoppingRule::CORRECTED] {
            for chance in [0.2, 0.1, 0.05, 0.01] {
                let answers = rule.answers_until(chance);
                assert!(rule.chance_of_better(answers) < chance, "{chance} {answers}");
                let before = rule.chance_of_better(answers - 1);
                assert!(before >= chance || answers == 1, "{chance} {answers}: {before}");
            }
        }
    }
}
