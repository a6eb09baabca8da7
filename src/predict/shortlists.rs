//! Short lists: for similar problems, the few kernels of the set of which one is nearly always the best. Lookup
//! predicts these alone, in a twentieth of the time that all take.
//!
//! Similar problems have one layout, extents nearest to the same powers of two, and rows that fit the same vectors.
//! CellLists of 8 lose 0.4 % in the mean by the model's own predictions
//! (docs/decisions/2026-11-23-ablation-lookup.md).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::kernel_set::{KernelPool, cover, losses};
use super::learned_model::FamilyModel;
use crate::model::{Device, Layout, Problem, Shape, Storage};
use crate::space::Family;

/// Exponents of the powers of two; larger and smaller problems have no list.
const OCTAVES: Range<u32> = 5..15;
const ACROSS: usize = (OCTAVES.end - OCTAVES.start) as usize;

/// Cells of one layout and vector fit.
const CELLS: usize = ACROSS * ACROSS * ACROSS;

/// Vector widths of 1, 2 and 4 elements, as exponents: for M, N and K the widest that fits all rows of that length.
const WIDTHS: usize = 3;
const WIDEST: u32 = WIDTHS as u32 - 1;
const FITS: usize = WIDTHS * WIDTHS * WIDTHS;

/// Problems that a list is chosen for, and attempts to draw them: some fall outside their cell.
const PROBLEMS: usize = 120;
const TRIES: usize = 10 * PROBLEMS;

/// Multiples that extents are drawn as, where the vector fit allows it.
const MULTIPLES: [u64; 5] = [1, 2, 4, 32, 64];

/// Longest list, and the mean loss at which a list ends sooner, as a logarithm of times.
pub(super) const MOST: usize = 8;
const LOSS: f64 = 0.0003;

/// Filler of lists with fewer kernels.
const NONE: u8 = u8::MAX;

/// Short lists for each layout and vector fit; kernels by their place in the kernel set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Shortlists {
    by_layout: BTreeMap<Layout, Vec<CellLists>>,
}

/// Lists of all cells, each of [`MOST`] bytes; two hexadecimal digits for each in a file. Nothing for a fit that no
/// problem of the layout has, or for which no kernel of the set is legal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
struct CellLists(#[serde(with = "hex::serde")] Vec<u8>);

/// Class of similar problems: octaves and vector widths of M, N and K.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShortlistCell {
    octaves: [usize; 3],
    widths: [u32; 3],
}

impl Shortlists {
    /// Chooses lists by the predicted times of a model's kernels. Reports progress to `chosen`: lists done, and in
    /// all.
    pub(super) fn choose(
        (model, family): (&FamilyModel, &Family),
        device: &Device,
        chosen: &(dyn Fn(usize, usize) + Sync),
    ) -> Self {
        let fits = |layout: Layout| (0..FITS).filter(move |fit| is_fit(layout, widths(*fit)));
        let total = CELLS * Layout::ALL.iter().map(|layout| fits(*layout).count()).sum::<usize>();
        let done = AtomicUsize::new(0);
        let of_layout = |layout: Layout| {
            let pattern = problem(model, layout, [1024; 3]);
            let pool = KernelPool::of((model, family), device, &pattern);
            let mut lists = vec![CellLists::default(); FITS];
            for fit in fits(layout) {
                let list = |place: usize| {
                    let cell = ShortlistCell { octaves: octaves(place), widths: widths(fit) };
                    let list = list(&pool, &problems(model, layout, cell));
                    chosen(done.fetch_add(1, Ordering::Relaxed) + 1, total);
                    list
                };
                let own: Vec<u8> = (0..CELLS).into_par_iter().flat_map_iter(list).collect();
                let is_empty = own.iter().all(|kernel| *kernel == NONE);
                lists[fit] = CellLists(if is_empty { Vec::new() } else { own });
            }
            (layout, lists)
        };
        Self { by_layout: Layout::ALL.iter().copied().map(of_layout).collect() }
    }

    /// The list for a problem, empty where no kernel of the set is legal; `None` where there is none.
    pub(super) fn of(&self, problem: &Problem, storage: &Storage) -> Option<&[u8]> {
        let cell = ShortlistCell::of(problem, storage)?;
        let lists = self.by_layout.get(&problem.layout)?.get(cell.fit())?;
        let list = lists.0.get(MOST * cell.place()..).and_then(|lists| lists.get(..MOST));
        let list = list.unwrap_or(&[]);
        let length = list.iter().position(|kernel| *kernel == NONE).unwrap_or(list.len());
        Some(&list[..length])
    }
}

