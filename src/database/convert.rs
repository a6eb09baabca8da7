//! Conversions between sections of a record and the types of [`crate::model`].
//!
//! A measurement converts in one direction only: a record stores less of it than the model has.

use thiserror::Error;

use super::figures::{cuda_version, four_figures, three_figures};
use super::sections::{
    StoredDevice, StoredLaunch, StoredPattern, StoredProblem, StoredResources, StoredTensorMap,
    StoredValidation, StoredWorkspace,
};
use crate::model::launch::WORKSPACE_ALIGNMENT;
use crate::model::{
    Argument, ComputeCapability, Device, Dtype, Epilogue, EpilogueError, GemmType, GemmTypeError,
    KernelLaunch, Problem, ProblemPattern, Resources, Shape, TensorMap, UnknownWord, Validation,
    Workspace,
};
use std::fmt;

/// A compute capability that is not two numbers.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a compute capability such as `9.0`")]
pub struct UnknownCapability(String);

/// Error: a pattern with a word or a combination of dtypes that this version does not define.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnknownPattern {
    /// A word.
    #[error(transparent)]
    Word(#[from] UnknownWord),
    /// A combination of dtypes.
    #[error(transparent)]
    Types(#[from] GemmTypeError),
    /// An epilogue.
    #[error(transparent)]
    Epilogue(#[from] EpilogueError),
}

impl From<&Problem> for StoredProblem {
    fn from(problem: &Problem) -> Self {
        let Shape { m, n, k } = problem.shape;
        Self { m, n, k, batch: problem.batch, pattern: problem.pattern().into() }
    }
}

impl From<ProblemPattern> for StoredPattern {
    fn from(pattern: ProblemPattern) -> Self {
        let ProblemPattern { types: GemmType { a, b, d, compute }, layout, epilogue } = pattern;
        Self {
            dtype: a.to_string(),
            b_dtype: (b != a).then(|| b.to_string()),
            out: (d != a.default_out()).then(|| d.to_string()),
            compute: compute.to_string(),
            layout: layout.to_string(),
            epilogue: (!epilogue.is_empty()).then(|| epilogue.to_string()),
        }
    }
}

impl TryFrom<&StoredPattern> for ProblemPattern {
    type Error = UnknownPattern;

    /// Fails on words and on GEMM types that this version does not define.
    fn try_from(stored: &StoredPattern) -> Result<Self, UnknownPattern> {
        let StoredPattern { dtype, b_dtype, out, compute, layout, epilogue } = stored;
        let a: Dtype = dtype.parse()?;
        let other =
            |word: &Option<String>, usual| word.as_ref().map_or(Ok(usual), |word| word.parse());
        let types = GemmType {
            a,
            b: other(b_dtype, a)?,
            d: other(out, a.default_out())?,
            compute: compute.parse()?,
        };
        let epilogue: Epilogue = epilogue.as_deref().unwrap_or_default().parse()?;
        let epilogue = epilogue.check(types.check()?)?;
        Ok(Self { types, layout: layout.parse()?, epilogue })
    }
}

impl fmt::Display for StoredPattern {
    /// Writes a pattern as problems are written, also one that this version does not define.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Ok(known) = ProblemPattern::try_from(self) {
            return known.fmt(f);
        }
        let Self { dtype, b_dtype, out, compute, layout, epilogue } = self;
        write!(f, "{dtype}")?;
        b_dtype.iter().try_for_each(|b| write!(f, " {b}"))?;
        out.iter().try_for_each(|out| write!(f, " out {out}"))?;
        write!(f, " {compute} {layout}")?;
        epilogue.iter().try_for_each(|epilogue| write!(f, " {epilogue}"))
    }
}

impl TryFrom<&StoredProblem> for Problem {
    type Error = UnknownPattern;

    /// Fails on words and on GEMM types that this version does not define.
    fn try_from(stored: &StoredProblem) -> Result<Self, UnknownPattern> {
        let StoredProblem { m, n, k, batch, pattern } = stored;
        let pattern = ProblemPattern::try_from(pattern)?;
        Ok(Self { batch: *batch, ..pattern.problem(Shape { m: *m, n: *n, k: *k }) })
    }
}

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
        }
    }
}

impl From<&Validation> for StoredValidation {
    /// Rounds errors. Rounding is monotonic, so an error within its bound stays within it.
    fn from(validation: &Validation) -> Self {
        Self {
            reference: validation.reference.clone(),
            max_error: three_figures(validation.max_error),
            also_right_on: Vec::new(),
            bound: three_figures(validation.bound),
        }
    }
}

impl From<&StoredValidation> for Validation {
    fn from(stored: &StoredValidation) -> Self {
        Self {
            reference: stored.reference.clone(),
            max_error: stored.max_error,
            bound: stored.bound,
        }
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
