//! Conversions between sections of a record and the types of [`crate::model`].
//!
//! A measurement converts in one direction only: a record stores less of it than the model has.

use thiserror::Error;

use super::figures::{cuda_version, four_figures, three_figures};
use super::sections::{
    LibraryTime, StoredBaseline, StoredDevice, StoredLaunch, StoredResources, StoredTensorMap,
    StoredValidation, StoredWorkspace,
};
use crate::model::launch::WORKSPACE_ALIGNMENT;
use crate::model::{
    Argument, ComputeCapability, Device, KernelLaunch, Micros, Resources, TensorMap, Validation,
    Workspace,
};

/// A compute capability that is not two numbers.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a compute capability such as `9.0`")]
pub struct UnknownCapability(String);

impl From<&Device> for StoredDevice {
    fn from(device: &Device) -> Self {
        Self {
            name: device.name.clone(),
            compute_capability: device.compute_capability.to_string(),
            sms: device.sms,
            driver: Some(device.driver.clone()).filter(|driver| !driver.is_empty()),
            driver_cuda: cuda_version(device.driver_cuda),
            memory_bytes: device.memory_bytes,
            l2_bytes: device.l2_bytes,
            max_sm_clock_mhz: device.max_sm_clock_mhz,
        }
    }
}

impl TryFrom<&StoredDevice> for Device {
    type Error = UnknownCapability;

    /// Takes limits that a record does not store from the compute capability.
    fn try_from(stored: &StoredDevice) -> Result<Self, UnknownCapability> {
        let capability = ComputeCapability::parse(&stored.compute_capability)
            .ok_or_else(|| UnknownCapability(stored.compute_capability.clone()))?;
        Ok(Self {
            l2_bytes: stored.l2_bytes,
            memory_bytes: stored.memory_bytes,
            max_sm_clock_mhz: stored.max_sm_clock_mhz,
            driver: stored.driver.clone().unwrap_or_default(),
            ..Self::of_capability(&stored.name, capability, stored.sms)
        })
    }
}

impl From<&KernelLaunch> for StoredLaunch {
    fn from(launch: &KernelLaunch) -> Self {
        Self {
            entry: launch.entry.clone(),
            grid: launch.grid,
            block: launch.block,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            programmatic: launch.programmatic,
            arguments: launch.arguments.iter().map(|a| a.name().to_owned()).collect(),
        }
    }
}

impl From<&StoredLaunch> for KernelLaunch {
    fn from(stored: &StoredLaunch) -> Self {
        Self {
            entry: stored.entry.clone(),
            grid: stored.grid,
            block: stored.block,
            dynamic_shared_bytes: stored.dynamic_shared_bytes,
            programmatic: stored.programmatic,
            arguments: stored.arguments.iter().cloned().map(Argument::from).collect(),
        }
    }
}

impl From<&Workspace> for StoredWorkspace {
    fn from(workspace: &Workspace) -> Self {
        let Workspace { name, bytes, align } = workspace;
        let align = (*align != WORKSPACE_ALIGNMENT).then_some(*align);
        Self { name: name.clone(), bytes: *bytes, align }
    }
}

impl From<&StoredWorkspace> for Workspace {
    fn from(stored: &StoredWorkspace) -> Self {
        let StoredWorkspace { name, bytes, align } = stored;
        Self { name: name.clone(), bytes: *bytes, align: align.unwrap_or(WORKSPACE_ALIGNMENT) }
    }
}

impl From<&TensorMap> for StoredTensorMap {
    fn from(map: &TensorMap) -> Self {
        Self {
            name: map.name.clone(),
            operand: map.operand.clone(),
            dtype: map.dtype,
            offset: map.offset,
            extents: map.extents.clone(),
            strides: map.strides.clone(),
            tile: map.tile.clone(),
            swizzle: map.swizzle,
            rounds_to: map.rounds_to,
        }
    }
}

impl From<&StoredTensorMap> for TensorMap {
    fn from(stored: &StoredTensorMap) -> Self {
        Self {
            name: stored.name.clone(),
            operand: stored.operand.clone(),
            dtype: stored.dtype,
            offset: stored.offset,
            extents: stored.extents.clone(),
            strides: stored.strides.clone(),
            tile: stored.tile.clone(),
            swizzle: stored.swizzle,
            rounds_to: stored.rounds_to,
        }
    }
}

/// The first of `libraries`, the fastest, as the baseline of the winner.
pub(super) fn baseline_of(
    libraries: &[LibraryTime],
    speedup: Option<f64>,
    winner: Micros,
) -> Option<StoredBaseline> {
    let fastest = libraries.first()?;
    Some(StoredBaseline {
        name: fastest.name.clone(),
        median_us: fastest.median_us,
        speedup: four_figures(speedup.unwrap_or(fastest.median_us / winner.0)),
        algorithm: fastest.algorithm.clone(),
        all: if libraries.len() > 1 { libraries.to_vec() } else { Vec::new() },
    })
}

/// Rounds the errors of a validation. Rounding is monotonic, so an error within its bound stays within it.
pub(super) fn rounded(validation: &Validation) -> StoredValidation {
    StoredValidation {
        reference: validation.reference.clone(),
        max_error: three_figures(validation.max_error),
        also_right_on: Vec::new(),
        bound: three_figures(validation.bound),
    }
}

impl From<&Resources> for StoredResources {
    fn from(resources: &Resources) -> Self {
        Self {
            registers: resources.registers,
            spill_bytes: resources.spill_bytes,
            shared_bytes: resources.shared_bytes,
            occupancy: resources.occupancy.map(four_figures),
        }
    }
}

impl From<&StoredResources> for Resources {
    fn from(stored: &StoredResources) -> Self {
        Self {
            registers: stored.registers,
            spill_bytes: stored.spill_bytes,
            shared_bytes: stored.shared_bytes,
            occupancy: stored.occupancy,
        }
    }
}
