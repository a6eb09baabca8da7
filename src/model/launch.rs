//! Launch plans: everything that another program needs to run a rendered kernel.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::storage::Storage;
use super::tensor_map::{TensorMap, TensorMapLimit};
use super::{EpilogueOp, GemmType};

/// A kernel argument, by meaning. All families use these, so that an exported kernel is launched
/// without knowledge of its family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Argument {
    /// Pointer to the stored A (device address, 64 bits).
    A,
    /// Pointer to the stored B.
    B,
    /// Pointer to C.
    C,
    /// Rows of C, `int`.
    M,
    /// Columns of C, `int`.
    N,
    /// The summed dimension, `int`.
    K,
    /// Number of products, `int`.
    Batch,
    /// Elements between rows of the stored A, `int`.
    Lda,
    /// Elements between rows of the stored B, `int`.
    Ldb,
    /// Elements between rows of C, `int`.
    Ldc,
    /// Elements between consecutive A of a batch, `long long`.
    StrideA,
    /// Elements between consecutive B of a batch, `long long`.
    StrideB,
    /// Elements between consecutive C of a batch, `long long`.
    StrideC,
    /// The factor of op(A) op(B): `float`, or `int` where the dtype is an integer.
    Alpha,
    /// The factor of C, of the same type; where it is 0, C is not read.
    Beta,
    /// Pointer to the operand of an operation of the epilogue.
    Epilogue(EpilogueOp),
    /// Pointer to a workspace, or a tensor map passed by value, by the name the family gives it.
    Named(String),
}

/// Arguments of a kernel whose family lists none: all but named ones.
pub const STANDARD_ARGUMENTS: [Argument; 15] = [
    Argument::A,
    Argument::B,
    Argument::C,
    Argument::M,
    Argument::N,
    Argument::K,
    Argument::Batch,
    Argument::Lda,
    Argument::Ldb,
    Argument::Ldc,
    Argument::StrideA,
    Argument::StrideB,
    Argument::StrideC,
    Argument::Alpha,
    Argument::Beta,
];

impl Argument {
    /// Name in search-space files and exported descriptions.
    pub fn name(&self) -> &str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::M => "M",
            Self::N => "N",
            Self::K => "K",
            Self::Batch => "batch",
            Self::Lda => "lda",
            Self::Ldb => "ldb",
            Self::Ldc => "ldc",
            Self::StrideA => "stride_a",
            Self::StrideB => "stride_b",
            Self::StrideC => "stride_c",
            Self::Alpha => "alpha",
            Self::Beta => "beta",
            Self::Epilogue(operation) => operation.operand().unwrap_or_default(),
            Self::Named(name) => name,
        }
    }
}

impl From<String> for Argument {
    fn from(name: String) -> Self {
        let of_epilogue = EpilogueOp::ALL.iter().map(|operation| Self::Epilogue(*operation));
        STANDARD_ARGUMENTS
            .into_iter()
            .chain(of_epilogue)
            .find(|argument| argument.name() == name)
            .unwrap_or(Self::Named(name))
    }
}

impl From<Argument> for String {
    fn from(argument: Argument) -> Self {
        argument.name().to_owned()
    }
}

/// One launch of one entry point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLaunch {
    /// The `extern "C"` name of the kernel.
    pub entry: String,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: u32,
    /// Whether it may begin before the launch before it ends (programmatic dependent launch): its kernel executes
    /// `griddepcontrol.wait` before it uses what that one writes. In a plan whose first launch may, kernels wait before
    /// any access to global memory: nothing is known of the launch before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub programmatic: bool,
    /// Arguments in order.
    pub arguments: Vec<Argument>,
}

/// Extents and attributes of a launch, as drivers take them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: u32,
    /// As [`KernelLaunch::programmatic`].
    pub programmatic: bool,
}

/// Bytes that the address of a workspace is a multiple of, unless a family declares less. All device memory is
/// allocated so.
pub const WORKSPACE_ALIGNMENT: u32 = Storage::ALLOCATED as u32;

/// A scratch buffer of a family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Name for arguments.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes that its address is a multiple of: a power of two up to [`WORKSPACE_ALIGNMENT`].
    #[serde(default = "usual_alignment", skip_serializing_if = "is_usual_alignment")]
    pub align: u32,
}

fn usual_alignment() -> u32 {
    WORKSPACE_ALIGNMENT
}

