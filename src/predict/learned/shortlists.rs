//! For problems that are alike the few kernels that one of them is nearly always the best of: lookup asks
//! about these alone, which takes microseconds where all would take a fifth of a millisecond.
//!
//! **TilePredictor** are problems of a layout whose extents are nearest to the same powers of two, most extents that
//! are asked about being one, and whose rows the same vectors fit. **How good** lists of 8 are, by what a
//! family_model expects itself: 1200 problems that had no part in choosing them lose 0.4 % in the mean, 1 % in nine
//! of ten cases, 15 % at worst. Without telling rows that pairs fit from those that nothing fits, the latter
//! lose 1.4 % instead of 0.5 %; and with one list for whatever the least aligned of all rows is, five of 30
//! odd shapes got kernels that took 5 to 23 % longer on an H200 than those of which least is expected among
//! all.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::FamilyModel;
use super::kernel_pool::Pool;
use super::kernel_set::{cover, losses};
use crate::model::{Device, Layout, Problem, Shape, Storage};
use crate::space::Family;

/// Powers of two that extents are near to; problems that are larger or smaller have no list.
const OCTAVES: Range<u32> = 5..15;
const ACROSS: usize = (OCTAVES.end - OCTAVES.start) as usize;

/// Cells of one layout and fit of vectors.
const CELLS: usize = ACROSS * ACROSS * ACROSS;

/// The vectors that rows are told apart by, of 1, 2 and 4 elements, as powers of two: for M, N and K the
/// widest that fits all rows of that length.
const WIDTHS: usize = 3;
const WIDEST: u32 = WIDTHS as u32 - 1;
const FITS: usize = WIDTHS * WIDTHS * WIDTHS;

/// Problems that a list is chosen for, and tries to find them: some leave their cell.
const PROBLEMS: usize = 120;
const TRIES: usize = 10 * PROBLEMS;

/// What extents are multiples of where a row allows it.
const MULTIPLES: [u64; 5] = [1, 2, 4, 32, 64];

/// The length of a list at most, and what may be lost by one that is shorter, in the mean of the
/// logarithms.
pub(super) const MOST: usize = 8;
const LOSS: f64 = 0.0003;

/// What stands for no kernel behind the last of a shorter list.
const NONE: u8 = u8::MAX;

/// Lists of kernels for each layout and each fit, each kernel by its place in the family_model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Shortlists {
    by_layout: BTreeMap<Layout, Vec<Lists>>,
}

/// The lists of all cells one after the other, each of [`MOST`] bytes: in a file two digits to base 16 for
/// each kernel. Empty of a fit that no problem of the layout has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
struct Lists(#[serde(with = "hex::serde")] Vec<u8>);

/// The lists that problems look into, and where: octaves and widths are of M, N and K.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    octaves: [usize; 3],
    widths: [u32; 3],
}

impl Shortlists {
    /// Chooses lists by what a family_model expects of its kernels. `chosen` hears how many are chosen, of how
    /// many.
    pub(super) fn choose(
        (family_model, family): (&FamilyModel, &Family),
        device: &Device,
        chosen: &(dyn Fn(usize, usize) + Sync),
    ) -> Self {
        let fits = |layout: Layout| (0..FITS).filter(move |fit| is_fit(layout, widths(*fit)));
        let total = CELLS * Layout::ALL.iter().map(|layout| fits(*layout).count()).sum::<usize>();
        let done = AtomicUsize::new(0);
        let of_layout = |layout: Layout| {
            let pattern = problem(family_model, layout, [1024; 3]);
            let pool = Pool::of((family_model, family), device, &pattern);
            let mut lists = vec![Lists::default(); FITS];
            for fit in fits(layout) {
                let list = |place: usize| {
                    let cell = Cell { octaves: octaves(place), widths: widths(fit) };
                    let list = list(&pool, &problems(family_model, layout, cell));
                    chosen(done.fetch_add(1, Ordering::Relaxed) + 1, total);
                    list
                };
                lists[fit] = Lists((0..CELLS).into_par_iter().flat_map_iter(list).collect());
            }
            (layout, lists)
        };
        Self { by_layout: Layout::ALL.iter().copied().map(of_layout).collect() }
    }

    /// The kernels to ask about for a problem; `None` where no list was made.
    pub(super) fn of(&self, problem: &Problem, storage: &Storage) -> Option<&[u8]> {
        let cell = Cell::of(problem, storage)?;
        let lists = self.by_layout.get(&problem.layout)?.get(cell.fit())?;
        let list = lists.0.get(MOST * cell.place()..)?.get(..MOST)?;
        let length = list.iter().position(|kernel| *kernel == NONE).unwrap_or(MOST);
        (length > 0).then_some(&list[..length])
    }
}

