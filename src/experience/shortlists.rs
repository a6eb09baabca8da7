//! For problems that are alike the few kernels that one of them is nearly always the best of: lookup asks
//! about these alone, which takes microseconds where all would take half a millisecond.
//!
//! **Alike** are problems of a layout whose extents lie between the same powers of two and whose rows vectors
//! of four fit. **How good** lists are, by what a lesson expects itself, for problems that had no part in
//! choosing them: lists of 8 that were chosen for 16, 64 and 256 problems lose 0.8, 0.4 and 0.2 % in the mean,
//! lists of 12 0.6, 0.15 and 0.04 %. Of problems with other rows there are no lists: with one for each
//! alignment of 1 and 2, five of 30 odd shapes got kernels that took 5 to 23 % longer on an H200 than those of
//! which least is expected among all, for which vectors fit differs from operand to operand.

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::Lesson;
use super::few::{cover, losses};
use super::pool::Pool;
use crate::model::{Device, Layout, Problem, Shape, Storage};
use crate::space::Family;

/// Powers of two that extents begin with; problems that are larger or smaller have no list.
const OCTAVES: Range<u32> = 5..14;
const ACROSS: usize = (OCTAVES.end - OCTAVES.start) as usize;

const CELLS: usize = ACROSS * ACROSS * ACROSS;

/// The alignment of rows, as a power of two, of problems that have lists.
const ALIGNMENT: u32 = 2;

/// Problems that a list is chosen for, of which extents are multiples of one of these.
const PROBLEMS: usize = 160;
const MULTIPLES: [u64; 5] = [1, 2, 4, 32, 64];

/// Tries to find these: of many, rows are odd.
const TRIES: usize = 40 * PROBLEMS;

/// The length of a list at most, and what may be lost by one that is shorter, in the mean of the
/// logarithms.
pub(super) const MOST: usize = 8;
const LOSS: f64 = 0.0003;

/// Lists of kernels, each by its place in the lesson, for each layout.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub(super) struct Shortlists {
    cells: BTreeMap<Layout, Vec<Vec<u8>>>,
}

/// In a file each list is a word: two digits for each kernel, to base 16.
type Written = BTreeMap<Layout, Vec<String>>;

impl From<Shortlists> for Written {
    fn from(lists: Shortlists) -> Self {
        let words = |lists: Vec<Vec<u8>>| lists.iter().map(hex::encode).collect();
        lists.cells.into_iter().map(|(layout, lists)| (layout, words(lists))).collect()
    }
}

impl TryFrom<Written> for Shortlists {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let list = |word: String| {
            hex::decode(&word).map_err(|error| format!("`{word}` is no list of kernels: {error}"))
        };
        let lists = |words: Vec<String>| words.into_iter().map(list).collect::<Result<_, String>>();
        let of_layout = |(layout, words)| Ok((layout, lists(words)?));
        Ok(Self { cells: written.into_iter().map(of_layout).collect::<Result<_, String>>()? })
    }
}

impl Shortlists {
    /// Chooses lists by what a lesson expects of its kernels.
    pub(super) fn choose(lesson: &Lesson, family: &Family, device: &Device) -> Self {
        let of_layout = |layout: Layout| {
            let pattern = problem(lesson, layout, [1024; 3]);
            let pool = Pool::of((lesson, family), device, &pattern);
            let list = |cell: usize| list(&pool, &problems(lesson, layout, cell));
            (layout, (0..CELLS).into_par_iter().map(list).collect())
        };
        Self { cells: Layout::ALL.iter().copied().map(of_layout).collect() }
    }

    /// The kernels to ask about for a problem; `None` where no list was made.
    pub(super) fn of(&self, problem: &Problem, storage: &Storage) -> Option<&[u8]> {
        let list = self.cells.get(&problem.layout)?.get(cell(problem, storage)?)?;
        (!list.is_empty()).then_some(list)
    }
}

/// The number of the cell that a problem is in.
fn cell(problem: &Problem, storage: &Storage) -> Option<usize> {
    let Shape { m, n, k } = problem.shape;
    let octave = |extent: u64| {
        let octave = extent.checked_ilog2().filter(|octave| OCTAVES.contains(octave))?;
        Some((octave - OCTAVES.start) as usize)
    };
    let [m, n, k] = [octave(m)?, octave(n)?, octave(k)?];
    let is_listed = problem.batch == 1 && storage.row_alignment(problem) == ALIGNMENT;
    is_listed.then_some((m * ACROSS + n) * ACROSS + k)
}

/// Problems of a cell, always the same, their extents log-uniform; fewer where few are found.
fn problems(lesson: &Lesson, layout: Layout, own: usize) -> Vec<Problem> {
    let mut random = fastrand::Rng::with_seed(own as u64);
    let octaves = [own / ACROSS / ACROSS, own / ACROSS % ACROSS, own % ACROSS];
    let made = (0..TRIES).map(|_| {
        let extents = octaves.map(|octave| {
            let extent = f64::from(OCTAVES.start) + octave as f64 + random.f64();
            let multiple = MULTIPLES[random.usize(..MULTIPLES.len())];
            (extent.exp2() as u64 / multiple).max(1) * multiple
        });
        problem(lesson, layout, extents)
    });
    made.filter(|problem| cell(problem, &Storage::packed(problem)) == Some(own))
        .take(PROBLEMS)
        .collect()
}

fn problem(lesson: &Lesson, layout: Layout, [m, n, k]: [u64; 3]) -> Problem {
    let shape = Shape { m, n, k };
    Problem { shape, batch: 1, dtype: lesson.dtype, compute: lesson.compute, layout }
}

/// The kernels to ask about, by what is expected of each for each problem.
fn list(pool: &Pool<'_>, problems: &[Problem]) -> Vec<u8> {
    let times: Vec<Vec<f32>> = problems.iter().map(|problem| pool.times(problem)).collect();
    let chosen = cover(&losses(&times), LOSS, MOST);
    chosen.into_iter().filter_map(|kernel| u8::try_from(kernel).ok()).collect()
}
