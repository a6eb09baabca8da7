//! Binding of a launch plan: every argument gets its value.

use thiserror::Error;

use super::{LaunchArgument, LaunchCommand};
use crate::cpu::KernelParameter;
use crate::model::{Argument, Dtype, EpilogueAddresses, LaunchPlan, Problem, Storage};

impl From<LaunchArgument> for KernelParameter {
    fn from(argument: LaunchArgument) -> Self {
        match argument {
            LaunchArgument::Pointer(address) => Self::Long(address),
            LaunchArgument::I32(value) => Self::from(value),
            LaunchArgument::I64(value) => Self::from(value),
            LaunchArgument::F32(value) => Self::from(value),
            LaunchArgument::Map(map) => Self::from(map),
        }
    }
}

/// Addresses of one set of operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperandAddresses {
    /// Address of A.
    pub a: u64,
    /// Address of B.
    pub b: u64,
    /// Address of C.
    pub c: u64,
    /// Addresses of the operands of the epilogue.
    pub epilogue: EpilogueAddresses,
}

/// Scalar factors of a product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scalars {
    /// The factor of op(A) op(B).
    pub alpha: f32,
    /// The factor of C.
    pub beta: f32,
}

impl Scalars {
    /// C = op(A) op(B).
    pub const PLAIN: Self = Self { alpha: 1.0, beta: 0.0 };
}

/// Error: an argument or the operand of a tensor map has no value, since the plan lacks the
/// workspace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("argument `{0}` has no value")]
pub struct UnboundArgument(pub String);

/// Binds the launches of `plan` in `module` to a set of packed operands. `workspaces` are the addresses of
/// the plan's workspaces, in order.
///
/// # Errors
/// [`UnboundArgument`].
pub fn bind(
    plan: &LaunchPlan,
    module: u32,
    problem: &Problem,
    operands: OperandAddresses,
    workspaces: &[u64],
    scalars: Scalars,
) -> Result<Vec<LaunchCommand>, UnboundArgument> {
    let stored = (problem, &Storage::packed(problem));
    bind_stored(plan, module, stored, operands, workspaces, scalars)
}

/// As [`bind`], for operands that need not be packed; products of a batch lie one after the other.
///
/// # Errors
/// As [`bind`].
pub fn bind_stored(
    plan: &LaunchPlan,
    module: u32,
    (problem, storage): (&Problem, &Storage),
    operands: OperandAddresses,
    workspaces: &[u64],
    scalars: Scalars,
) -> Result<Vec<LaunchCommand>, UnboundArgument> {
    // Extents are within 31 bits (`MAX_EXTENT`, `MAX_BATCH`) and element counts within 60
    // (`Problem::check_size`).
    let int = |value: u64| LaunchArgument::I32(value as i32);
    let long = |value: u64| LaunchArgument::I64(value as i64);
    let scalar = |value: f32| match problem.types.scalar() {
        Dtype::I32 => LaunchArgument::I32(value as i32),
        _ => LaunchArgument::F32(value),
    };
    let workspace = |name: &str| {
        let place = plan.workspaces.iter().position(|workspace| workspace.name == name)?;
        workspaces.get(place).copied()
    };
    let named = |name: &str| -> Result<LaunchArgument, UnboundArgument> {
        let Some(map) = plan.tensor_maps.iter().find(|map| map.name == name) else {
            let address = workspace(name).ok_or_else(|| UnboundArgument(name.to_owned()))?;
            return Ok(LaunchArgument::Pointer(address));
        };
        let address = match Argument::from(map.operand.clone()) {
            Argument::A => operands.a,
            Argument::B => operands.b,
            Argument::C => operands.c,
            other => workspace(other.name()).ok_or_else(|| UnboundArgument(map.operand.clone()))?,
        };
        Ok(LaunchArgument::Map(map.placed(address, problem.types)))
    };
    let value = |argument: &Argument| -> Result<LaunchArgument, UnboundArgument> {
        Ok(match argument {
            Argument::A => LaunchArgument::Pointer(operands.a),
            Argument::B => LaunchArgument::Pointer(operands.b),
            Argument::C => LaunchArgument::Pointer(operands.c),
            Argument::M => int(problem.shape.m),
            Argument::N => int(problem.shape.n),
            Argument::K => int(problem.shape.k),
            Argument::Batch => int(problem.batch),
            Argument::Lda => int(storage.lda),
            Argument::Ldb => int(storage.ldb),
            Argument::Ldc => int(storage.ldc),
            Argument::StrideA => long(problem.stored_a()[0] * storage.lda),
            Argument::StrideB => long(problem.stored_b()[0] * storage.ldb),
            Argument::StrideC => long(problem.shape.m * storage.ldc),
            Argument::Alpha => scalar(scalars.alpha),
            Argument::Beta => scalar(scalars.beta),
            Argument::Epilogue(operation) => {
                LaunchArgument::Pointer(operands.epilogue.of(*operation))
            }
            Argument::Named(name) => named(name)?,
        })
    };
    plan.kernels
        .iter()
        .map(|kernel| {
            Ok(LaunchCommand {
                module,
                entry: kernel.entry.clone(),
                grid: kernel.grid,
                block: kernel.block,
                dynamic_shared_bytes: kernel.dynamic_shared_bytes,
                programmatic: kernel.programmatic,
                arguments: kernel.arguments.iter().map(value).collect::<Result<_, _>>()?,
            })
        })
        .collect()
}
