//! A record and its sections, exactly as a database file has them.
//!
//! These types belong to the file: a change here changes what others read. The rest of the program
//! speaks in [`crate::model`]; [`Record::new`] and the conversions in `convert` are the border. Words such
//! as a dtype or a cache policy stay text on this side, so that a record with a word of a later
//! version is still a record: it is listed and kept, and no question of this version matches it.

use indexmap::IndexMap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::figures::{four_figures, rfc3339, round_us, wide};
use crate::model::{
    CachePolicy, Configuration, Device, KernelLaunch, LaunchPlan, Measurement, Micros, PowerState,
    Problem, Regime, Resources, Swizzle, TensorMap, Timing, Validation, Value, Workspace,
};
use crate::predict::Landmark;

/// The fastest correct kernel found for a problem on a device, with the evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What is computed.
    pub problem: StoredProblem,
    /// The family that the kernel is of.
    pub family: String,
    /// The value of each parameter, in the order that the family declares them.
    pub parameters: IndexMap<String, Value>,
    /// False where two runs on the same values may differ in their last bits; absent otherwise.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub deterministic: bool,
    /// The fastest library beside the winner; absent where none was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<StoredBaseline>,
    /// How sure it is that the winner is the fastest; absent where no final was held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<StoredConfidence>,
    /// What the sensors showed while it was decided; absent without a final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<StoredConditions>,
    /// What the families' defaults, and winners of problems near this one, took in the same search, in
    /// microseconds, by [`Configuration::short_name`]: `lookup` judges by them how far its model is off
    /// near this problem. Absent where none was measured.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub landmarks_us: IndexMap<String, f64>,
    /// How the result was checked.
    pub validation: StoredValidation,
    /// What the kernel takes of an SM.
    pub resources: StoredResources,
    /// Scratch buffers that the launches share; absent where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspaces: Vec<StoredWorkspace>,
    /// TMA descriptors that the launches take; absent where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensor_maps: Vec<StoredTensorMap>,
    /// How fast it is, and under which conditions.
    pub measurement: StoredMeasurement,
    /// Each kernel to launch, first to last on one stream.
    pub launch: Vec<StoredLaunch>,
    /// The GPU that it was measured on.
    pub device: StoredDevice,
    /// Where the record comes from.
    pub provenance: Provenance,
}

/// What is computed: C = alpha op(A) op(B) + beta C, row-major.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StoredProblem {
    /// Rows of C.
    pub m: u64,
    /// Columns of C.
    pub n: u64,
    /// The summed dimension.
    pub k: u64,
    /// Independent products, operands packed one after the other.
    pub batch: u64,
    /// How elements are stored: `f32`.
    pub dtype: String,
    /// The arithmetic contract: `f32`, `tf32`.
    pub compute: String,
    /// Which operands are stored transposed: `nn`, `nt`, `tn`, `tt`.
    pub layout: String,
}

/// A GPU, as far as a reader needs it to judge whether a record applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredDevice {
    /// The driver's name for it: `NVIDIA H200`.
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
    /// What the kernel is called with, in order: names of [`crate::model::Argument`].
    pub arguments: Vec<String>,
}

/// A scratch buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredWorkspace {
    /// The name that arguments refer to.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// What the copy engine is told of an operand; its elements are the problem's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTensorMap {
    /// The name that arguments refer to.
    pub name: String,
    /// The operand or workspace that it describes.
    pub operand: String,
    /// Bytes from the beginning of the operand to the first element; absent for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// Elements along each dimension, the innermost first; what lies outside reads as zero.
    pub extents: Vec<u64>,
    /// Elements between neighbours along each dimension from the second on.
    pub strides: Vec<u64>,
    /// Elements of the box that one load moves, innermost dimension first.
    pub tile: Vec<u32>,
    /// The shared-memory swizzle: `none`, `32B`, `64B`, `128B`.
    pub swizzle: Swizzle,
}

