//! A record and its sections, exactly as a database file has them.
//!
//! These types belong to the file: a change here changes what others read. The rest of the program
//! speaks in [`crate::model`]; [`Record::new`] and the conversions in `convert` are the border. Words such
//! as a dtype or a cache policy stay text on this side, so that a record with a word of a later
//! version is still a record: it is listed and kept, and no question of this version matches it.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::figures::{rfc3339, round_us};
use super::sections::{
    LibraryTime, Provenance, StoredBaseline, StoredConditions, StoredConfidence, StoredDevice,
    StoredLaunch, StoredMeasurement, StoredProblem, StoredResources, StoredTensorMap,
    StoredValidation, StoredWorkspace,
};
use crate::model::{
    CachePolicy, Configuration, Device, KernelLaunch, Landmark, LaunchPlan, Measurement, Micros,
    PowerState, Problem, Regime, Resources, TensorMap, Validation, Value, Workspace,
};

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
pub(super) struct RecordKey<'a> {
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

    pub(super) fn record_key(&self) -> RecordKey<'_> {
        RecordKey {
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
        let asked = RecordKey {
            problem: &StoredProblem::from(problem),
            device: &device.name,
            compute_capability: &device.compute_capability.to_string(),
            cache_policy: regime.cache.name(),
            power: regime.power.name(),
        };
        self.record_key() == asked
    }
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}
