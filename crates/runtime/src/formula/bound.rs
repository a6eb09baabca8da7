//! A kernel's launches, workspaces and tensor maps as formulas, and the conditions for problems that it serves.

use super::{Binary, Formula, OPEN, Slot};
use crate::model::{
    Argument, CopyRounding, Dtype, LaunchPlan, Problem, Storage, Swizzle, TensorMap,
};

/// Names of [`OPEN`] that say what is computed: M, N, K and the batch. The others are rows.
const EXTENTS: usize = 4;

/// A configuration whose code and launches serve all problems for which `serves` holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// Whether the very code that was made serves a problem, and is legal for it. Leading dimensions
    /// are given as [`Storage::leading_dimensions`] has them.
    pub serves: Vec<Formula>,
    /// The launches, first to last.
    pub launches: Vec<BoundLaunch>,
    /// Scratch buffers: name and bytes.
    pub workspaces: Vec<(String, Formula)>,
    /// Tensor maps.
    pub tensor_maps: Vec<BoundMap>,
}

/// A launch for any problem that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundLaunch {
    /// The name of the kernel.
    pub entry: String,
    /// Blocks in x, y and z.
    pub grid: [Formula; 3],
    /// Threads in x, y and z.
    pub block: [Formula; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: Formula,
    /// Whether it is a programmatic dependent launch.
    pub programmatic: bool,
    /// The operands that it copies to a workspace, where it does nothing else.
    pub packs: Option<BoundPacking>,
    /// What it is called with; `None`: the standard arguments, then every workspace.
    pub arguments: Option<Vec<Argument>>,
}

/// Operands that a launch copies to a workspace, which no other launch writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundPacking {
    /// `A`, `B` or both.
    pub operands: Vec<Argument>,
    /// Name of the workspace.
    pub workspace: String,
}

/// A tensor map for any problem that is served. Its formulas read leading dimensions as they are: [`placed_values`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundMap {
    /// Name for arguments.
    pub name: String,
    /// The operand it describes: `A`, `B`, `C` or a workspace.
    pub operand: String,
    /// Dtype of the elements; nothing where it is the operand's, or that of A for a workspace.
    pub dtype: Option<Dtype>,
    /// Layout of a box in shared memory.
    pub swizzle: Swizzle,
    /// What copies to shared memory round elements of f32 to; nothing where they keep their bits.
    pub rounds_to: Option<CopyRounding>,
    /// Bytes from the beginning of the operand to the first element.
    pub offset: Formula,
    /// Elements along each dimension, the innermost first.
    pub extents: Vec<Formula>,
    /// Elements between neighbours along each dimension from the second on.
    pub strides: Vec<Formula>,
    /// Elements of a box along each dimension.
    pub tile: Vec<Formula>,
}

/// The values of [`OPEN`] for a problem as it is stored. Leading dimensions are those by which kernels are chosen:
/// [`Storage::leading_dimensions`].
pub fn open_values(problem: &Problem, storage: &Storage) -> [i64; 7] {
    values(problem, storage.leading_dimensions(problem))
}

/// The values of [`OPEN`] for a problem, with the leading dimensions by which elements are addressed.
pub fn placed_values(problem: &Problem, storage: &Storage) -> [i64; 7] {
    values(problem, [storage.lda, storage.ldb, storage.ldc])
}

fn values(problem: &Problem, [lda, ldb, ldc]: [u64; 3]) -> [i64; 7] {
    let shape = problem.shape;
    [shape.m, shape.n, shape.k, problem.batch, lda, ldb, ldc]
        .map(|value| i64::try_from(value).unwrap_or(i64::MAX))
}

impl Bound {
    /// Whether a problem is served.
    pub fn serves(&self, open: &[i64; 7]) -> bool {
        self.serves.iter().all(|condition| condition.holds(open))
    }

    /// For the very problem whose values and launches are given, and no other.
    pub fn only(open: &[i64; 7], plan: &LaunchPlan) -> Self {
        let same = |place: usize| equal(Formula::Name(place as Slot), open[place]);
        let three = |sizes: [u32; 3]| sizes.map(|size| Formula::Int(i64::from(size)));
        let launches = plan.kernels.iter().map(|kernel| BoundLaunch {
            entry: kernel.entry.clone(),
            grid: three(kernel.grid),
            block: three(kernel.block),
            dynamic_shared_bytes: Formula::Int(i64::from(kernel.dynamic_shared_bytes)),
            programmatic: kernel.programmatic,
            packs: None,
            arguments: Some(kernel.arguments.clone()),
        });
        let workspaces = plan.workspaces.iter();
        let workspaces = workspaces.map(|space| (space.name.clone(), literal(space.bytes)));
        Self {
            serves: (0..OPEN.len()).map(same).collect(),
            launches: launches.collect(),
            workspaces: workspaces.collect(),
            tensor_maps: plan.tensor_maps.iter().map(BoundMap::only).collect(),
        }
    }

    /// The same for one problem's extents and batch, with whatever rows it served before.
    pub fn of_one_problem(mut self, open: &[i64; 7]) -> Self {
        let alone = Self::only(open, &LaunchPlan::default()).serves;
        self.serves.splice(0..0, alone.into_iter().take(EXTENTS));
        self
    }
}

impl BoundMap {
    fn only(map: &TensorMap) -> Self {
        let literals = |values: &[u64]| values.iter().map(|value| literal(*value)).collect();
        Self {
            name: map.name.clone(),
            operand: map.operand.clone(),
            dtype: map.dtype,
            swizzle: map.swizzle,
            rounds_to: map.rounds_to,
            offset: literal(map.offset),
            extents: literals(&map.extents),
            strides: literals(&map.strides),
            tile: map.tile.iter().map(|extent| Formula::Int(i64::from(*extent))).collect(),
        }
    }

    /// The map for [`placed_values`]; `None` where a size is negative or too large.
    pub fn tensor_map(&self, placed: &[i64; 7]) -> Option<TensorMap> {
        let size = |formula: &Formula| u64::try_from(formula.value(placed)?).ok();
        let sizes = |formulas: &[Formula]| formulas.iter().map(size).collect::<Option<Vec<u64>>>();
        let tile = sizes(&self.tile)?;
        Some(TensorMap {
            name: self.name.clone(),
            operand: self.operand.clone(),
            dtype: self.dtype,
            offset: size(&self.offset)?,
            extents: sizes(&self.extents)?,
            strides: sizes(&self.strides)?,
            tile: tile
                .into_iter()
                .map(|extent| u32::try_from(extent).ok())
                .collect::<Option<_>>()?,
            swizzle: self.swizzle,
            rounds_to: self.rounds_to,
        })
    }
}

/// The condition that a formula has a value.
pub fn equal(formula: Formula, value: i64) -> Formula {
    Formula::Binary(Binary::Equal, Box::new(formula), Box::new(Formula::Int(value)))
}

fn literal(value: u64) -> Formula {
    Formula::Int(i64::try_from(value).unwrap_or(i64::MAX))
}