/// How fast, and under which conditions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredMeasurement {
    /// The middle sample: what records compete by.
    pub median_us: f64,
    /// The sample that 5 % are faster than.
    pub p05_us: f64,
    /// The sample that 95 % are faster than.
    pub p95_us: f64,
    /// The rate at the median, in 10^12 operations a second.
    pub tflops: f64,
    /// That rate as a share of what the pipes can do at the highest clock; absent where that is
    /// not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent_of_peak: Option<f64>,
    /// `modelled` where the time was computed, not measured; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<String>,
    /// Where operands are when a timed launch begins: `rotate` or `hot`.
    pub cache_policy: String,
    /// How warm the device is: `burst`, which is not written, or `sustained`.
    #[serde(default = "burst", skip_serializing_if = "is_burst")]
    pub power: String,
    /// The SM clock read while sampling; absent without NVML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<u32>,
    /// Launches that one sample spans.
    pub launches_per_sample: u32,
    /// How many samples there are.
    pub samples: usize,
    /// Each sample in the order taken: time of one launch. May be cut from a file to shorten it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_us: Vec<f64>,
}

/// The fastest library, measured beside the winner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredBaseline {
    /// Which library, and how it was asked: `cuBLASLt (best of 16)`.
    pub name: String,
    /// Its middle sample.
    pub median_us: f64,
    /// Its time over the winner's: above 1 where the winner is faster.
    pub speedup: f64,
    /// Every library measured, where there is more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all: Vec<LibraryTime>,
}

/// By how much the winner of the final won, and how sure that is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredConfidence {
    /// The fastest other candidate, its family and configuration; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<String>,
    /// By how many per cent it takes longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin_percent: Option<f64>,
    /// The interval of that at a confidence of 96 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_percent: Option<[f64; 2]>,
    /// Rounds that the winner was sampled in.
    pub rounds: usize,
    /// Rounds that were taken and thrown away.
    pub tainted_rounds: usize,
    /// Why no more were taken: `separated`, `tied`, `out of rounds`, `broken off`.
    pub ended: String,
    /// Candidates that tie with the winner, which takes the fewest resources of them; absent where
    /// there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tie_set: Vec<String>,
}

/// The lowest and the highest that each sensor showed over the rounds of the final; absent where
/// one cannot be read.
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
    /// All that held clocks down at some time, in NVML's words; absent where nothing did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttle_reasons: Vec<String>,
    /// The most other processes that computed on the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_processes: Option<u32>,
}

/// What a library takes for the problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LibraryTime {
    /// Which library, and how it was asked.
    pub name: String,
    /// Its middle sample.
    pub median_us: f64,
}

/// How the result was checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredValidation {
    /// What the result was compared with.
    pub reference: String,
    /// The largest error of any element, in the unit of the bound.
    pub max_error: f64,
    /// What `max_error` had to stay within.
    pub bound: f64,
    /// What else it passed: other values, the same bits in two runs (or both within the bound), and
    /// shapes beside its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_right_on: Vec<String>,
}

/// What the kernel takes of an SM; of several launches, the largest figure of each, and the least
/// occupancy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredResources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes that a thread spills to local memory.
    pub spill_bytes: u32,
    /// Bytes of shared memory of a block, static and dynamic.
    pub shared_bytes: u32,
    /// Resident warps over the most that an SM holds, 0 to 1; absent where no driver was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<f64>,
}

/// Where a record comes from: what is needed to make it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The version of this program.
    pub gemm_tune: String,
    /// The hash of the family's template with its parts.
    pub template_hash: String,
    /// The version of NVRTC that compiled the kernel: `13.0`.
    pub nvrtc: String,
    /// When the winner was decided, to the second.
    #[serde(with = "rfc3339")]
    pub time: Timestamp,
    /// The seed of the search and of the operands. A whole number in the file, or its digits as
    /// text where it is above 2^63 - 1, where TOML's numbers end.
    #[serde(with = "wide")]
    pub seed: u64,
    /// True where the search was interrupted: the winner is the best until then. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interim: bool,
    /// The command line, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// All that is known of a winner, in the words of the rest of the program.
#[derive(Debug, Clone)]
pub struct Winner<'a> {
    /// What it computes.
    pub problem: &'a Problem,
    /// Where it was measured.
    pub device: &'a Device,
    /// The family it is of.
    pub family: &'a str,
    /// Its parameters.
    pub configuration: &'a Configuration,
    /// How to launch it.
    pub launch: &'a LaunchPlan,
    /// How fast it is.
    pub measurement: &'a Measurement,
    /// How sure it is; none where no final was held.
    pub confidence: Option<StoredConfidence>,
    /// What the sensors showed; none where no final was held.
    pub conditions: Option<StoredConditions>,
    /// The libraries measured beside it; may be empty.
    pub libraries: &'a [LibraryTime],
    /// What the families' defaults took, and what won for other problems; may be empty.
    pub landmarks: &'a [Landmark],
    /// How it was checked.
    pub validation: &'a Validation,
    /// What else it passed.
    pub also_right_on: &'a [String],
    /// What it takes.
    pub resources: &'a Resources,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// The place that records compete for; a file has one winner for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place<'a> {
    pub(super) problem: &'a StoredProblem,
    pub(super) device: &'a str,
    pub(super) compute_capability: &'a str,
    pub(super) cache_policy: &'a str,
    pub(super) power: &'a str,
}

