//! The chance that something better is left, from how long nothing better was found.

use std::ops::RangeInclusive;

/// What may count as better: fractions of the time. Beyond these nothing was fitted.
pub const WITHIN: RangeInclusive<f64> = 0.005..=0.1;

/// The logarithm of the odds that something better is left: a constant, and so much for each root of the
/// answers without a gain of 0.1 %. What counts as better has no part in it: 1 % and 5 % were the same
/// within the error, for what is left is either the optimum by far or nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoppingRule {
    constant: f64,
    waiting: f64,
    /// Whether answers count before the models choose as well.
    pub(super) counts_first: bool,
}

impl StoppingRule {
    /// Of searches that know nothing of their configurations' times before. Fitted to what was in 30
    /// trials each on recorded spaces of two GPUs, of 10,000 and 18,000 configurations.
    pub(super) const BLIND: Self = Self::of(1.7, -0.35);

    /// Of searches that expect times by what other problems took. In four trials each of 35 problems that
    /// were held out, something better was left after 0, 5, 23 and 55 answers without a gain in 0.24, 0.14,
    /// 0.04 and 0.002 of the cases; this says 0.29, 0.13, 0.04 and 0.014.
    pub(super) const LEARNED: Self = Self::of(-0.9, -0.45);

    /// Of searches that know besides what these times were off by for problems of the same run, for whom the
    /// first answers are among the best. In seven runs of 20 layers of a language model on H200s, in all but
    /// the first layer of each, something 1 % better came after 0, 4, 8, 12, 16, 20 and 24 answers without a
    /// gain in 59, 23, 14, 5, 3.8, 2.3 and 1.5 % of 133 cases; this says 65, 20, 10, 5, 3.2, 2.0 and 1.3 %.
    pub(super) const CORRECTED: Self = Self { counts_first: true, ..Self::of(0.6, -1.0) };

    const fn of(constant: f64, waiting: f64) -> Self {
        Self { constant, waiting, counts_first: false }
    }

    /// The chance that a configuration is left that is better, after so many answers in a row
    /// without a gain.
    pub(super) fn chance_of_better(self, since_gain: usize) -> f64 {
        let logit = self.constant + self.waiting * (since_gain as f64).sqrt();
        1.0 / (1.0 + (-logit).exp())
    }

    /// After how many answers in a row without a gain the chance is below `chance`.
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
    fn so_many_answers_make_a_chance() {
        for stopping_rule in [StoppingRule::BLIND, StoppingRule::LEARNED, StoppingRule::CORRECTED] {
            for chance in [0.2, 0.1, 0.05, 0.01] {
                let answers = stopping_rule.answers_until(chance);
                assert!(stopping_rule.chance_of_better(answers) < chance, "{chance} {answers}");
                let before = stopping_rule.chance_of_better(answers - 1);
                assert!(before >= chance || answers == 1, "{chance} {answers}: {before}");
            }
        }
    }
}
