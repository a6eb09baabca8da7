//! A family: what a search-space file declares, as data. `parse` makes it from the file, `evaluate`
//! evaluates its expressions.

use std::ops::Range;
use std::sync::Arc;

use indexmap::IndexMap;

use super::expression::{DerivedValue, Expression, SourceFile};
use super::formula::Slot;
use crate::model::tensor_map::operand_dtype;
use crate::model::{
    Argument, Compute, ComputeCapability, Configuration, CopyRounding, Device, Dtype, Epilogue,
    GemmType, Layout, Problem, ProblemPattern, Swizzle, Value,
};

/// A condition that every legal configuration satisfies.
#[derive(Debug, Clone)]
pub struct Constraint {
    pub(crate) require: Expression,
    /// The expression as written.
    pub text: String,
    /// Why it must hold, in the family's words.
    pub because: String,
    /// What it excludes.
    pub excludes: Excludes,
}

/// What a constraint excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excludes {
    /// Kernels that would be wrong or could not run.
    Illegal,
    /// Correct kernels that are not worth a search's time. A kernel that won for a problem near is used all the
    /// same, but none because of its predicted time alone.
    Slow,
    /// Correct kernels with non-deterministic results, which are used only on request.
    Nondeterministic,
}

/// A derived value that is fixed when code is made. The code serves other problems too, with that value, where a
/// condition holds.
#[derive(Debug, Clone)]
pub(crate) struct SpecializedValue {
    /// The derived value.
    pub(crate) slot: Slot,
    /// The condition for a problem, in which the name stands for the value that was fixed.
    pub(crate) require: Expression,
}

/// A launch, its extents as expressions.
#[derive(Debug, Clone)]
pub(crate) struct KernelSpec {
    pub(crate) entry: String,
    /// Whether the configuration has this launch; nothing where it always does.
    pub(crate) when: Option<Expression>,
    pub(crate) grid: Vec<Expression>,
    pub(crate) block: Vec<Expression>,
    pub(crate) dynamic_shared_bytes: Option<Expression>,
    /// Whether it is a programmatic dependent launch; nothing where it never is.
    pub(crate) programmatic: Option<Expression>,
    /// The operands that it copies, where it does nothing else.
    pub(crate) packs: Option<PackingSpec>,
    /// What the file lists; nothing where it leaves the convention to decide.
    pub(crate) arguments: Option<Vec<Argument>>,
}

/// Operands that a launch copies to a workspace, which no other launch writes.
#[derive(Debug, Clone)]
pub(crate) struct PackingSpec {
    /// Whether it copies A; nothing where it never does.
    pub(crate) a: Option<Expression>,
    /// The same of B.
    pub(crate) b: Option<Expression>,
    pub(crate) workspace: String,
}

/// A scratch buffer; a configuration that needs none of its bytes has no such buffer.
#[derive(Debug, Clone)]
pub(crate) struct WorkspaceSpec {
    pub(crate) name: String,
    pub(crate) bytes: Expression,
    /// Bytes that its address is a multiple of.
    pub(crate) align: u32,
}

/// A tensor map. Several may have one name, of which a configuration has one at most.
#[derive(Debug, Clone)]
pub(crate) struct TensorMapSpec {
    pub(crate) name: String,
    /// Whether the configuration has this map; nothing where it always does.
    pub(crate) when: Option<Expression>,
    pub(crate) operand: String,
    /// Of the elements; nothing where it is the operand's, or that of A for a workspace.
    pub(crate) dtype: Option<Dtype>,
    /// Bytes into the operand; nothing for its beginning.
    pub(crate) offset: Option<Expression>,
    pub(crate) extents: Vec<Expression>,
    pub(crate) strides: Vec<Expression>,
    pub(crate) tile: Vec<Expression>,
    pub(crate) swizzle: Swizzle,
    /// What elements of f32 are rounded to where products are of that type; nothing where they never are.
    pub(crate) rounds_to: Option<CopyRounding>,
}

impl TensorMapSpec {
    /// What copies round its elements to in products of these types; nothing where the compute type is another, or elements have
    /// another dtype than is rounded.
    pub(crate) fn rounding(&self, types: GemmType) -> Option<CopyRounding> {
        let dtype = self.dtype.unwrap_or_else(|| operand_dtype(&self.operand, types));
        self.rounds_to.filter(|to| match to {
            CopyRounding::Tf32 => types.compute == Compute::Tf32 && dtype == to.source(),
        })
    }
}

