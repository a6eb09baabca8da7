//! What timing a candidate gave: every sample, and the conditions that they were taken under.

use serde::{Deserialize, Serialize};

use super::problem::Problem;
use super::statistics::quantile;
use super::units::{Micros, Tflops};

/// Where operands are when a timed launch begins. Part of a measurement's identity: figures of
/// different policies are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CachePolicy {
    /// Every launch reads operands that more than twice the L2 cache has passed since.
    #[default]
    Rotate,
    /// Every launch reads the operands of the one before it, from the L2 cache as far as they fit.
    Hot,
}

impl CachePolicy {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Rotate, Self::Hot];

    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rotate => "rotate",
            Self::Hot => "hot",
        }
    }
}

/// How warm the device is. Part of a measurement's identity, as the policy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PowerState {
    /// Samples with pauses between them, as a program meets that multiplies now and then.
    #[default]
    Burst,
    /// Samples out of the middle of uninterrupted work, with the clocks, power and temperature that
    /// come of it.
    Sustained,
}

impl PowerState {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Burst, Self::Sustained];

    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::Sustained => "sustained",
        }
    }
}

/// The circumstances that times are taken in by choice. Figures of different regimes are never
/// compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Regime {
    /// Where operands are.
    pub cache: CachePolicy,
    /// How warm the device is.
    pub power: PowerState,
}

/// How a time came about. Part of a measurement's identity, as the policy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// By the clock of the device.
    #[default]
    Measured,
    /// Computed from what the kernel did where there is no GPU: no evidence of speed.
    Modelled,
}

impl Timing {
    /// The word for it.
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
    /// Time of one launch (mean over a sample's launches), one entry a sample, in order.
    pub samples: Vec<Micros>,
    /// Launches that one sample spans.
    pub launches_per_sample: u32,
    /// Where operands were, and how warm the device.
    pub regime: Regime,
    /// How the samples came about.
    pub timing: Timing,
    /// The SM clock read while sampling; `None` without NVML.
    pub sm_clock_mhz: Option<u32>,
}

impl Measurement {
    /// The `q`-quantile of the samples; infinite when there is none, so that it never wins.
    pub fn quantile(&self, q: f64) -> Micros {
        let samples: Vec<f64> = self.samples.iter().map(|sample| sample.0).collect();
        Micros(quantile(&samples, q).unwrap_or(f64::INFINITY))
    }

    /// The middle sample.
    pub fn median(&self) -> Micros {
        self.quantile(0.5)
    }

    /// The rate at the median.
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