impl Record {
    /// The record of a winner, with figures rounded to what they mean: times to a nanosecond,
    /// rates to four significant figures, errors to three.
    pub fn new(winner: Winner<'_>) -> Self {
        let Winner { problem, device, measurement, launch, provenance, .. } = winner;
        Self {
            problem: problem.into(),
            family: winner.family.to_owned(),
            parameters: winner.configuration.0.clone(),
            deterministic: !launch.nondeterministic,
            baseline: StoredBaseline::of(winner.libraries, measurement.median()),
            confidence: winner.confidence,
            conditions: winner.conditions,
            landmarks_us: (winner.landmarks.iter())
                .map(|landmark| (landmark.name.clone(), round_us(landmark.time)))
                .collect(),
            validation: StoredValidation {
                also_right_on: winner.also_right_on.to_vec(),
                ..winner.validation.into()
            },
            resources: winner.resources.into(),
            workspaces: launch.workspaces.iter().map(StoredWorkspace::from).collect(),
            tensor_maps: launch.tensor_maps.iter().map(StoredTensorMap::from).collect(),
            measurement: StoredMeasurement::new(measurement, problem, device),
            launch: launch.kernels.iter().map(StoredLaunch::from).collect(),
            device: device.into(),
            provenance: Provenance { time: rfc3339::whole_seconds(provenance.time), ..provenance },
        }
    }

    /// What its time was taken in; none for words of a later version.
    pub fn regime(&self) -> Option<Regime> {
        let cache = |policy: &CachePolicy| policy.name() == self.measurement.cache_policy;
        let power = |state: &PowerState| state.name() == self.measurement.power;
        Some(Regime {
            cache: CachePolicy::ALL.into_iter().find(cache)?,
            power: PowerState::ALL.into_iter().find(power)?,
        })
    }

    /// The time that this record competes with.
    pub fn median(&self) -> Micros {
        Micros(self.measurement.median_us)
    }

    /// The winner's parameters.
    pub fn configuration(&self) -> Configuration {
        Configuration(self.parameters.clone())
    }

    /// How to launch the winner.
    pub fn launch_plan(&self) -> LaunchPlan {
        LaunchPlan {
            kernels: self.launch.iter().map(KernelLaunch::from).collect(),
            workspaces: self.workspaces.iter().map(Workspace::from).collect(),
            tensor_maps: self.tensor_maps.iter().map(TensorMap::from).collect(),
            nondeterministic: !self.deterministic,
        }
    }

    pub(super) fn place(&self) -> Place<'_> {
        Place {
            problem: &self.problem,
            device: &self.device.name,
            compute_capability: &self.device.compute_capability,
            cache_policy: &self.measurement.cache_policy,
            power: &self.measurement.power,
        }
    }

    /// Whether this is a winner for the question asked. The driver may differ: a record outlives
    /// its updates.
    pub fn answers(&self, problem: &Problem, device: &Device, regime: Regime) -> bool {
        let asked = Place {
            problem: &StoredProblem::from(problem),
            device: &device.name,
            compute_capability: &device.compute_capability.to_string(),
            cache_policy: regime.cache.name(),
            power: regime.power.name(),
        };
        self.place() == asked
    }
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
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
    fn new(measurement: &Measurement, problem: &Problem, device: &Device) -> Self {
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

impl StoredBaseline {
    /// The fastest of `libraries`: the one that the winner has to beat.
    fn of(libraries: &[LibraryTime], winner: Micros) -> Option<Self> {
        let fastest = libraries.iter().min_by(|a, b| a.median_us.total_cmp(&b.median_us))?;
        Some(Self {
            name: fastest.name.clone(),
            median_us: fastest.median_us,
            speedup: four_figures(fastest.median_us / winner.0),
            all: if libraries.len() > 1 { libraries.to_vec() } else { Vec::new() },
        })
    }
}

impl LibraryTime {
    /// What `name` takes.
    pub fn new(name: impl Into<String>, median: Micros) -> Self {
        Self { name: name.into(), median_us: round_us(median) }
    }
}
