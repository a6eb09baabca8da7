//! What `manifest.json` of a bundle says, exactly as it stands there. `schemas/manifest.schema.json`
//! is the same as a JSON Schema.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::database::{StoredBaseline, StoredProblem, StoredValidation};
use crate::dispatch::Node;
use crate::model::Value;
use crate::predict::TimeFormula;
use crate::space::Formula;

/// The schema that this version writes and reads.
pub(super) const SCHEMA: u64 = 1;

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
    /// The kernels. Of several that serve a problem, the one is used that was tuned for it, else the
    /// one of which the least is expected.
    pub kernels: Vec<BundledKernel>,
    /// A decision tree that comes between the two: its answers are places in `kernels`, the first of
    /// which that serves the problem is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Node>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledDevice {
    /// The driver's name for it.
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
    /// Unique in the bundle.
    pub name: String,
    /// What it was made for; what it serves has the same dtype, compute type and layout.
    pub problem: StoredProblem,
    /// Whether it is the recorded winner of that problem.
    pub tuned: bool,
    /// The family that it is of.
    pub family: String,
    /// The value of each parameter.
    pub parameters: IndexMap<String, Value>,
    /// False where two runs on the same values may differ in their last bits: then it serves its own
    /// problem alone. Absent otherwise.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub deterministic: bool,
    /// Conditions that all have to hold of a problem that it serves.
    pub serves: Vec<Formula>,
    /// What to launch, first to last on one stream.
    pub launches: Vec<BundledLaunch>,
    /// Scratch buffers, which the launches share and nobody else uses meanwhile.
    pub workspaces: Vec<BundledWorkspace>,
    /// What it is expected to take for other problems.
    pub expectation: TimeFormula,
    /// The median time for its problem, in microseconds; absent where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_us: Option<f64>,
    /// `measured` or `modelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<String>,
    /// The fastest library beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<StoredBaseline>,
    /// How its result was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<StoredValidation>,
    /// Where its code is.
    pub files: BundledFiles,
}

/// A launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledLaunch {
    /// The `extern "C"` name of the kernel.
    pub entry: String,
    /// Blocks in x, y and z for the problem that it was made for.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: u32,
    /// The same for every problem that is served.
    pub formulas: LaunchFormulas,
    /// What it is called with, in order.
    pub arguments: Vec<String>,
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
    /// Its size for the problem that the kernel was made for.
    pub bytes: u64,
    /// Its size for every problem that is served.
    pub formula: Formula,
}

/// The files of a kernel; several kernels may share theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledFiles {
    /// CUDA C++.
    pub source: BundledFile,
    /// PTX, for architectures that there is no machine code for.
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

impl BundledFiles {
    /// Every file.
    pub fn all(&self) -> impl Iterator<Item = &BundledFile> {
        [&self.source, &self.ptx].into_iter().chain(self.cubins.values())
    }
}
