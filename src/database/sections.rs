//! The sections of a record, exactly as a database file has them.

use indexmap::IndexMap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::figures::{four_figures, rfc3339, round_us, wide};
use crate::gpu::LibraryAlgorithm;
use crate::measure::{Entrant, Final, FinalResult, FinalRules, TieRule};
use crate::model::{Device, Dtype, Measurement, Micros, PowerState, Problem, Swizzle, Timing};

/// The problem: C = alpha op(A) op(B) + beta C, row-major.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "ProblemFields", into = "ProblemFields")]
pub struct StoredProblem {
    /// Rows of C.
    pub m: u64,
    /// Columns of C.
    pub n: u64,
    /// The summed dimension.
    pub k: u64,
    /// Number of independent products; operands are packed one after the other.
    pub batch: u64,
    /// The words of its pattern.
    pub pattern: StoredPattern,
}

/// A problem as files have it: without a table of its own for the pattern, and with errors that name a field, which
/// `#[serde(flatten)]` loses.
#[derive(Serialize, Deserialize)]
struct ProblemFields {
    m: u64,
    n: u64,
    k: u64,
    batch: u64,
    dtype: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    b_dtype: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    out: Option<String>,
    compute: String,
    layout: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epilogue: Option<String>,
}

impl From<ProblemFields> for StoredProblem {
    fn from(fields: ProblemFields) -> Self {
        let ProblemFields { m, n, k, batch, dtype, b_dtype, out, compute, layout, epilogue } =
            fields;
        let pattern = StoredPattern { dtype, b_dtype, out, compute, layout, epilogue };
        Self { m, n, k, batch, pattern }
    }
}

impl From<StoredProblem> for ProblemFields {
    fn from(problem: StoredProblem) -> Self {
        let StoredProblem { m, n, k, batch, pattern } = problem;
        let StoredPattern { dtype, b_dtype, out, compute, layout, epilogue } = pattern;
        Self { m, n, k, batch, dtype, b_dtype, out, compute, layout, epilogue }
    }
}

/// A problem without its extents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredPattern {
    /// Dtype of A, and of the others where they are absent: `f32`.
    pub dtype: String,
    /// Dtype of B; absent where it is that of A.
    pub b_dtype: Option<String>,
    /// Dtype of C and D; absent where it follows from that of A: `i32` for `i8`, else the same.
    pub out: Option<String>,
    /// The arithmetic contract: `f32`, `tf32`.
    pub compute: String,
    /// Which operands are stored transposed: `nn`, `nt`, `tn`, `tt`.
    pub layout: String,
    /// What follows the product: `bias,gelu`; absent where nothing does.
    pub epilogue: Option<String>,
}

impl StoredPattern {
    /// Whether the GEMM types are the same.
    pub(super) fn has_types_of(&self, other: &Self) -> bool {
        let types = |one: &Self| {
            let Self { dtype, b_dtype, out, compute, .. } = one.clone();
            (dtype, b_dtype, out, compute)
        };
        types(self) == types(other)
    }
}

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

/// The fastest library, measured with the winner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredBaseline {
    /// Name of the library and how it was called: `cuBLASLt (best of 16)`.
    pub name: String,
    /// Its median sample.
    pub median_us: f64,
    /// Its time divided by the winner's: above 1 where the winner is faster.
    pub speedup: f64,
    /// What makes its algorithm again, in the library's own numbers; absent for cuBLAS and in earlier records.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub algorithm: LibraryAlgorithm,
    /// All libraries measured, where there is more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all: Vec<LibraryTime>,
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

/// Time of a library for the problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LibraryTime {
    /// Name of the library and how it was called.
    pub name: String,
    /// Its median sample.
    pub median_us: f64,
    /// What makes its algorithm again, as in [`StoredBaseline`].
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub algorithm: LibraryAlgorithm,
}

/// How the result was checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredValidation {
    /// Reference of the comparison.
    pub reference: String,
    /// Largest error of any element, in the unit of the bound.
    pub max_error: f64,
    /// Upper limit for `max_error`.
    pub bound: f64,
    /// Further checks that it passed: other values, equal bits in two runs (or both within the
    /// bound), neighbouring shapes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_right_on: Vec<String>,
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

impl StoredBaseline {
    /// The fastest of `libraries`, as the baseline of the winner.
    pub(super) fn of(libraries: &[LibraryTime], winner: Micros) -> Option<Self> {
        let fastest = libraries.iter().min_by(|a, b| a.median_us.total_cmp(&b.median_us))?;
        Some(Self {
            name: fastest.name.clone(),
            median_us: fastest.median_us,
            speedup: four_figures(fastest.median_us / winner.0),
            algorithm: fastest.algorithm.clone(),
            all: if libraries.len() > 1 { libraries.to_vec() } else { Vec::new() },
        })
    }
}

impl StoredBaseline {
    /// The time of the library where it chooses the algorithm itself: that of cuBLAS where it was measured.
    pub fn own_choice(&self) -> Micros {
        let own = self.all.iter().find(|library| library.name == "cuBLAS");
        Micros(own.map_or(self.median_us, |library| library.median_us))
    }
}

impl LibraryTime {
    /// The time of the library `name`.
    pub fn new(name: impl Into<String>, median: Micros) -> Self {
        let algorithm = LibraryAlgorithm::new();
        Self { name: name.into(), median_us: round_us(median), algorithm }
    }
}
