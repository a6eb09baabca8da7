//! Sizes of a block that a family declares for the cost of its kernels, as formulas of the extents.

use super::expression::Expression;
use super::family::{Family, WorkSpec};
use super::formula::{Formula, Solver};
use super::legality::Extents;
use crate::model::{BlockNeeds, Configuration, Device, Problem};

/// What the cost of a kind of kernel hangs on: `N` expressions of its own besides registers.
#[derive(Debug)]
pub(super) struct BlockSpec<'f, const N: usize> {
    pub(super) tile: &'f [Expression; 2],
    pub(super) parts: Option<&'f Expression>,
    pub(super) registers: &'f Expression,
    /// Each with its value where the file has none.
    pub(super) own: [(Option<&'f Expression>, i64); N],
}

/// Formulas of a block for one configuration on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockFormulas<const N: usize> {
    tile: [Formula; 2],
    parts: Formula,
    registers: Formula,
    shared_bytes: Formula,
    own: [Formula; N],
    /// Threads of a block in x, y and z.
    threads: Vec<Formula>,
}

/// Values of the formulas for one problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockSizes<const N: usize> {
    /// Rows and columns of C.
    pub(super) tile: [u64; 2],
    /// Blocks that share the K of a tile.
    pub(super) parts: u64,
    /// What it needs of an SM; registers are the family's estimate.
    pub(super) needs: BlockNeeds,
    /// The sizes of its kind.
    pub(super) own: [u64; N],
}

impl<const N: usize> BlockFormulas<N> {
    /// Of `configuration` on `device`, for problems that are like `pattern` but for their extents. `None` where a
    /// formula would be too large.
    pub(super) fn of(
        (family, work): (&Family, &WorkSpec),
        spec: &BlockSpec<'_, N>,
        configuration: &Configuration,
        (pattern, device): (&Problem, &Device),
    ) -> Option<Self> {
        let kernel = &family.kernels[work.kernel];
        let shared_bytes = kernel.dynamic_shared_bytes.as_ref();
        let [rows, columns] = spec.tile;
        let own = spec.own.iter().map(|(expression, _)| *expression);
        let optional = own.chain([spec.parts, shared_bytes]).flatten();
        let fixed = [rows, columns, spec.registers];
        let all: Vec<&Expression> =
            fixed.into_iter().chain(optional).chain(&kernel.block).collect();
        let solver = Solver::new(family, configuration, pattern, device);
        let mut formulas = solver.expressions(&all)?.into_iter();
        let tile = [formulas.next()?, formulas.next()?];
        let registers = formulas.next()?;
        let mut or = |expression: Option<&Expression>, otherwise| match expression {
            Some(_) => formulas.next(),
            None => Some(Formula::Int(otherwise)),
        };
        let own = spec.own.iter().map(|(expression, otherwise)| or(*expression, *otherwise));
        let own = own.collect::<Option<Vec<Formula>>>()?;
        let parts = or(spec.parts, 1)?;
        let shared_bytes = or(shared_bytes, 0)?;
        let threads = formulas.collect();
        Some(Self { tile, parts, registers, shared_bytes, own: own.try_into().ok()?, threads })
    }

    /// The sizes for a problem; `None` where one has no value or is negative, or where one that divides is 0.
    pub(super) fn sizes(&self, extents: &Extents) -> Option<BlockSizes<N>> {
        let value = |formula: &Formula| u64::try_from(formula.value(extents.values())?).ok();
        let positive = |formula: &Formula| value(formula).filter(|size| *size > 0);
        let [rows, columns] = &self.tile;
        let threads = self
            .threads
            .iter()
            .try_fold(1_u64, |threads, extent| threads.checked_mul(positive(extent)?))?;
        let mut own = [0; N];
        for (size, formula) in own.iter_mut().zip(&self.own) {
            *size = value(formula)?;
        }
        Some(BlockSizes {
            tile: [positive(rows)?, positive(columns)?],
            parts: positive(&self.parts)?,
            needs: BlockNeeds {
                threads,
                registers: positive(&self.registers)?,
                shared_bytes: value(&self.shared_bytes)?,
            },
            own,
        })
    }
}
