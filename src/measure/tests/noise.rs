//! A device with known times, and models of its noise.

use std::f64::consts::TAU;

use fastrand::Rng;

use crate::model::Micros;

/// The spread of a sample, as the standard deviation of its logarithm.
pub(super) const SPREAD: f64 = 0.003;

/// Noise models. All but the last three are independent, except for what the entrants of a round
/// share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Noise {
    /// Independent and normal.
    Normal,
    /// And each sample is slower than the one before it by the same: 5 % in 100 samples.
    Drift,
    /// And a clock has two states, 10 % apart; each round draws one.
    RoundClock,
    /// And the clock changes with this probability before each sample, also within rounds.
    Clock(f64),
    /// Student's t with this number of degrees of freedom.
    HeavyTails(u32),
    /// Normal, and this fraction of samples takes ten times as long.
    Outliers(f64),
    /// Normal with a shared drift of 2 %: autocorrelation 0.95 from round to round.
    Wander,
    /// Each entrant's own noise has this autocorrelation from round to round.
    Autocorrelated(f64),
    /// And a twentieth of the samples take ten times as long.
    AutocorrelatedOutliers(f64),
}

/// The device.
pub(super) struct Device {
    /// True time of each entrant.
    times: Vec<f64>,
    noise: Noise,
    pub(super) rng: Rng,
    samples: u32,
    slow: bool,
    shared: f64,
    own: Vec<f64>,
}

impl Device {
    pub(super) fn new(times: &[f64], noise: Noise, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let own = times.iter().map(|_| normal(&mut rng)).collect();
        let (slow, shared) = (rng.bool(), normal(&mut rng));
        Self { times: times.to_vec(), noise, rng, samples: 0, slow, shared, own }
    }

    /// Changes the shared state between rounds.
    pub(super) fn begin_round(&mut self) {
        match self.noise {
            Noise::RoundClock => self.slow = self.rng.bool(),
            Noise::Wander => self.shared = step(self.shared, 0.95, &mut self.rng),
            _ => {}
        }
    }

    pub(super) fn sample(&mut self, entrant: usize) -> Micros {
        self.samples += 1;
        let rng = &mut self.rng;
        let state = |slow: bool| if slow { 0.1 } else { 0.0 };
        let hiccup = |rng: &mut Rng, share: f64| {
            if rng.f64() < share { 10_f64.ln() } else { 0.0 }
        };
        let log = match self.noise {
            Noise::Normal => SPREAD * normal(rng),
            Noise::Drift => SPREAD * normal(rng) + 0.0005 * f64::from(self.samples),
            Noise::RoundClock => SPREAD * normal(rng) + state(self.slow),
            Noise::Clock(flips) => {
                self.slow ^= rng.f64() < flips;
                SPREAD * normal(rng) + state(self.slow)
            }
            Noise::HeavyTails(freedom) => SPREAD * student(rng, freedom),
            Noise::Outliers(share) => SPREAD * normal(rng) + hiccup(rng, share),
            Noise::Wander => SPREAD * normal(rng) + 0.02 * self.shared,
            Noise::Autocorrelated(correlation) => {
                self.own[entrant] = step(self.own[entrant], correlation, rng);
                SPREAD * self.own[entrant]
            }
            Noise::AutocorrelatedOutliers(correlation) => {
                self.own[entrant] = step(self.own[entrant], correlation, rng);
                SPREAD * self.own[entrant] + hiccup(rng, 0.05)
            }
        };
        Micros(self.times[entrant] * log.exp())
    }
}

/// A normal deviate (Box and Muller 1958).
pub(super) fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos()
}

fn student(rng: &mut Rng, freedom: u32) -> f64 {
    let squares: f64 = (0..freedom).map(|_| normal(rng).powi(2)).sum();
    normal(rng) / (squares / f64::from(freedom)).sqrt()
}

/// The next of a series with unit variance and this autocorrelation.
fn step(last: f64, correlation: f64, rng: &mut Rng) -> f64 {
    correlation * last + (1.0 - correlation * correlation).sqrt() * normal(rng)
}
