//! The manifest of a bundle, exactly as `manifest.json` has it. `schemas/manifest.schema.json` is
//! the same as a JSON Schema.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::dispatch_tree::DispatchNode;
use crate::formula::{BoundMap, Formula};
use crate::model::{Dtype, UnknownWord, Value};
use crate::stored::{StoredBaseline, StoredProblem, StoredValidation};
use crate::time_formula::TimeFormula;

/// Schema that this version writes and reads.
pub const SCHEMA: u64 = 2;

/// The whole document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `SCHEMA`.
    pub schema: u64,
    /// The version of this program.
    pub gemm_tune: String,
    /// The GPU that the kernels were tuned on.
    pub device: BundledDevice,
    /// The kernels. Of several that serve a problem, the one that was tuned for it is used, else
    /// the one with the lowest predicted time.
    pub kernels: Vec<BundledKernel>,
    /// A decision tree that is consulted between these two. Its leaves are indices into `kernels`;
    /// the first kernel that serves the problem is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<DispatchNode>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledDevice {
    /// Name that the driver reports.
    pub name: String,
    /// Its compute capability: `9.0`.
    pub compute_capability: String,
    /// Streaming multiprocessors.
    pub sms: u32,
}

/// A kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledKernel {
    /// Its name, unique in the bundle.
    pub name: String,
    /// The problem that it was made for. It serves problems with the same GEMM type, layout and epilogue.
    pub problem: StoredProblem,
    /// Whether it is the recorded winner of that problem.
    pub tuned: bool,
    /// Its family.
    pub family: String,
    /// The value of each parameter.
    pub parameters: IndexMap<String, Value>,
    /// False for a kernel with non-deterministic results, which serves only its own problem. Absent
    /// otherwise.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub deterministic: bool,
    /// Conditions that a problem has to meet to be served.
    pub serves: Vec<Formula>,
    /// Its launches, first to last on one stream.
    pub launches: Vec<BundledLaunch>,
    /// Scratch buffers that the launches share; nothing else may use them meanwhile.
    pub workspaces: Vec<BundledWorkspace>,
    /// Tensor maps of its launches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensor_maps: Vec<BundledMap>,
    /// Its predicted time for other problems.
    pub expectation: TimeFormula,
    /// The median time for its problem, in microseconds; absent where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_us: Option<f64>,
    /// `measured` or `modelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<String>,
    /// The fastest library measured with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<StoredBaseline>,
    /// How its result was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<StoredValidation>,
    /// Its files.
    pub files: BundledFiles,
}

/// A launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledLaunch {
    /// The `extern "C"` name of the kernel.
    pub entry: String,
    /// Blocks in x, y and z for its own problem.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: u32,
    /// Whether it may begin before the launch before it ends (programmatic dependent launch), for the first launch that of
    /// whatever precedes it in the stream. Absent where it may not; a program may launch it without the attribute.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub programmatic: bool,
    /// The operands that it copies to a workspace, where it does nothing else and no other launch writes that workspace: a
    /// program may do so once for many calls. Absent for other launches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packs: Option<BundledPacking>,
    /// The same sizes as formulas, for every served problem.
    pub formulas: LaunchFormulas,
    /// Its arguments, in order.
    pub arguments: Vec<String>,
}

/// Operands that a launch copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledPacking {
    /// `A`, `B` or both.
    pub operands: Vec<String>,
    /// The workspace that it copies them to.
    pub workspace: String,
}

/// The sizes of a launch as formulas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchFormulas {
    /// Blocks in x, y and z.
    pub grid: [Formula; 3],
    /// Threads of a block.
    pub block: [Formula; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: Formula,
}

/// A scratch buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledWorkspace {
    /// The name that arguments refer to.
    pub name: String,
    /// Its size for the kernel's own problem.
    pub bytes: u64,
    /// Its size for every served problem.
    pub formula: Formula,
}

/// A tensor map, which a program encodes with `cuTensorMapEncodeTiled` when it knows the addresses, and passes by value.
/// Elements outside the extents read as zero. The formulas read leading dimensions as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledMap {
    /// The name that arguments refer to.
    pub name: String,
    /// What it describes: `A`, `B`, `C` or a workspace.
    pub operand: String,
    /// Dtype of the elements: `bf16`.
    pub dtype: String,
    /// Layout of a box in shared memory: `none`, `32B`, `64B` or `128B`.
    pub swizzle: String,
    /// What copies to shared memory round elements of f32 to, `tf32`: their type is then
    /// `CU_TENSOR_MAP_DATA_TYPE_TFLOAT32`. Absent where they keep their bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_to: Option<String>,
    /// Bytes from the beginning of the operand to the first element.
    pub offset: Formula,
    /// Elements along each dimension, the innermost first.
    pub extents: Vec<Formula>,
    /// Elements between neighbours along each dimension from the second on.
    pub strides: Vec<Formula>,
    /// Elements of a box along each dimension.
    pub tile: Vec<Formula>,
}

/// The files of a kernel; several kernels may share theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledFiles {
    /// CUDA C++.
    pub source: BundledFile,
    /// PTX, for architectures without machine code.
    pub ptx: BundledFile,
    /// Machine code by architecture: `sm_90`.
    pub cubins: BTreeMap<String, BundledFile>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledFile {
    /// Its name in the bundle's folder.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256 checksum, in hexadecimal digits.
    pub sha256: String,
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}

impl BundledMap {
    /// The map of a kernel for products of these types.
    pub fn of(map: &BoundMap, dtype: Dtype) -> Self {
        Self {
            name: map.name.clone(),
            operand: map.operand.clone(),
            dtype: dtype.to_string(),
            swizzle: map.swizzle.to_string(),
            rounds_to: map.rounds_to.map(|to| to.to_string()),
            offset: map.offset.clone(),
            extents: map.extents.clone(),
            strides: map.strides.clone(),
            tile: map.tile.clone(),
        }
    }

    /// The map as formulas.
    ///
    /// # Errors
    /// A dtype, a swizzle or a rounding that this version does not know.
    pub fn bound(&self) -> Result<BoundMap, UnknownWord> {
        Ok(BoundMap {
            name: self.name.clone(),
            operand: self.operand.clone(),
            dtype: Some(self.dtype.parse()?),
            swizzle: self.swizzle.parse()?,
            rounds_to: self.rounds_to.as_deref().map(str::parse).transpose()?,
            offset: self.offset.clone(),
            extents: self.extents.clone(),
            strides: self.strides.clone(),
            tile: self.tile.clone(),
        })
    }
}

impl BundledFiles {
    /// Every file.
    pub fn all(&self) -> impl Iterator<Item = &BundledFile> {
        [&self.source, &self.ptx].into_iter().chain(self.cubins.values())
    }
}
