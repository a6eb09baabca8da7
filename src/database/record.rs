//! A record, exactly as a database file has it.
//!
//! The types of this file and of `sections` define the file format: a change here changes what
//! others read. The rest of the program uses [`crate::model`]; [`Record::new`] and `convert`
//! translate. Words such as a dtype or a cache policy stay text here. A record with a word of a
//! later version is therefore listed and kept, and matches no question of this version.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::convert::{baseline_of, rounded};
use super::figures::{rfc3339, round_us};
use super::sections::{
    LibraryTime, Provenance, StoredBaseline, StoredConditions, StoredConfidence, StoredDevice,
    StoredLaunch, StoredMeasurement, StoredProblem, StoredResources, StoredTensorMap,
    StoredValidation, StoredWorkspace,
};
use crate::model::{
    CachePolicy, Configuration, Device, KernelLaunch, LaunchPlan, Measurement, Micros, PowerState,
    Problem, Regime, Resources, TensorMap, Validation, Value, Workspace,
};
use crate::predict::Landmark;

/// The fastest correct kernel found for a problem on a device, with the evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The problem.
    pub problem: StoredProblem,
    /// The kernel's family.
    pub family: String,
    /// The value of each parameter, in the order that the family declares them.
    pub parameters: IndexMap<String, Value>,
    /// False for a kernel with non-deterministic results; absent otherwise.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub deterministic: bool,
    /// The fastest library measured with the winner; absent where none was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<StoredBaseline>,
    /// Evidence that the winner is the fastest; absent without a final round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<StoredConfidence>,
    /// Sensor readings during the final round; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<StoredConditions>,
    /// Times of the families' defaults and of neighbouring winners in the same search, in
    /// microseconds, by [`Configuration::short_name`]. `lookup` corrects its model near this
    /// problem by them. Absent where none was measured.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub landmarks_us: IndexMap<String, f64>,
    /// How the result was checked.
    pub validation: StoredValidation,
    /// Resources of the kernel.
    pub resources: StoredResources,
    /// Scratch buffers that the launches share; absent for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspaces: Vec<StoredWorkspace>,
    /// TMA descriptors that the launches take; absent for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensor_maps: Vec<StoredTensorMap>,
    /// Measured time and its conditions.
    pub measurement: StoredMeasurement,
    /// Each kernel to launch, first to last on one stream.
    pub launch: Vec<StoredLaunch>,
    /// The GPU that it was measured on.
    pub device: StoredDevice,
    /// Origin of the record.
    pub provenance: Provenance,
}

/// A winner as types of [`crate::model`], ready to be recorded.
#[derive(Debug, Clone)]
pub struct Winner<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// The device that it was measured on.
    pub device: &'a Device,
    /// Its family.
    pub family: &'a str,
    /// Its parameters.
    pub configuration: &'a Configuration,
    /// Its launches.
    pub launch: &'a LaunchPlan,
    /// Its measurement.
    pub measurement: &'a Measurement,
    /// Its confidence; none without a final round.
    pub confidence: Option<StoredConfidence>,
    /// Sensor readings; none without a final round.
    pub conditions: Option<StoredConditions>,
    /// The libraries measured with it, fastest first; may be empty.
    pub libraries: &'a [LibraryTime],
    /// The time of the first library divided by the winner's; none where no rounds had both, which takes the ratio of the
    /// medians.
    pub speedup: Option<f64>,
    /// Times of the families' defaults and of winners of other problems; may be empty.
    pub landmarks: &'a [Landmark],
    /// Its validation.
    pub validation: &'a Validation,
    /// Further checks that it passed.
    pub also_right_on: &'a [String],
    /// Its resources.
    pub resources: &'a Resources,
    /// Its origin.
    pub provenance: Provenance,
}

/// Key of a record: a file has one winner for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RecordKey<'a> {
    pub(super) problem: &'a StoredProblem,
    pub(super) device: &'a str,
    pub(super) compute_capability: &'a str,
    pub(super) cache_policy: &'a str,
    pub(super) power: &'a str,
}

impl Record {
    /// Makes the record of a winner and rounds its figures: times to a nanosecond, rates to four
    /// significant figures, errors to three.
    pub fn new(winner: Winner<'_>) -> Self {
        let Winner { problem, device, measurement, launch, provenance, .. } = winner;
        Self {
            problem: problem.into(),
            family: winner.family.to_owned(),
            parameters: winner.configuration.0.clone(),
            deterministic: !launch.nondeterministic,
            baseline: baseline_of(winner.libraries, winner.speedup, measurement.median()),
            confidence: winner.confidence,
            conditions: winner.conditions,
            landmarks_us: (winner.landmarks.iter())
                .map(|landmark| (landmark.name.clone(), round_us(landmark.time)))
                .collect(),
            validation: StoredValidation {
                also_right_on: winner.also_right_on.to_vec(),
                ..rounded(winner.validation)
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

    /// The regime of its measurement; none for words of a later version.
    pub fn regime(&self) -> Option<Regime> {
        let cache = |policy: &CachePolicy| policy.name() == self.measurement.cache_policy;
        let power = |state: &PowerState| state.name() == self.measurement.power;
        Some(Regime {
            cache: CachePolicy::ALL.into_iter().find(cache)?,
            power: PowerState::ALL.into_iter().find(power)?,
        })
    }

    /// The median time, by which records are compared.
    pub fn median(&self) -> Micros {
        Micros(self.measurement.median_us)
    }

    /// The winner's parameters.
    pub fn configuration(&self) -> Configuration {
        Configuration(self.parameters.clone())
    }

    /// The winner's launch plan.
    pub fn launch_plan(&self) -> LaunchPlan {
        LaunchPlan {
            kernels: self.launch.iter().map(KernelLaunch::from).collect(),
            workspaces: self.workspaces.iter().map(Workspace::from).collect(),
            tensor_maps: self.tensor_maps.iter().map(TensorMap::from).collect(),
            nondeterministic: !self.deterministic,
        }
    }

    pub(super) fn record_key(&self) -> RecordKey<'_> {
        RecordKey {
            problem: &self.problem,
            device: &self.device.name,
            compute_capability: &self.device.compute_capability,
            cache_policy: &self.measurement.cache_policy,
            power: &self.measurement.power,
        }
    }

    /// Whether this record answers a question. The driver version may differ.
    pub fn answers(&self, problem: &Problem, device: &Device, regime: Regime) -> bool {
        let question = RecordKey {
            problem: &StoredProblem::from(problem),
            device: &device.name,
            compute_capability: &device.compute_capability.to_string(),
            cache_policy: regime.cache.name(),
            power: regime.power.name(),
        };
        self.record_key() == question
    }
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}
