//! A kernel that is ready to be launched for one problem: a call only fills in the operands'
//! addresses.

use crate::catalogue::SelectedKernel;
use crate::driver::Driver;
use crate::error::RuntimeError;
use crate::gpu::KernelArgument;
use crate::model::{
    Argument, EpilogueOp, LaunchShape, Problem, STANDARD_ARGUMENTS, Storage, Workspace,
};
use crate::operands::{GemmOperands, scalar};
use crate::tensor_maps::{MapBase, TensorMapCache};

/// Largest number of arguments of a launch.
pub(crate) const MAX_ARGUMENTS: usize = 64;

/// A kernel prepared for one problem.
pub(crate) struct PreparedKernel<D: Driver> {
    pub(crate) name: String,
    pub(crate) launches: Vec<PreparedLaunch<D::KernelHandle>>,
    /// Bytes of all workspaces, each aligned.
    pub(crate) workspace_bytes: u64,
    pub(crate) maps: TensorMapCache<D::MapHandle>,
}

/// A launch of a prepared kernel.
#[derive(Debug)]
pub(crate) struct PreparedLaunch<K> {
    pub(crate) kernel: K,
    pub(crate) shape: LaunchShape,
    pub(crate) slots: Vec<ArgumentSource>,
    /// The operands that it copies to a workspace, where it does nothing else.
    pub(crate) packs: Option<PackedSpace>,
}

/// The part of the workspaces that a launch packs operands into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedSpace {
    /// Whether A and B are packed.
    pub(crate) factors: [bool; 2],
    /// Offset in bytes into the workspaces.
    pub(crate) offset: u64,
    /// Size in bytes.
    pub(crate) bytes: u64,
}

/// Addresses of the workspaces of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WorkspaceAddresses {
    /// Where all of them lie, one after the other.
    pub(crate) base: u64,
    /// Offset of one that lies elsewhere, and its address.
    pub(crate) elsewhere: Option<(u64, u64)>,
}

impl WorkspaceAddresses {
    /// All workspaces at one address.
    pub(crate) fn at_one(base: u64) -> Self {
        Self { base, elsewhere: None }
    }

    /// The address of the workspace with an offset.
    pub(crate) fn of(self, offset: u64) -> u64 {
        match self.elsewhere {
            Some((elsewhere, address)) if elsewhere == offset => address,
            _ => self.base + offset,
        }
    }
}

/// Source of an argument's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArgumentSource {
    /// Index in the argument convention.
    Standard(usize),
    /// Operand of an operation of the epilogue.
    Epilogue(EpilogueOp),
    /// Offset in bytes into the workspace.
    Workspace(u64),
    /// Index of a tensor map.
    Map(usize),
}

