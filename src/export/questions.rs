//! The questions that kernels of an artifact are selected for, and that the formulas of their times are fitted to: a lattice
//! of shapes, and problems as users have them.

use super::coverage::Priority;
use crate::lookup::Question;
use crate::model::{Problem, Shape, Storage};
use crate::predict::{DrawLimits, MOST_NARROW, draw};

/// Extents of the problems for which lookup selects kernels for any shape: one or a few rows, less
/// than a tile, a few tiles, many.
const PROBES: [u64; 5] = [1, 96, 1000, 2000, 5000];

/// Narrow shapes of the lattice: the short side of C, its long side, and K.
const SHORT_SIDES: [u64; 5] = [16, 8, 4, 2, 1];
const LONG_EXTENTS: [u64; 4] = [12_000, 4000, 1000, 96];

/// Drawn problems that kernels are selected for besides the lattice: as users have them, more of up to [`MOST_NARROW`]
/// rows or columns, for which many kernels are needed, and rounded ones.
const DRAWN: usize = 1500;
const NARROW: usize = 1200;
const ROUNDED: usize = 750;

/// Every class of operands, of which users meet few, is to have a kernel that is nearly as good as the best: up to this
/// predicted time over the best, on the lattice and for rounded problems.
const GOOD_ENOUGH: f64 = 1.1;
const GOOD_ENOUGH_BETWEEN: f64 = 1.2;

/// Weight of a question with a class of operands beside one with packed operands: see
/// docs/decisions/2026-11-25-untuned-artifacts.md.
const CLASS_WEIGHT: f64 = 0.4;

/// What is added to an aligned extent: rows remain multiples of 4 elements, of 2, or are odd.
const MORE: [u64; 3] = [0, 2, 1];

/// The questions that the kernels of a GEMM type and layout are selected for.
pub(super) fn asked(pattern: &Problem) -> Vec<(Question, Priority)> {
    let of_class = |most: f64| Priority { weight: CLASS_WEIGHT, most: most.ln() };
    let lattice = probes(pattern).map(|question| (question, of_class(GOOD_ENOUGH)));
    let rounded = rounded_problems(pattern).enumerate().filter_map(|(at, problem)| {
        let classes = classes(&problem);
        Some((*classes.get(at % classes.len())?, of_class(GOOD_ENOUGH_BETWEEN)))
    });
    let any = Priority { weight: 1.0, most: f64::INFINITY };
    let drawn = drawn_questions(pattern).map(|question| (question, any));
    lattice.chain(rounded).chain(drawn).collect()
}

/// Problems as users have them, always the same, with packed operands.
fn drawn_questions(pattern: &Problem) -> impl Iterator<Item = Question> + use<> {
    let is_narrow = |problem: &Problem| problem.shape.m.min(problem.shape.n) <= MOST_NARROW;
    let narrow = drawn_problems(pattern, usize::MAX, 2).filter(is_narrow).take(NARROW);
    drawn_problems(pattern, DRAWN, 1).chain(narrow).map(Question::packed)
}

/// Drawn problems whose extents are rounded up, since classes of operands are those of aligned rows.
fn rounded_problems(pattern: &Problem) -> impl Iterator<Item = Problem> + use<> {
    let aligned = |extent: u64| if extent > 16 { extent.next_multiple_of(8) } else { extent };
    drawn_problems(pattern, ROUNDED, 0).map(move |problem| {
        let Shape { m, n, k } = problem.shape;
        Problem { shape: Shape { m: aligned(m), n: aligned(n), k: aligned(k) }, ..problem }
    })
}

/// Questions that formulas are fitted to: the problems of the lattice and rounded ones, each with one of its classes of
/// operands in turn, and those of the selection.
pub(super) fn fit_samples(pattern: &Problem) -> impl Iterator<Item = Question> + use<> {
    let pattern = *pattern;
    let lattice = shapes().map(move |shape| Problem { shape, batch: 1, ..pattern });
    let of_classes =
        lattice.chain(rounded_problems(&pattern)).enumerate().filter_map(move |(at, problem)| {
            let classes = classes_of_storage(&problem);
            classes.get(at % classes.len()).copied()
        });
    of_classes.chain(drawn_questions(&pattern))
}