impl ShortlistCell {
    /// The cell of a problem; `None` for one that is too large, too small or batched.
    fn of(problem: &Problem, storage: &Storage) -> Option<Self> {
        let octave = |extent: u64| {
            // Half of the square's logarithm, rounded up, is the nearest power.
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

    /// Index of its list among those of a fit.
    fn place(self) -> usize {
        self.octaves.iter().fold(0, |place, octave| place * ACROSS + octave)
    }

    /// Index of its vector fit.
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

/// Undoes [`ShortlistCell::place`].
fn octaves(place: usize) -> [usize; 3] {
    [place / ACROSS / ACROSS, place / ACROSS % ACROSS, place % ACROSS]
}

/// Undoes [`ShortlistCell::fit`].
fn widths(fit: usize) -> [u32; 3] {
    [fit / WIDTHS / WIDTHS, fit / WIDTHS % WIDTHS, fit % WIDTHS].map(|width| width as u32)
}

/// Whether problems of a layout can have this fit: an extent that is no row's length is unlimited.
fn is_fit(layout: Layout, widths: [u32; 3]) -> bool {
    let rows = rows_of(layout);
    (0..3).all(|extent| rows.contains(&extent) || widths[extent] == WIDEST)
}

/// Sample problems of a cell, always the same, with log-uniform extents; fewer where few are found.
fn problems(model: &FamilyModel, layout: Layout, cell: ShortlistCell) -> Vec<Problem> {
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
        problem(model, layout, [extent(0), extent(1), extent(2)])
    });
    made.filter(|problem| ShortlistCell::of(problem, &Storage::packed(problem)) == Some(cell))
        .take(PROBLEMS)
        .collect()
}

fn problem(model: &FamilyModel, layout: Layout, [m, n, k]: [u64; 3]) -> Problem {
    let shape = Shape { m, n, k };
    Problem { shape, batch: 1, dtype: model.dtype, compute: model.compute, layout }
}

/// Chooses one list by the kernels' predicted times for each problem.
fn list(pool: &KernelPool<'_>, problems: &[Problem]) -> [u8; MOST] {
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
    fn sample_problems_are_in_their_cell() {
        let device = Device::h200();
        let learned = LearnedModel::built_in(&device).unwrap();
        let model = &learned.families["pipelined"][0];
        for layout in Layout::ALL.iter().copied() {
            let fits: Vec<usize> = (0..FITS).filter(|fit| is_fit(layout, widths(*fit))).collect();
            let lengths = if layout == Layout::Tt { 3 } else { 2 };
            assert_eq!(fits.len(), WIDTHS.pow(lengths), "{layout}");
            for fit in fits {
                for place in [0, 100, CELLS - 1] {
                    let cell = ShortlistCell { octaves: octaves(place), widths: widths(fit) };
                    assert_eq!((cell.place(), cell.fit()), (place, fit));
                    let found = problems(model, layout, cell);
                    assert_eq!(found.len(), PROBLEMS, "{layout} {cell:?}");
                }
            }
        }
    }

    /// The committed lists are those that `learn` would choose now.
    #[test]
    fn lists_are_chosen_by_the_predictions_of_the_model() {
        let device = Device::h200();
        let learned = LearnedModel::built_in(&device).unwrap();
        let families = crate::space::Families::built_in().unwrap();
        let (model, family) =
            (&learned.families["pipelined"][0], families.get("pipelined").unwrap());
        let layout = Layout::Nn;
        let pool = KernelPool::of((model, family), &device, &problem(model, layout, [1024; 3]));
        for (place, fit) in [(555, FITS - 1), (842, FITS - 1), (505, 18)] {
            let cell = ShortlistCell { octaves: octaves(place), widths: widths(fit) };
            let problems = problems(model, layout, cell);
            let problem = problems.first().unwrap();
            let committed = model.shortlists.of(problem, &Storage::packed(problem)).unwrap();
            let chosen = list(&pool, &problems);
            assert_eq!(committed, &chosen[..committed.len()], "{problem}");
        }
    }
}
