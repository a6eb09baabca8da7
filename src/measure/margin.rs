//! Relative time difference of two entrants, from rounds in which both were sampled, with a
//! confidence interval. Pure numbers.
//!
//! **Pairs.** Samples of one round are a pair, and the analysis uses the logarithm of their ratio.
//! Effects that both share, such as clock and temperature, cancel even when they change between
//! rounds (Kalibera and Jones 2013, "Rigorous benchmarking in reasonable time").
//!
//! **Location.** The trimmed mean of the logarithms, without the lowest and highest fifth (Tukey
//! and McLaughlin 1963). Outliers hardly move it. With normal noise it needs an eighth more rounds
//! than the mean; the median needs half as many again.
//!
//! **Interval.** Rounds are autocorrelated (lag 1: 0.45 in the median on an H200). The variance is
//! therefore estimated from the low frequencies of the series. The logarithms, Winsorised as the
//! trimmed mean's error requires (Yuen 1974), are projected on the K = 0.4 n^(2/3) slowest cosines.
//! Each projection estimates the long-run variance; their mean goes with Student's t of K degrees
//! of freedom (Lazarus, Lewis, Stock and Watson 2018, "HAR inference: recommendations for
//! practice").
//!
//! Coverage, and the comparison with the bootstrap: `docs/decisions/2026-11-23-margin-interval.md`.

use std::f64::consts::PI;

use distrs::StudentsT;

use crate::model::Micros;

/// Minimum of rounds for an interval.
pub const MIN_ROUNDS: usize = 10;

/// Trimmed fraction at each end.
const TRIMMED: f64 = 0.2;

/// Factor in the number of cosines (Lazarus et al. 2018).
const COSINES: f64 = 0.4;

/// Widens the interval by √(n / (n - 5)), for the spread that Winsorising removes. Fitted: coverage
/// at 10 rounds rises from 92.4 to 96.2 % with independent normal noise.
const LOST_ROUNDS: f64 = 5.0;

/// Slowdown of one entrant against another in per cent; negative when it is faster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// The estimate.
    pub percent: f64,
    /// Lower end of the interval; -100 with too few rounds.
    pub low: f64,
    /// Upper end of the interval; infinite with too few rounds.
    pub high: f64,
}

impl Margin {
    /// Compares `slower` with `faster`, whose samples at the same index are of the same round, with
    /// an interval of the given confidence (0.95). Only the first rounds that both have count. All
    /// samples are positive.
    pub fn between(slower: &[Micros], faster: &[Micros], confidence: f64) -> Self {
        let logs = logs_of_ratios(slower, faster);
        let middle = TrimmedMean::of(&logs);
        let half_width = middle.half_width(&logs, confidence);
        Self {
            percent: percent(middle.mean),
            low: percent(middle.mean - half_width),
            high: percent(middle.mean + half_width),
        }
    }

    /// Returns only the estimate, in per cent.
    pub(super) fn estimate(slower: &[Micros], faster: &[Micros]) -> f64 {
        percent(TrimmedMean::of(&logs_of_ratios(slower, faster)).mean)
    }

    /// The time of `slower` divided by that of `faster`.
    pub fn ratio(&self) -> f64 {
        1.0 + self.percent / 100.0
    }

    /// The ends of the interval of [`Self::ratio`]; `None` with too few rounds.
    pub fn ratio_interval(&self) -> Option<[f64; 2]> {
        let ends = [self.low, self.high].map(|percent| 1.0 + percent / 100.0);
        self.high.is_finite().then_some(ends)
    }

    /// Whether the interval rules out that both take the same time.
    pub fn differs(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Whether the interval rules out a difference of `percent` or more, either way.
    pub fn is_within(&self, percent: f64) -> bool {
        -percent < self.low && self.high < percent
    }
}

/// Logarithms of the ratios of samples, one per round that both have.
pub(super) fn logs_of_ratios(slower: &[Micros], faster: &[Micros]) -> Vec<f64> {
    slower.iter().zip(faster).map(|(slower, faster)| (slower.0 / faster.0).ln()).collect()
}

fn percent(log_of_ratio: f64) -> f64 {
    100.0 * log_of_ratio.exp_m1()
}

/// Mean of the values without the lowest and highest, and the bounds of those kept.
struct TrimmedMean {
    mean: f64,
    lowest: f64,
    highest: f64,
    count: usize,
}

impl TrimmedMean {
    fn of(values: &[f64]) -> Self {
        let trimmed = (TRIMMED * values.len() as f64) as usize;
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        match &sorted[trimmed..values.len() - trimmed] {
            [] => Self { mean: 0.0, lowest: 0.0, highest: 0.0, count: 0 },
            kept @ [lowest, ..] => Self {
                mean: kept.iter().sum::<f64>() / kept.len() as f64,
                lowest: *lowest,
                highest: kept[kept.len() - 1],
                count: kept.len(),
            },
        }
    }

