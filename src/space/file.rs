//! A search-space file as written. Nothing is checked here beyond TOML and field names; `parse`
//! makes a family of it.

use indexmap::IndexMap;
use serde::Deserialize;
use toml::Spanned;

use crate::model::Value;

/// The highest `schema` that this program reads.
pub(crate) const SCHEMA: i64 = 1;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FamilyFile {
    pub(crate) schema: Spanned<i64>,
    pub(crate) name: Spanned<String>,
    pub(crate) summary: String,
    pub(crate) template: Option<Spanned<String>>,
    pub(crate) dtypes: Vec<Spanned<String>>,
    #[serde(default)]
    pub(crate) epilogue: bool,
    #[serde(default)]
    pub(crate) outputs: Vec<Spanned<String>>,
    pub(crate) compute: Vec<Spanned<String>>,
    pub(crate) layouts: Vec<Spanned<String>>,
    pub(crate) min_compute_capability: Option<Spanned<String>>,
    pub(crate) superseded_by: Option<String>,
    pub(crate) nondeterministic: Option<Spanned<String>>,
    pub(crate) parameters: IndexMap<Spanned<String>, Spanned<Vec<Spanned<Value>>>>,
    #[serde(default)]
    pub(crate) derived: IndexMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    pub(crate) specialized: IndexMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    pub(crate) constraints: Vec<ConstraintFile>,
    pub(crate) kernels: Vec<KernelFile>,
    #[serde(default)]
    pub(crate) workspaces: Vec<WorkspaceFile>,
    #[serde(default)]
    pub(crate) tensor_maps: Vec<TensorMapFile>,
    pub(crate) work: Option<WorkFile>,
    pub(crate) default: Spanned<OneOrMany>,
    #[serde(default)]
    pub(crate) renamed: IndexMap<Spanned<String>, Spanned<RenamedFile>>,
    #[serde(default)]
    pub(crate) removed: IndexMap<Spanned<String>, Spanned<RemovedFile>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConstraintFile {
    pub(crate) require: Spanned<String>,
    pub(crate) because: String,
    pub(crate) prunes: Option<Spanned<PrunesFile>>,
}

/// `true`, or the architectures that a constraint was measured on: `{ on = ["9.0"] }`.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum PrunesFile {
    Everywhere(bool),
    On { on: Vec<String> },
}

/// A parameter's new name, or that with the new words for some of its values.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum RenamedFile {
    Name(String),
    Values { to: String, values: IndexMap<String, Value> },
}

/// The only value of a removed parameter that kernels still have, or the parameter that it follows,
/// with its value for each value of that one.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum RemovedFile {
    Follows { follows: String, values: IndexMap<String, Value> },
    Always(Value),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KernelFile {
    pub(crate) entry: Spanned<String>,
    pub(crate) when: Option<Spanned<String>>,
    pub(crate) grid: Spanned<Vec<Spanned<SizeText>>>,
    pub(crate) block: Spanned<Vec<Spanned<SizeText>>>,
    pub(crate) dynamic_shared_bytes: Option<Spanned<SizeText>>,
    pub(crate) programmatic: Option<Spanned<String>>,
    pub(crate) packs: Option<PackingFile>,
    pub(crate) arguments: Option<Vec<Spanned<String>>>,
}

/// Operands that a launch copies to a workspace, as conditions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PackingFile {
    pub(crate) a: Option<Spanned<String>>,
    pub(crate) b: Option<Spanned<String>>,
    pub(crate) into: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkspaceFile {
    pub(crate) name: Spanned<String>,
    pub(crate) bytes: Spanned<SizeText>,
    pub(crate) align: Option<Spanned<i64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TensorMapFile {
    pub(crate) name: Spanned<String>,
    pub(crate) when: Option<Spanned<String>>,
    pub(crate) operand: Spanned<String>,
    pub(crate) dtype: Option<Spanned<String>>,
    pub(crate) offset: Option<Spanned<SizeText>>,
    pub(crate) extents: Spanned<Vec<Spanned<SizeText>>>,
    pub(crate) strides: Option<Spanned<Vec<Spanned<SizeText>>>>,
    pub(crate) tile: Spanned<Vec<Spanned<SizeText>>>,
    pub(crate) swizzle: Option<Spanned<String>>,
    pub(crate) rounds_to: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkFile {
    pub(crate) kernel: Option<Spanned<String>>,
    pub(crate) tile: Spanned<Vec<Spanned<SizeText>>>,
    pub(crate) slice: Option<Spanned<SizeText>>,
    pub(crate) blocks: Option<Spanned<SizeText>>,
    pub(crate) tail: Option<Spanned<String>>,
    pub(crate) wave: Option<Spanned<SizeText>>,
    pub(crate) persistent: Option<Spanned<String>>,
    pub(crate) resident: Option<Spanned<SizeText>>,
    pub(crate) cluster: Option<Spanned<SizeText>>,
    #[serde(default)]
    pub(crate) workspace_bytes: WorkspaceBytesFile,
    pub(crate) stream: Option<StreamFile>,
    pub(crate) tensor_cores: Option<TensorCoresFile>,
}

/// `[work.stream]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamFile {
    pub(crate) threads_along_k: Spanned<SizeText>,
    pub(crate) span: Spanned<SizeText>,
    pub(crate) in_flight: Spanned<SizeText>,
    pub(crate) registers: Spanned<SizeText>,
}

/// `[work.tensor_cores]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TensorCoresFile {
    pub(crate) tile: Spanned<Vec<Spanned<SizeText>>>,
    pub(crate) step: Spanned<SizeText>,
    pub(crate) stages: Spanned<SizeText>,
    pub(crate) copied: Spanned<SizeText>,
    pub(crate) read: Spanned<SizeText>,
    pub(crate) parts: Option<Spanned<SizeText>>,
    pub(crate) tiles_at_once: Option<Spanned<SizeText>>,
    pub(crate) packed: Option<Spanned<SizeText>>,
    pub(crate) exchanged: Option<Spanned<SizeText>>,
    pub(crate) registers: Spanned<SizeText>,
}

/// Bytes of workspaces for each element of an operand.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkspaceBytesFile {
    pub(crate) a: Option<Spanned<SizeText>>,
    pub(crate) b: Option<Spanned<SizeText>>,
    pub(crate) c: Option<Spanned<SizeText>>,
}

/// A size: a number, or an expression that gives one.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum SizeText {
    Number(i64),
    Expression(String),
}

/// `[default]`, or several `[[default]]` where no seeds are, tried in order.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    One(IndexMap<String, Value>),
    Many(Vec<IndexMap<String, Value>>),
}
