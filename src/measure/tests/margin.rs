//! A margin's interval of nominally 95 % covers the truth in at least 93 % of cases under every
//! noise, and is not much wider than necessary.

use super::noise::{Device, Noise, SPREAD};
use crate::measure::Margin;
use crate::measure::sampling_order::sampling_order;
use crate::model::Micros;

const NOISES: [Noise; 13] = [
    Noise::Normal,
    Noise::Drift,
    Noise::RoundClock,
    Noise::Clock(0.02),
    Noise::Clock(0.1),
    Noise::HeavyTails(2),
    Noise::HeavyTails(3),
    Noise::Outliers(0.05),
    Noise::Outliers(0.1),
    Noise::Wander,
    Noise::Autocorrelated(0.3),
    Noise::Autocorrelated(0.5),
    Noise::AutocorrelatedOutliers(0.5),
];

const ROUNDS: [usize; 6] = [10, 14, 20, 40, 80, 200];

/// The second entrant is slower by this, in per cent.
const TRUTH: f64 = 1.0;

fn rounds(noise: Noise, rounds: usize, seed: u64) -> [Vec<Micros>; 2] {
    let mut device = Device::new(&[100.0, 100.0 + TRUTH], noise, seed);
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        device.begin_round();
        for entrant in sampling_order(&[0, 1], round) {
            samples[entrant].push(device.sample(entrant));
        }
    }
    samples
}

/// Returns the fraction of `simulations` whose interval covers the truth, and its median width in
/// per cent.
fn coverage(noise: Noise, count: usize, simulations: u64) -> (f64, f64) {
    let mut covered = 0;
    let mut widths: Vec<f64> = Vec::new();
    for simulation in 0..simulations {
        let [faster, slower] = rounds(noise, count, simulation * 1000 + count as u64);
        let margin = Margin::between(&slower, &faster, 0.95);
        covered += u64::from(margin.low <= TRUTH && TRUTH <= margin.high);
        widths.push(margin.high - margin.low);
    }
    widths.sort_by(f64::total_cmp);
    (covered as f64 / simulations as f64, widths[widths.len() / 2])
}

#[test]
fn intervals_cover_the_truth_under_every_noise() {
    for noise in NOISES {
        for count in ROUNDS {
            let (covered, width) = coverage(noise, count, 1000);
            assert!(covered >= 0.93, "{noise:?}, {count} rounds: {covered} covered, {width} wide");
        }
    }
}

#[test]
fn intervals_are_as_narrow_as_evidence_allows() {
    // Width for the mean of independent normal differences of known spread.
    let ideal = |count: usize| 2.0 * 1.96 * 100.0 * SPREAD * (2.0 / count as f64).sqrt();
    for (count, times) in [(10, 2.6), (20, 1.8), (40, 1.5), (200, 1.25)] {
        for noise in [Noise::Normal, Noise::Drift, Noise::RoundClock, Noise::Wander] {
            let (_, width) = coverage(noise, count, 200);
            assert!(width < times * ideal(count), "{noise:?}, {count}: {}", width / ideal(count));
        }
    }
}