    /// Returns half the width of the mean's interval, from all `values` in their order.
    fn half_width(&self, values: &[f64], confidence: f64) -> f64 {
        if values.len() < MIN_ROUNDS {
            return f64::INFINITY;
        }
        let winsorised: Vec<f64> =
            values.iter().map(|value| value.clamp(self.lowest, self.highest) - self.mean).collect();
        let (rounds, kept) = (values.len() as f64, self.count as f64);
        let cosines = ((COSINES * rounds.powf(2.0 / 3.0)).round() as usize).max(2);
        let squared_error = long_run_variance(&winsorised, cosines) * (rounds - 1.0)
            / (kept * (kept - 1.0))
            * (rounds / (rounds - LOST_ROUNDS));
        StudentsT::ppf(0.5 + confidence / 2.0, cosines as f64) * squared_error.sqrt()
    }
}

/// Estimates n times the variance of the mean of n correlated values: the mean square of their
/// projections on the slowest cosines.
fn long_run_variance(values: &[f64], cosines: usize) -> f64 {
    let count = values.len() as f64;
    let square = |frequency: usize| {
        let step = PI * frequency as f64 / count;
        let along = |(place, value): (usize, &f64)| value * (step * (place as f64 + 0.5)).cos();
        values.iter().enumerate().map(along).sum::<f64>().powi(2) * 2.0 / count
    };
    (1..=cosines).map(square).sum::<f64>() / cosines as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn micros(times: &[f64]) -> Vec<Micros> {
        times.iter().copied().map(Micros).collect()
    }

    #[test]
    fn a_constant_ratio_is_found_whatever_the_clock_does() {
        let clock: Vec<f64> = (0..20).map(|round| 100.0 * (1.0 + f64::from(round % 7))).collect();
        let slower: Vec<f64> = clock.iter().map(|time| 1.02 * time).collect();
        let margin = Margin::between(&micros(&slower), &micros(&clock), 0.95);
        for figure in [margin.percent, margin.low, margin.high] {
            assert!((figure - 2.0).abs() < 1e-9, "{margin:?}");
        }
        assert!(margin.differs() && margin.is_within(2.1) && !margin.is_within(1.9));
    }

    #[test]
    fn too_few_rounds_give_an_estimate_without_an_interval() {
        for rounds in 0..MIN_ROUNDS {
            let margin =
                Margin::between(&micros(&vec![2.0; rounds]), &micros(&vec![1.0; rounds]), 0.95);
            let expected = if rounds == 0 { 0.0 } else { 100.0 };
            assert!((margin.percent - expected).abs() < 1e-9, "{margin:?}");
            assert!(!margin.differs() && !margin.is_within(1e6), "{margin:?}");
        }
    }

    /// Abramowitz and Stegun 1964, table 26.10.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (p, freedom, expected) in [
            (0.975, 2.0, 4.303),
            (0.9995, 2.0, 31.598),
            (0.975, 3.0, 3.182),
            (0.9995, 5.0, 6.869),
            (0.975, 15.0, 2.131),
            (0.9995, 15.0, 4.073),
        ] {
            let t = StudentsT::ppf(p, freedom);
            assert!((t / expected - 1.0).abs() < 3e-4, "t({p}; {freedom}) = {t}");
        }
    }

    #[test]
    fn the_long_run_variance_of_independent_values_is_their_variance() {
        // Full set of cosines: Parseval, the sum of squares over n - 1.
        let values = [3.0, -1.0, 2.0, -4.0, 0.0];
        let variance = values.iter().map(|value| value * value).sum::<f64>() / 4.0;
        assert!((long_run_variance(&values, 4) - variance).abs() < 1e-12);
    }

    fn pairs() -> impl Strategy<Value = Vec<(f64, f64)>> {
        prop::collection::vec((1.0..1e4, 1.0..1e4), 0..40)
    }

    proptest! {
        #[test]
        fn exchanging_the_entrants_inverts_the_margin(pairs in pairs()) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let there = Margin::between(&micros(&a), &micros(&b), 0.95);
            let back = Margin::between(&micros(&b), &micros(&a), 0.95);
            let product = (1.0 + there.percent / 100.0) * (1.0 + back.percent / 100.0);
            prop_assert!((product - 1.0).abs() < 1e-9, "{there:?} {back:?}");
            prop_assert_eq!(there.differs(), back.differs());
        }

        #[test]
        fn shared_effects_of_a_round_cancel(
            rounds in prop::collection::vec((1.0..1e4, 1.0..1e4, 0.1..10.0), 10..40),
        ) {
            let plain = Margin::between(
                &rounds.iter().map(|(a, _, _)| Micros(*a)).collect::<Vec<_>>(),
                &rounds.iter().map(|(_, b, _)| Micros(*b)).collect::<Vec<_>>(),
                0.95,
            );
            let shared = Margin::between(
                &rounds.iter().map(|(a, _, clock)| Micros(a * clock)).collect::<Vec<_>>(),
                &rounds.iter().map(|(_, b, clock)| Micros(b * clock)).collect::<Vec<_>>(),
                0.95,
            );
            let slack = 1e-6 * (1.0 + plain.percent.abs());
            prop_assert!((plain.percent - shared.percent).abs() < slack);
        }

        #[test]
        fn more_confidence_is_a_wider_interval(pairs in pairs()) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let narrow = Margin::between(&micros(&a), &micros(&b), 0.9);
            let wide = Margin::between(&micros(&a), &micros(&b), 0.999);
            prop_assert!(wide.low <= narrow.low && narrow.high <= wide.high);
            prop_assert!(narrow.low <= narrow.percent && narrow.percent <= narrow.high);
        }
    }
}
