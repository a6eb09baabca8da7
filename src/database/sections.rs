//! The sections of a record, exactly as a database file has them. Manifests of bundles have some of them too: these are
//! in the crate that reads bundles.

pub use gemm_tune_runtime::stored::{
    LibraryAlgorithm, LibraryTime, StoredBaseline, StoredPattern, StoredProblem, StoredValidation,
    UnknownPattern,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::figures::{four_figures, rfc3339, round_us, wide};
use crate::measure::{Entrant, Final, FinalResult, FinalRules, TieRule};
use crate::model::{
    CopyRounding, Device, Dtype, Measurement, Micros, PowerState, Problem, Swizzle, Timing,
};

/// A GPU, with the properties that decide whether a record applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredDevice {
    /// Name that the driver reports: `NVIDIA H200`.
    pub name: String,
    /// Its compute capability: `9.0`.
    pub compute_capability: String,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// The driver's version; absent without NVML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The CUDA version that the driver supports: `13.0`.
    pub driver_cuda: String,
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// Bytes of the L2 cache.
    pub l2_bytes: u64,
    /// The highest clock of the SMs.
    pub max_sm_clock_mhz: u32,
}

/// One launch of one entry point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLaunch {
    /// The `extern "C"` name of the kernel.
    pub entry: String,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: u32,
    /// Whether it is a programmatic dependent launch; absent where it is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub programmatic: bool,
    /// Arguments of the kernel, in order: names of [`crate::model::Argument`].
    pub arguments: Vec<String>,
}

/// A scratch buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredWorkspace {
    /// The name that arguments refer to.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Bytes that its address is a multiple of; absent for 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<u32>,
}

/// A TMA descriptor of an operand or a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTensorMap {
    /// The name that arguments refer to.
    pub name: String,
    /// The operand or workspace that it describes.
    pub operand: String,
    /// The dtype of the elements; absent where it is the operand's, or that of A for a workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
    /// Bytes from the start of the operand to the first element; absent for 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// Elements along each dimension, innermost first; elements outside read as zero.
    pub extents: Vec<u64>,
    /// Elements between neighbours along each dimension, from the second on.
    pub strides: Vec<u64>,
    /// Elements of the box that one load moves, innermost dimension first.
    pub tile: Vec<u32>,
    /// The shared-memory swizzle: `none`, `32B`, `64B`, `128B`.
    pub swizzle: Swizzle,
    /// What copies to shared memory round elements of f32 to: `tf32`; absent where they keep their bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_to: Option<CopyRounding>,
}

/// Measured time and its conditions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredMeasurement {
    /// Median sample, by which records are compared.
    pub median_us: f64,
    /// The 5 % quantile of the samples.
    pub p05_us: f64,
    /// The 95 % quantile of the samples.
    pub p95_us: f64,
    /// The rate at the median, in 10^12 operations per second.
    pub tflops: f64,
    /// That rate as a share of the arithmetic peak at the highest clock; absent where the peak is
    /// unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent_of_peak: Option<f64>,
    /// `modelled` where the time was computed, not measured; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<String>,
    /// Cache state of the operands when a timed launch begins: `rotate` or `hot`.
    pub cache_policy: String,
    /// Power state of the device: `burst`, which is not written, or `sustained`.
    #[serde(default = "burst", skip_serializing_if = "is_burst")]
    pub power: String,
    /// The SM clock read while sampling; absent without NVML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<u32>,
    /// Launches per sample.
    pub launches_per_sample: u32,
    /// Number of samples.
    pub samples: usize,
    /// Samples in the order taken: time of one launch. They may be removed to shorten a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_us: Vec<f64>,
}

/// Margin of the winner in the final round, with its confidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredConfidence {
    /// Fastest other candidate, with family and configuration; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<String>,
    /// Its extra time in per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin_percent: Option<f64>,
    /// Interval of that margin at 96 % confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_percent: Option<[f64; 2]>,
    /// Rounds in which the winner was sampled.
    pub rounds: usize,
    /// Rounds that were taken and discarded.
    pub tainted_rounds: usize,
    /// Why sampling ended: `separated`, `tied`, `out of rounds`, `broken off`.
    pub ended: String,
    /// Candidates that tie with the winner, which uses the fewest resources of them; absent for
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tie_set: Vec<String>,
    /// All finalists with their rounds, in the order that breaks ties; absent in records of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalists: Vec<StoredFinalist>,
}