/// The work of the blocks of one kernel, as the file declares it.
#[derive(Debug, Clone)]
pub(crate) struct WorkSpec {
    /// The kernel that computes C: a place in the family's list.
    pub(super) kernel: usize,
    /// Rows and columns of C that a block computes.
    pub(super) tile: [Expression; 2],
    /// Steps of K that a block takes at most; nothing where it takes all.
    pub(super) slice: Option<Expression>,
    /// Blocks that share the K of a tile.
    pub(super) blocks: Option<Expression>,
    /// `'whole'`, or `'shared'` where the blocks of the last wave share the tiles that are left.
    pub(super) tail: Option<Expression>,
    /// Blocks of a wave.
    pub(super) wave: Option<Expression>,
    /// Whether the blocks of one wave compute all tiles.
    pub(super) persistent: Option<Expression>,
    /// Blocks that an SM holds at once.
    pub(super) resident: Option<Expression>,
    /// Blocks of a cluster.
    pub(super) cluster: Option<Expression>,
    /// Bytes of workspaces for each element of A, B and C.
    pub(super) workspace_bytes: [Option<Expression>; 3],
    /// How blocks read the operand that they stream; nothing for kernels that compute tiles from shared memory.
    pub(super) stream: Option<StreamSpec>,
    /// How blocks feed tensor cores; nothing for kernels without.
    pub(super) tensor_cores: Option<TensorCoreSpec>,
    /// The place of the tile in the file.
    pub(super) span: Range<usize>,
}

/// How the blocks of a kernel stream one operand past another, as the file declares it.
#[derive(Debug, Clone)]
pub(crate) struct StreamSpec {
    /// Threads that share the K of an element of C.
    pub(super) threads_along_k: Expression,
    /// Steps of K that a block takes at once.
    pub(super) span: Expression,
    /// Elements of the streamed operand that a thread has under way.
    pub(super) in_flight: Expression,
    /// Registers of a thread.
    pub(super) registers: Expression,
}

/// How the blocks of a kernel feed tensor cores, as the file declares it.
#[derive(Debug, Clone)]
pub(crate) struct TensorCoreSpec {
    /// Rows and columns of C that one block computes, also in a cluster.
    pub(super) tile: [Expression; 2],
    /// Steps of K of a stage.
    pub(super) step: Expression,
    /// Stages of the ring.
    pub(super) stages: Expression,
    /// Bytes of the cache lines that the copies of a stage touch.
    pub(super) copied: Expression,
    /// Bytes of shared memory that the instructions of a stage read.
    pub(super) read: Expression,
    /// Blocks that share the K of a tile.
    pub(super) parts: Option<Expression>,
    /// Tiles that a block has at once.
    pub(super) tiles_at_once: Option<Expression>,
    /// Bytes of operands that another kernel lays out anew before.
    pub(super) packed: Option<Expression>,
    /// Bytes of sums that a block reads from the shared memory of its cluster.
    pub(super) exchanged: Option<Expression>,
    /// Registers of a thread.
    pub(super) registers: Expression,
}

impl TensorCoreSpec {
    /// All that it declares.
    pub(super) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let own = [&self.step, &self.stages, &self.copied, &self.read, &self.registers];
        let optional =
            [&self.parts, &self.tiles_at_once, &self.packed].into_iter().filter_map(Option::as_ref);
        self.tile.iter().chain(own).chain(optional)
    }
}

/// A parameter that has another name now.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RenamedParameter {
    /// Its name.
    pub(super) to: String,
    /// Values that have another word now, by the former word.
    pub(super) values: IndexMap<String, Value>,
}

/// A parameter that a family no longer has, as a function of its configurations today.
#[derive(Debug, Clone, PartialEq)]
pub enum FormerParameter {
    /// All kernels of the family have this value.
    Constant(Value),
    /// The value follows from a parameter of today: by that one's value as displayed, else the same value.
    Follows(String, IndexMap<String, Value>),
}

/// The seeds of one family on one GPU.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DeviceSeeds {
    pub(super) device: String,
    pub(super) compute_capability: ComputeCapability,
    pub(super) configurations: Vec<Configuration>,
}