/// The lattice of probes. Large products come first, because kernels for smaller ones rarely serve them. They are asked
/// for with every class of operands, since rows that are aligned in different ways each cost the compilation of a kernel;
/// other shapes with packed operands, and with one of the other classes in turn.
pub(super) fn probes(pattern: &Problem) -> impl Iterator<Item = Question> + use<> {
    let pattern = *pattern;
    let of_shapes = shapes().enumerate().flat_map(move |(turn, shape)| {
        let is_large = [shape.m, shape.n, shape.k].into_iter().all(|extent| extent >= PROBES[2]);
        let mut questions = classes_of_storage(&Problem { shape, batch: 1, ..pattern });
        if !is_large {
            let others: Vec<Question> = questions.drain(1..).filter(is_uniform).collect();
            questions.extend(others.get(turn % others.len().max(1)));
        }
        questions
    });
    of_shapes.flat_map(with_and_without_workspaces)
}

/// The shapes of the lattice.
fn shapes() -> impl Iterator<Item = Shape> {
    let extents = || PROBES.into_iter().rev();
    let all = extents().flat_map(move |m| {
        extents().flat_map(move |n| extents().filter(|k| *k > 1).map(move |k| Shape { m, n, k }))
    });
    all.chain(narrow_shapes())
}

/// Shapes of the lattice with few rows or columns: kernels for them have as many in their code.
fn narrow_shapes() -> impl Iterator<Item = Shape> {
    SHORT_SIDES.into_iter().flat_map(|short| {
        LONG_EXTENTS.into_iter().flat_map(move |long| {
            LONG_EXTENTS
                .into_iter()
                .flat_map(move |k| [Shape { m: short, n: long, k }, Shape { m: long, n: short, k }])
        })
    })
}

/// Problems as users have them, the same for a seed.
fn drawn_problems(
    pattern: &Problem,
    count: usize,
    seed: u64,
) -> impl Iterator<Item = Problem> + use<> {
    let (mut random, limits) = (fastrand::Rng::with_seed(seed), DrawLimits::default());
    let pattern = *pattern;
    let drawn = (0..count).map_while(move |_| draw(&mut random, pattern.types, &limits));
    drawn.map(move |Problem { shape, batch, .. }| Problem { shape, batch, ..pattern })
}

/// Whether the rows of all operands are aligned alike, but for single elements.
fn is_uniform(question: &Question) -> bool {
    let rows = question.storage.leading_dimensions(&question.problem);
    let mut widths = rows.iter().filter(|row| **row > 3).map(|row| row.trailing_zeros().min(2));
    widths.next().is_none_or(|first| widths.all(|width| width == first))
}

/// The classes of operands that kernels differ in, of problems near one whose rows are aligned: row
/// lengths that are multiples of 4, of 2, or odd; addresses that are multiples of 8 or 4 bytes only;
/// and any memory for workspaces or none.
pub fn classes(aligned: &Problem) -> Vec<Question> {
    classes_of_storage(aligned).into_iter().flat_map(with_and_without_workspaces).collect()
}

fn with_and_without_workspaces(question: Question) -> [Question; 2] {
    [question, question.within(0)]
}

/// The classes with any memory for workspaces, packed operands with aligned rows first.
fn classes_of_storage(aligned: &Problem) -> Vec<Question> {
    let aligned = *aligned;
    let Problem { shape, layout, .. } = aligned;
    // An extent that is no row's length decides no alignment, and a single element is a row as it is.
    let (a_transposed, b_transposed) = (layout.a_transposed(), layout.b_transposed());
    let choices = |extent: u64, is_row: bool| {
        let choices = if is_row && extent > 1 { &MORE[..] } else { &MORE[..1] };
        choices.iter().map(move |more| extent + more)
    };
    let Shape { m, n, k } = shape;
    let mut questions = Vec::new();
    for m in choices(m, a_transposed) {
        for n in choices(n, true) {
            for k in choices(k, !a_transposed || b_transposed) {
                let shape = Shape { m, n, k };
                questions.push(Question::packed(Problem { shape, ..aligned }));
            }
        }
    }
    let element = aligned.types.widest_bytes();
    let storage = Storage::packed(&aligned);
    let apart = [2 * element, element].map(|alignment| Storage { alignment, ..storage });
    questions.extend(apart.map(|storage| Question::new(aligned, storage)));
    questions
}
