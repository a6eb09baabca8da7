//! Selection of the blocks to execute when all of them would take too long.
//!
//! The family decides what a block computes. The extents of what the first block wrote give the
//! tile size. If as many such tiles as there are blocks cover C, corners and edges are selected as
//! if tiles were numbered row by row. In other orders those blocks are arbitrary ones;
//! [`BlockCoverage`] reports what was covered.

use std::collections::BTreeSet;
use std::fmt;

use super::region::Region;
use crate::model::Problem;

/// Maximum number of executed blocks.
const MAX_BLOCKS: usize = 9;

/// Multiply-adds that they may take together; at least [`LEAST_BLOCKS`] blocks are executed. A core checks
/// 5e8 per second: a quarter of a second on two cores.
const MAX_WORK: u64 = 1 << 28;
const LEAST_BLOCKS: usize = 4;

/// Products with up to this many multiply-adds are executed completely: 512x512x512.
const COMPLETE_WORK: u64 = 1 << 27;

/// Number of multiply-adds of a problem.
fn work(problem: &Problem) -> u64 {
    (problem.operations() / 2.0) as u64
}

/// Whether a problem is small enough to be executed completely.
pub(super) fn is_small(problem: &Problem) -> bool {
    work(problem) <= COMPLETE_WORK
}

/// Selects the blocks to execute in addition to the first, which wrote `first`.
pub(super) fn choose(
    problem: &Problem,
    grid: [u32; 3],
    first: &Region,
    seed: u64,
) -> Vec<[u32; 3]> {
    let [x, y, z] = grid.map(u64::from);
    let (slice, all) = (x * y, x * y * z);
    let each = (work(problem) / all).max(1);
    let count = ((MAX_WORK / each) as usize).clamp(LEAST_BLOCKS, MAX_BLOCKS);
    let mut placed = vec![all - 1];
    if let Some([rows, columns]) = tiles(problem, first).filter(|[r, c]| r * c == slice) {
        let (right, bottom) = (columns - 1, (rows - 1) * columns);
        placed.extend([right, bottom, columns / 2, rows / 2 * columns]);
    }
    placed.truncate(count / 2); // the others are random, so that some lie inside
    let mut random = fastrand::Rng::with_seed(seed);
    let drawn = (0..4 * MAX_BLOCKS).map(|_| random.u64(..all));
    let mut chosen = BTreeSet::from([0]);
    for block in placed.into_iter().chain(drawn) {
        if chosen.len() < count {
            chosen.insert(block);
        }
    }
    chosen.remove(&0);
    let index =
        |number: u64| [(number % x) as u32, (number / x % y) as u32, (number / slice) as u32];
    chosen.into_iter().map(index).collect()
}

/// Number of tiles of the first block's size that cover C, vertically and horizontally.
fn tiles(problem: &Problem, first: &Region) -> Option<[u64; 2]> {
    let rows = first.runs.iter().map(|run| run.row).max()? + 1;
    let columns = first.runs.iter().map(|run| run.column + run.length).max()?;
    Some([problem.shape.m.div_ceil(rows), problem.shape.n.div_ceil(columns)])
}

/// Executed part of a grid, and the part of C that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockCoverage {
    /// Executed blocks.
    pub executed: u64,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Written elements of C.
    pub elements: u64,
    /// Written corners of C, of 4.
    pub corners: u64,
    /// Borders of C with a written element, of 4.
    pub borders: u64,
}

impl BlockCoverage {
    pub(super) fn of(problem: &Problem, executed: u64, blocks: u64, region: &Region) -> Self {
        let (bottom, right) = (problem.shape.m - 1, problem.shape.n);
        let ends = |run: &super::region::RowSegment| run.column + run.length == right;
        let any = |test: &dyn Fn(&super::region::RowSegment) -> bool| {
            u64::from(region.runs.iter().any(test))
        };
        Self {
            executed,
            blocks,
            elements: region.elements(),
            corners: any(&|run| run.row == 0 && run.column == 0)
                + any(&|run| run.row == 0 && ends(run))
                + any(&|run| run.row == bottom && run.column == 0)
                + any(&|run| run.row == bottom && ends(run)),
            borders: any(&|run| run.row == 0)
                + any(&|run| run.row == bottom)
                + any(&|run| run.column == 0)
                + any(&ends),
        }
    }

    /// Whether every block was executed.
    pub fn whole(&self) -> bool {
        self.executed == self.blocks
    }
}

impl fmt::Display for BlockCoverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.whole() {
            return write!(f, "all {} blocks", self.blocks);
        }
        write!(
            f,
            "{} of {} blocks, with {} corners and {} borders of C",
            self.executed, self.blocks, self.corners, self.borders
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::region::RowSegment;
    use super::*;
    use crate::model::Dtype;

    fn tile(problem: &Problem, [rows, columns]: [u64; 2], [down, across]: [u64; 2]) -> Region {
        let (row, column) = (down * rows, across * columns);
        let length = columns.min(problem.shape.n - column);
        let last = (row + rows).min(problem.shape.m);
        let run = |row| RowSegment { product: 0, row, column, length };
        Region { runs: (row..last).map(run).collect() }
    }

    #[test]
    fn corners_are_found_in_either_order_of_tiles() {
        let problem = Problem::new("1000x3000x4096".parse().unwrap(), Dtype::F32);
        let size = [128, 64];
        let (rows, columns) = (8, 47);
        for by_column in [false, true] {
            let place = |x: u64| {
                if by_column { [x % rows, x / rows] } else { [x / columns, x % columns] }
            };
            let grid = [(rows * columns) as u32, 1, 1];
            let first = tile(&problem, size, [0, 0]);
            let chosen = choose(&problem, grid, &first, 7);
            assert_eq!(chosen, choose(&problem, grid, &first, 7));
            assert!(chosen.len() >= LEAST_BLOCKS - 1 && chosen.len() < MAX_BLOCKS, "{chosen:?}");
            let mut runs = first.runs.clone();
            runs.extend(
                chosen.iter().flat_map(|[x, _, _]| tile(&problem, size, place((*x).into())).runs),
            );
            let places =
                BlockCoverage::of(&problem, chosen.len() as u64 + 1, 376, &Region { runs });
            assert!(places.corners >= 2 && places.borders == 4, "{places}");
        }
    }

    #[test]
    fn a_grid_of_few_blocks_is_executed_completely() {
        let problem = Problem::new("128x128x65536".parse().unwrap(), Dtype::F32);
        let first = tile(&problem, [64, 64], [0, 0]);
        assert_eq!(choose(&problem, [2, 2, 1], &first, 0).len(), 3);
        assert_eq!(choose(&problem, [1, 1, 1], &first, 0).len(), 0);
    }
}