impl Cell {
    /// Of a problem; `None` where it is too large or too small, or several at once.
    fn of(problem: &Problem, storage: &Storage) -> Option<Self> {
        let octave = |extent: u64| {
            // The square's is twice as near: half of one more is the nearest.
            let octave = extent.checked_pow(2)?.checked_ilog2()?.div_ceil(2);
            OCTAVES.contains(&octave).then(|| (octave - OCTAVES.start) as usize)
        };
        let Shape { m, n, k } = problem.shape;
        let octaves = [octave(m)?, octave(n)?, octave(k)?];
        let mut widths = [WIDEST; 3];
        let rows = storage.leading_dimensions(problem);
        for (extent, row) in rows_of(problem.layout).into_iter().zip(rows) {
            widths[extent] = widths[extent].min(row.trailing_zeros());
        }
        (problem.batch == 1).then_some(Self { octaves, widths })
    }

    /// The number of its list among those of a fit.
    fn place(self) -> usize {
        self.octaves.iter().fold(0, |place, octave| place * ACROSS + octave)
    }

    /// The number of what vectors fit.
    fn fit(self) -> usize {
        self.widths.iter().fold(0, |fit, width| fit * WIDTHS + *width as usize)
    }
}

/// Which of M, N and K is the length of a row of A, of B and of C.
fn rows_of(layout: Layout) -> [usize; 3] {
    let [m, n, k] = [0, 1, 2];
    let a = if layout.a_transposed() { m } else { k };
    let b = if layout.b_transposed() { k } else { n };
    [a, b, n]
}

/// Undoes [`Cell::place`].
fn octaves(place: usize) -> [usize; 3] {
    [place / ACROSS / ACROSS, place / ACROSS % ACROSS, place % ACROSS]
}

/// Undoes [`Cell::fit`].
fn widths(fit: usize) -> [u32; 3] {
    [fit / WIDTHS / WIDTHS, fit / WIDTHS % WIDTHS, fit % WIDTHS].map(|width| width as u32)
}

/// Whether problems of a layout fit vectors so: what is the length of no row limits none.
fn is_fit(layout: Layout, widths: [u32; 3]) -> bool {
    let rows = rows_of(layout);
    (0..3).all(|extent| rows.contains(&extent) || widths[extent] == WIDEST)
}

/// Problems of a cell, always the same, their extents log-uniform; fewer where few are found.
fn problems(family_model: &FamilyModel, layout: Layout, cell: Cell) -> Vec<Problem> {
    let mut random = fastrand::Rng::with_seed(cell.place() as u64);
    let rows = rows_of(layout);
    let made = (0..TRIES).map(|_| {
        let mut extent = |at: usize| {
            let octave = f64::from(OCTAVES.start) + cell.octaves[at] as f64;
            let extent = (octave + random.f64() - 0.5).exp2() as u64;
            let widest = MULTIPLES[random.usize(..MULTIPLES.len())];
            let vector = 1 << cell.widths[at];
            match (rows.contains(&at), cell.widths[at]) {
                (true, ..WIDEST) => extent / (2 * vector) * (2 * vector) + vector,
                (true, _) => extent.next_multiple_of(widest.max(vector)),
                (false, _) => extent.next_multiple_of(widest),
            }
        };
        problem(family_model, layout, [extent(0), extent(1), extent(2)])
    });
    made.filter(|problem| Cell::of(problem, &Storage::packed(problem)) == Some(cell))
        .take(PROBLEMS)
        .collect()
}

fn problem(family_model: &FamilyModel, layout: Layout, [m, n, k]: [u64; 3]) -> Problem {
    let shape = Shape { m, n, k };
    Problem { shape, batch: 1, dtype: family_model.dtype, compute: family_model.compute, layout }
}

/// The kernels to ask about, by what is expected of each for each problem.
fn list(pool: &Pool<'_>, problems: &[Problem]) -> [u8; MOST] {
    let times: Vec<Vec<f32>> = problems.iter().map(|problem| pool.times(problem)).collect();
    let mut list = [NONE; MOST];
    let chosen = cover(&losses(&times), LOSS, MOST);
    for (place, kernel) in list.iter_mut().zip(chosen) {
        *place = u8::try_from(kernel).unwrap_or(NONE);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::LearnedModel;

    #[test]
    fn problems_of_a_cell_are_in_it() {
        let device = Device::h200();
        let experience = LearnedModel::built_in(&device).unwrap();
        let family_model = &experience.families["pipelined"];
        for layout in Layout::ALL.iter().copied() {
            let fits: Vec<usize> = (0..FITS).filter(|fit| is_fit(layout, widths(*fit))).collect();
            let lengths = if layout == Layout::Tt { 3 } else { 2 };
            assert_eq!(fits.len(), WIDTHS.pow(lengths), "{layout}");
            for fit in fits {
                for place in [0, 100, CELLS - 1] {
                    let cell = Cell { octaves: octaves(place), widths: widths(fit) };
                    assert_eq!((cell.place(), cell.fit()), (place, fit));
                    let found = problems(family_model, layout, cell);
                    assert_eq!(found.len(), PROBLEMS, "{layout} {cell:?}");
                }
            }
        }
    }
}