/// Combines a selected kernel with its loaded code, and checks the launch limits.
pub(crate) fn prepare<D: Driver>(
    problem: &Problem,
    chosen: SelectedKernel,
    kernels: Vec<D::KernelHandle>,
) -> Result<PreparedKernel<D>, RuntimeError> {
    let plan = chosen.plan();
    let refuse = |what: String| RuntimeError::Launch { problem: problem.to_string(), what };
    plan.check_limits().map_err(|limit| refuse(limit.to_string()))?;
    plan.check_maps(problem.types).map_err(|limit| refuse(limit.to_string()))?;
    let mut offsets = Vec::new();
    let mut workspace_bytes = 0_u64;
    for Workspace { name, bytes, align: _ } in &plan.workspaces {
        offsets.push((name.as_str(), workspace_bytes));
        workspace_bytes = bytes
            .checked_next_multiple_of(Storage::ALLOCATED)
            .and_then(|bytes| workspace_bytes.checked_add(bytes))
            .ok_or_else(|| refuse(format!("workspace `{name}` has {bytes} bytes")))?;
    }
    let offset =
        |name: &str| offsets.iter().find(|(known, _)| *known == name).map(|(_, offset)| *offset);
    let slot = |name: &String| {
        let argument = Argument::from(name.clone());
        if let Argument::Epilogue(operation) = argument {
            return Ok(ArgumentSource::Epilogue(operation));
        }
        let standard = STANDARD_ARGUMENTS.iter().position(|known| *known == argument);
        let map =
            || plan.tensor_maps.iter().position(|map| map.name == *name).map(ArgumentSource::Map);
        standard
            .map(ArgumentSource::Standard)
            .or_else(map)
            .or_else(|| offset(name).map(ArgumentSource::Workspace))
            .ok_or_else(|| {
                refuse(format!("`{name}` is not an argument, a workspace or a tensor map"))
            })
    };
    let base = |operand: &str| match Argument::from(operand.to_owned()) {
        Argument::A => Some(MapBase::A),
        Argument::B => Some(MapBase::B),
        Argument::C => Some(MapBase::C),
        _ => offset(operand).map(MapBase::Workspace),
    };
    let maps = plan.tensor_maps.iter().map(|map| {
        let missing = || refuse(format!("`{}` is neither an operand nor a workspace", map.operand));
        Ok((map.clone(), base(&map.operand).ok_or_else(missing)?))
    });
    let maps = maps.collect::<Result<_, RuntimeError>>()?;
    let ready = chosen.launches.iter().zip(kernels).map(|(launch, kernel)| {
        let slots: Vec<ArgumentSource> =
            launch.arguments.iter().map(slot).collect::<Result<_, _>>()?;
        if slots.len() > MAX_ARGUMENTS {
            return Err(refuse(format!("`{}` has {} arguments", launch.entry, slots.len())));
        }
        let packs = launch.packs.as_ref().and_then(|packs| {
            let is_packed = |factor: &str| packs.operands.iter().any(|name| name == factor);
            let space = plan.workspaces.iter().find(|space| space.name == packs.workspace)?;
            let (factors, bytes) = ([is_packed("A"), is_packed("B")], space.bytes);
            Some(PackedSpace { factors, offset: offset(&packs.workspace)?, bytes })
        });
        Ok(PreparedLaunch { kernel, shape: launch.shape, slots, packs })
    });
    let launches = ready.collect::<Result<_, RuntimeError>>()?;
    let maps = TensorMapCache::new(problem.types, maps);
    Ok(PreparedKernel { launches, workspace_bytes, maps, name: chosen.name })
}

impl ArgumentSource {
    /// Value of the argument in a call.
    pub(crate) fn value(
        self,
        problem: &Problem,
        operands: &GemmOperands,
        workspaces: WorkspaceAddresses,
    ) -> KernelArgument {
        // The casts lose nothing: `Storage::check` was applied to the problem and its operands.
        let int = |value: u64| KernelArgument::I32(value as i32);
        let stride = |rows: u64, row: u64| KernelArgument::I64((rows * row) as i64);
        let shape = problem.shape;
        let place = match self {
            Self::Workspace(offset) => return KernelArgument::Pointer(workspaces.of(offset)),
            Self::Map(place) => return KernelArgument::Map(place),
            Self::Epilogue(operation) => {
                return KernelArgument::Pointer(operands.epilogue.of(operation));
            }
            Self::Standard(place) => place,
        };
        match STANDARD_ARGUMENTS[place] {
            Argument::A => KernelArgument::Pointer(operands.a),
            Argument::B => KernelArgument::Pointer(operands.b),
            Argument::C => KernelArgument::Pointer(operands.d),
            Argument::M => int(shape.m),
            Argument::N => int(shape.n),
            Argument::K => int(shape.k),
            Argument::Batch => int(problem.batch),
            Argument::Lda => int(operands.lda),
            Argument::Ldb => int(operands.ldb),
            Argument::Ldc => int(operands.ldd),
            Argument::StrideA => stride(problem.stored_a()[0], operands.lda),
            Argument::StrideB => stride(problem.stored_b()[0], operands.ldb),
            Argument::StrideC => stride(shape.m, operands.ldd),
            Argument::Alpha => scalar(problem.types, operands.alpha),
            // Only beta is left: other arguments are not among the standard ones.
            Argument::Beta | Argument::Epilogue(_) | Argument::Named(_) => {
                scalar(problem.types, operands.beta)
            }
        }
    }
}
