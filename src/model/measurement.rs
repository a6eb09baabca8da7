//! Measurements of a candidate: all samples, and the conditions of their measurement.

use serde::{Deserialize, Serialize};

use super::problem::Problem;
use super::statistics::quantile;
use super::units::{Micros, Tflops};

/// Location of the operands when a timed launch begins. Part of a measurement's identity: times of
/// different policies are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CachePolicy {
    /// Rotated: more than twice the L2 cache was accessed since a launch's operands.
    #[default]
    Rotate,
    /// Hot: every launch reads the operands of the previous one, from the L2 cache if they fit.
    Hot,
}

impl CachePolicy {
    /// Both policies.
    pub const ALL: [Self; 2] = [Self::Rotate, Self::Hot];

    /// Name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rotate => "rotate",
            Self::Hot => "hot",
        }
    }
}

/// Thermal state of the device. Part of a measurement's identity, as the cache policy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PowerState {
    /// Samples with pauses between them, as in a program with occasional products.
    #[default]
    Burst,
    /// Samples during uninterrupted work, at its clocks, power and temperature.
    Sustained,
}

impl PowerState {
    /// Both states.
    pub const ALL: [Self; 2] = [Self::Burst, Self::Sustained];

    /// Name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::Sustained => "sustained",
        }
    }
}

/// Selected conditions of a measurement. Times of different regimes are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Regime {
    /// Location of the operands.
    pub cache: CachePolicy,
    /// Thermal state of the device.
    pub power: PowerState,
}

/// Origin of a time. Part of a measurement's identity, as the cache policy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// Measured by the device's clock.
    #[default]
    Measured,
    /// Modelled from the executed instructions, without a GPU: no evidence of speed.
    Modelled,
}

impl Timing {
    /// Name of the origin.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Modelled => "modelled",
        }
    }
}

/// The samples of one candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Time of one launch (mean over a sample's launches), one entry per sample, in order.
    pub samples: Vec<Micros>,
    /// Launches per sample.
    pub launches_per_sample: u32,
    /// Regime of the samples.
    pub regime: Regime,
    /// Origin of the samples.
    pub timing: Timing,
    /// SM clock during sampling; `None` without NVML.
    pub sm_clock_mhz: Option<u32>,
}

impl Measurement {
    /// Returns the `q`-quantile of the samples; infinite without samples, so that it never wins.
    pub fn quantile(&self, q: f64) -> Micros {
        let samples: Vec<f64> = self.samples.iter().map(|sample| sample.0).collect();
        Micros(quantile(&samples, q).unwrap_or(f64::INFINITY))
    }

    /// Returns the median.
    pub fn median(&self) -> Micros {
        self.quantile(0.5)
    }

    /// Returns the rate at the median.
    pub fn tflops(&self, problem: &Problem) -> Tflops {
        Tflops::of(problem.operations(), self.median())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_measurement_never_wins() {
        let measurement = Measurement {
            samples: vec![],
            launches_per_sample: 1,
            regime: Regime::default(),
            timing: Timing::Measured,
            sm_clock_mhz: None,
        };
        assert!(measurement.median().0.is_infinite());
    }
}