/// Rounds of a finalist.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredFinalist {
    /// Family and configuration.
    pub kernel: String,
    /// Natural logarithm of its sample over the winner's in millionths, for each round that it was
    /// sampled in. All are 0 for the winner.
    pub log_ratios_ppm: Vec<i32>,
}

impl StoredConfidence {
    /// Whether the runner-up is significantly faster than the winner.
    pub fn is_beaten(&self) -> bool {
        self.interval_percent.is_some_and(|[_, high]| high < 0.0)
    }

    /// The kernel that wins by a rule, decided again from the stored rounds; `None` without them.
    pub fn winner_by(&self, ties: TieRule) -> Option<&str> {
        let result = self.decided_by(ties)?;
        let winner = self.finalists.get(result.order.first()?.entrant)?;
        Some(&winner.kernel)
    }

    /// The final decided again from the stored rounds; `None` without them. Entrants are indices into
    /// [`Self::finalists`].
    pub fn decided_by(&self, ties: TieRule) -> Option<FinalResult> {
        let samples = self.finalists.iter().map(|finalist| {
            let sample = |ppm: &i32| Micros((f64::from(*ppm) / 1e6).exp());
            finalist.log_ratios_ppm.iter().map(sample).collect()
        });
        let entrants = (0..self.finalists.len()).map(Entrant::Candidate).collect();
        let rules = FinalRules { ties, ..FinalRules::default() };
        Final::ended(entrants, samples.collect(), rules).result()
    }
}

/// Lowest and highest reading of each sensor over the final round; absent where a sensor cannot be
/// read.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StoredConditions {
    /// The clock of the SMs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<[u32; 2]>,
    /// The power drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<[f64; 2]>,
    /// The temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<[u32; 2]>,
    /// Throttle reasons that NVML reported; absent for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttle_reasons: Vec<String>,
    /// Largest number of other processes that computed on the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_processes: Option<u32>,
}

/// Resources of the kernel; of several launches, the largest figure of each and the lowest
/// occupancy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredResources {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes per thread spilled to local memory.
    pub spill_bytes: u32,
    /// Bytes of shared memory per block, static and dynamic.
    pub shared_bytes: u32,
    /// Resident warps as a share of the SM's maximum, 0 to 1; absent without a driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<f64>,
}

/// Origin of a record: everything needed to reproduce it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The version of this program.
    pub gemm_tune: String,
    /// The hash of the family's template with its parts.
    pub template_hash: String,
    /// The version of NVRTC that compiled the kernel: `13.0`.
    pub nvrtc: String,
    /// Time of the decision, to the second.
    #[serde(with = "rfc3339")]
    pub time: Timestamp,
    /// Seed of the search and of the operands. A whole number in the file, or its digits as text
    /// above 2^63 - 1, the largest TOML integer.
    #[serde(with = "wide")]
    pub seed: u64,
    /// True for an interrupted search: the winner is the best found until then. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interim: bool,
    /// The command line; absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn burst() -> String {
    PowerState::Burst.name().to_owned()
}

fn is_burst(power: &str) -> bool {
    power == PowerState::Burst.name()
}

impl StoredMeasurement {
    pub(super) fn new(measurement: &Measurement, problem: &Problem, device: &Device) -> Self {
        let tflops = measurement.tflops(problem);
        let percent = device.peak(problem).map(|peak| 100.0 * tflops.0 / peak.0);
        Self {
            median_us: round_us(measurement.median()),
            p05_us: round_us(measurement.quantile(0.05)),
            p95_us: round_us(measurement.quantile(0.95)),
            tflops: four_figures(tflops.0),
            percent_of_peak: percent.map(four_figures),
            timing: match measurement.timing {
                Timing::Measured => None,
                modelled @ Timing::Modelled => Some(modelled.name().to_owned()),
            },
            cache_policy: measurement.regime.cache.name().to_owned(),
            power: measurement.regime.power.name().to_owned(),
            sm_clock_mhz: measurement.sm_clock_mhz,
            launches_per_sample: measurement.launches_per_sample,
            samples: measurement.samples.len(),
            samples_us: measurement.samples.iter().copied().map(round_us).collect(),
        }
    }
}