fn is_usual_alignment(align: &u32) -> bool {
    *align == WORKSPACE_ALIGNMENT
}

/// All launches of a configuration in order, with their shared buffers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LaunchPlan {
    /// The launches, first to last on one stream.
    pub kernels: Vec<KernelLaunch>,
    /// The scratch buffers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspaces: Vec<Workspace>,
    /// The tensor maps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensor_maps: Vec<TensorMap>,
    /// Whether two runs on the same values may differ in their last bits, for instance because
    /// blocks add to the same elements in any order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nondeterministic: bool,
}

/// Error: a launch exceeds a limit of every CUDA device.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("kernel `{entry}`: {what}")]
pub struct LaunchLimit {
    /// The kernel's entry point.
    pub entry: String,
    /// The exceeded limit, with the figures.
    pub what: String,
}

impl KernelLaunch {
    /// Its extents and attributes.
    pub fn shape(&self) -> LaunchShape {
        let Self { grid, block, dynamic_shared_bytes, programmatic, .. } = *self;
        LaunchShape { grid, block, dynamic_shared_bytes, programmatic }
    }
}

impl LaunchPlan {
    /// Whether the first launch, and with it all, may begin before the end of what precedes the plan in its stream.
    pub fn begins_early(&self) -> bool {
        self.kernels.first().is_some_and(|first| first.programmatic)
    }

    /// Checks the limits that every CUDA device has: grid (2^31 - 1, 65535, 65535), block
    /// (1024, 1024, 64, 1024 threads in all), nothing zero.
    ///
    /// # Errors
    /// The first launch that exceeds one, and which.
    pub fn check_limits(&self) -> Result<(), LaunchLimit> {
        for kernel in &self.kernels {
            let limit = |what: String| Err(LaunchLimit { entry: kernel.entry.clone(), what });
            let axes = ["x", "y", "z"];
            for (axis, (blocks, most)) in
                axes.iter().zip(kernel.grid.iter().zip([i32::MAX as u32, 65_535, 65_535]))
            {
                if *blocks == 0 || *blocks > most {
                    return limit(format!("grid {axis} is {blocks}, not within 1 to {most}"));
                }
            }
            for (axis, (threads, most)) in
                axes.iter().zip(kernel.block.iter().zip([1024, 1024, 64]))
            {
                if *threads == 0 || *threads > most {
                    return limit(format!("block {axis} is {threads}, not within 1 to {most}"));
                }
            }
            let threads: u32 = kernel.block.iter().product();
            if threads > 1024 {
                return limit(format!(
                    "a block has {threads} threads, more than 1024: add a constraint to the search space"
                ));
            }
        }
        Ok(())
    }

    /// Checks the tensor maps for a product of these types.
    ///
    /// # Errors
    /// The first exceeded limit.
    pub fn check_maps(&self, types: GemmType) -> Result<(), TensorMapLimit> {
        self.tensor_maps.iter().try_for_each(|map| {
            let space = self.workspaces.iter().find(|space| space.name == map.operand);
            map.check(types, space.map(|space| space.bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(grid: [u32; 3], block: [u32; 3]) -> LaunchPlan {
        let kernel = KernelLaunch {
            entry: "gemm".to_owned(),
            grid,
            block,
            dynamic_shared_bytes: 0,
            programmatic: false,
            arguments: STANDARD_ARGUMENTS.to_vec(),
        };
        LaunchPlan { kernels: vec![kernel], ..LaunchPlan::default() }
    }

    #[test]
    fn limits_name_the_axis() {
        assert_eq!(launch([1 << 30, 1, 65_535], [1024, 1, 1]).check_limits(), Ok(()));
        for (plan, message) in [
            (launch([0, 1, 1], [1, 1, 1]), "grid x is 0"),
            (launch([1, 65_536, 1], [1, 1, 1]), "grid y is 65536"),
            (launch([1, 1, 1], [1, 1, 65]), "block z is 65"),
            (launch([1, 1, 1], [64, 32, 1]), "2048 threads"),
        ] {
            let error = plan.check_limits().unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn arguments_survive_their_names() {
        for argument in STANDARD_ARGUMENTS.into_iter().chain([Argument::Named("partials".into())]) {
            assert_eq!(Argument::from(argument.name().to_owned()), argument);
        }
    }
}