/// One way to write the kernel: a template and the space of its parameters.
#[derive(Debug, Clone)]
pub struct Family {
    /// Its name, also the stem of both its files.
    pub name: String,
    /// One sentence on how the kernel works.
    pub summary: String,
    /// The template's file name.
    pub template: String,
    /// The family that has beaten it wherever both were measured: where that one serves a problem,
    /// a search of both evaluates only the default of this one.
    pub superseded_by: Option<String>,
    /// Parameters and their values, as declared.
    pub parameters: IndexMap<String, Vec<Value>>,
    /// The rules of legality, as declared.
    pub constraints: Vec<Constraint>,
    pub(super) dtypes: Vec<Dtype>,
    /// Dtypes of D besides the one that follows from that of A.
    pub(super) outputs: Vec<Dtype>,
    /// Whether its kernels apply epilogues.
    pub(super) epilogue: bool,
    pub(super) compute: Vec<Compute>,
    pub(super) layouts: Vec<Layout>,
    pub(super) min_compute_capability: Option<ComputeCapability>,
    /// Which configurations may give other bits in each run; nothing where none does.
    pub(crate) nondeterministic: Option<Expression>,
    /// Derived values that code serves other problems with.
    pub(crate) specialized: Vec<SpecializedValue>,
    /// Each after those that it reads.
    pub(crate) derived: Vec<DerivedValue>,
    /// The names of parameters and derived values, by slot.
    pub(super) own_names: Vec<String>,
    pub(crate) kernels: Vec<KernelSpec>,
    pub(crate) workspaces: Vec<WorkspaceSpec>,
    pub(crate) tensor_maps: Vec<TensorMapSpec>,
    /// Of the file: one at least.
    pub(super) defaults: Vec<Configuration>,
    /// The configurations that searches begin with, by GPU.
    pub(super) seeds: Vec<DeviceSeeds>,
    /// Former names of parameters, for configurations that were written down.
    pub(super) renamed: IndexMap<String, RenamedParameter>,
    /// Parameters that the family no longer has.
    pub(super) removed: IndexMap<String, FormerParameter>,
    /// What the blocks of a kernel compute; nothing where the file does not declare it.
    pub(super) work: Option<WorkSpec>,
    pub(super) file: Arc<SourceFile>,
}

impl Family {
    /// The file it was read from, as messages name it.
    pub fn file(&self) -> &str {
        &self.file.name
    }

    /// The names that it declares: parameters, then derived values. Their slots follow the built-in ones.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.own_names.iter().map(String::as_str)
    }

    /// The default of its file, which is correct for every problem that the family serves on any device.
    pub fn default(&self) -> &Configuration {
        &self.defaults[0]
    }

    /// A pattern that it serves; `None` where it serves none.
    pub(super) fn a_pattern(&self) -> Option<ProblemPattern> {
        let layout = *self.layouts.first()?;
        let types = self.dtypes.iter().flat_map(|dtype| {
            let of =
                move |compute: &Compute| GemmType { compute: *compute, ..GemmType::of(*dtype) };
            self.compute.iter().map(of)
        });
        let types = types.into_iter().find(|types| types.check().is_ok())?;
        Some(ProblemPattern { types, layout, epilogue: Epilogue::NONE })
    }

    /// Why the family cannot serve `problem` on `device`; `None` if it can.
    pub fn refusal(&self, problem: &Problem, device: &Device) -> Option<String> {
        fn words<T: std::fmt::Display>(known: &[T]) -> String {
            known.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
        }
        let GemmType { a, b, d, compute } = problem.types;
        if let Some(dtype) = [a, b].into_iter().find(|dtype| !self.dtypes.contains(dtype)) {
            return Some(format!("serves dtype {}, not {dtype}", words(&self.dtypes)));
        }
        if a != b {
            return Some(format!("serves A and B of one dtype, not {a} and {b}"));
        }
        if d != a.default_out() && !self.outputs.contains(&d) {
            let usual = std::iter::once(a.default_out());
            let known: Vec<Dtype> = usual.chain(self.outputs.iter().copied()).collect();
            return Some(format!("serves output {}, not {d}", words(&known)));
        }
        if !self.compute.contains(&compute) {
            return Some(format!("serves compute {}, not {compute}", words(&self.compute)));
        }
        if !self.layouts.contains(&problem.layout) {
            return Some(format!("serves layout {}, not {}", words(&self.layouts), problem.layout));
        }
        if !problem.epilogue.is_empty() && !self.epilogue {
            return Some(format!(
                "serves no epilogue, not {}: where its kernels apply epilogues, write `epilogue = true` in {}",
                problem.epilogue,
                self.file()
            ));
        }
        let needed = self.lacks(device)?;
        let own = device.compute_capability;
        Some(format!("needs compute capability {needed}, the device has {own}"))
    }

    /// The compute capability that the family needs, where a device has less.
    pub fn lacks(&self, device: &Device) -> Option<ComputeCapability> {
        self.min_compute_capability.filter(|needed| device.compute_capability < *needed)
    }

    /// The same family without seeds: searches on any device begin with the defaults of its file.
    pub fn without_seeds(mut self) -> Self {
        self.seeds.clear();
        self
    }

    /// The same family, whose searches include kernels with non-deterministic results.
    pub fn allowing_nondeterministic(mut self) -> Self {
        self.constraints.retain(|constraint| constraint.excludes != Excludes::Nondeterministic);
        self
    }
}
