//! Selection of the kernels of an artifact that other programs run. Nothing is compiled here.

use rayon::prelude::*;

use super::draft::{ExportSource, KernelDraft};
use super::formulas;
use super::left_out::LeftOut;
use crate::database::Record;
use crate::dispatch::{Dispatch, DispatchNode};
use crate::lookup::{Answer, AnswerSource, Lookup, Question};
use crate::model::{Configuration, Problem, Shape, Storage};
use crate::predict::{DrawLimits, draw, time_formula};

/// Extents of the problems for which lookup selects kernels for any shape: one or a few rows, less
/// than a tile, a few tiles, many.
const PROBES: [u64; 5] = [1, 96, 1000, 2000, 5000];

/// Narrow shapes of the lattice: the short side of C, its long side, and K.
const SHORT_SIDES: [u64; 4] = [16, 8, 4, 2];
const LONG_EXTENTS: [u64; 3] = [10_000, 1000, 96];

/// Drawn problems that kernels are selected for besides the lattice, and that formulas are fitted to.
const DRAWN: usize = 300;
const FITTED: usize = 1500;

/// Questions that are answered on all cores before kernels are added for them, one after the other.
const AT_ONCE: usize = 256;

/// What is added to an aligned extent: rows remain multiples of 4 elements, of 2, or are odd.
const MORE: [u64; 3] = [0, 2, 1];

/// A kernel that is already selected is good enough for a problem up to this predicted time,
/// relative to the best.
const GOOD_ENOUGH: f64 = 1.1;

/// The same for drawn shapes. With 1.1 for these too, nn has 306 kernels instead of 272.
const GOOD_ENOUGH_BETWEEN: f64 = 1.2;

/// Adds kernels for shapes that were not tuned: lookup's answers where none of `drafts` is nearly as good. Asks for a
/// lattice of shapes with every class of operands, and for drawn shapes. Then fits the formulas by which programs choose.
/// `on_question` hears how many questions were answered, of how many.
pub fn for_any_shape(
    drafts: &mut Vec<KernelDraft>,
    lookup: &Lookup,
    source: ExportSource<'_>,
    on_question: &mut dyn FnMut(usize, usize),
) {
    let made = selected(drafts, lookup, source, on_question);
    drafts.extend(made);
    formulas::fit(drafts, lookup, source.device.sms);
    formulas::balance(drafts, lookup, source.device.sms);
}

/// Samples of a pattern: the problems of the lattice and drawn ones, each with one of its classes of operands in turn.
pub(super) fn samples(pattern: &Problem) -> impl Iterator<Item = Question> + use<> {
    sampled_problems(pattern, DRAWN).enumerate().filter_map(move |(at, problem)| {
        let classes = classes(&problem);
        classes.get(at % classes.len()).copied()
    })
}

/// The problems of the lattice and more drawn ones, with a class of operands each, for formulas to be fitted to.
pub(super) fn fit_samples(pattern: &Problem) -> impl Iterator<Item = Question> + use<> {
    sampled_problems(pattern, FITTED).enumerate().filter_map(move |(at, problem)| {
        let mut classes = classes(&problem);
        classes.retain(|question| question.workspace == Question::ANY);
        classes.get(at % classes.len()).copied()
    })
}

/// The problems of the lattice, and drawn ones.
fn sampled_problems(pattern: &Problem, drawn: usize) -> impl Iterator<Item = Problem> + use<> {
    let pattern = *pattern;
    shapes()
        .map(move |shape| Problem { shape, batch: 1, ..pattern })
        .chain(drawn_problems(&pattern, drawn))
}

/// Selects the kernels for shapes that were not tuned.
fn selected(
    chosen: &[KernelDraft],
    lookup: &Lookup,
    source: ExportSource<'_>,
    on_question: &mut dyn FnMut(usize, usize),
) -> Vec<KernelDraft> {
    let patterns = patterns(chosen);
    let sms = source.device.sms;
    let mut made: Vec<KernelDraft> = Vec::new();
    let asked = patterns.iter().flat_map(probes).map(|question| (question, GOOD_ENOUGH));
    let drawn = patterns.iter().flat_map(samples).map(|question| (question, GOOD_ENOUGH_BETWEEN));
    let questions: Vec<_> = asked.chain(drawn).collect();
    for (number, some) in questions.chunks(AT_ONCE).enumerate() {
        on_question(number * AT_ONCE, questions.len());
        let before = made.len();
        let known = || chosen.iter().chain(&made);
        let gaps: Vec<Option<Gap<'_>>> =
            some.par_iter().map(|asked| Gap::of(known(), lookup, asked, sms)).collect();
        for gap in gaps.into_iter().flatten() {
            // Kernels that were added for questions of this round may do.
            if gap.is_filled(&made[before..], lookup, sms) {
                continue;
            }
            let Gap { question, answer, .. } = gap;
            let configuration = answer.configuration.clone();
            let draft = KernelDraft::new(answer.family, configuration, question, source);
            let Some(draft) = draft.ok().filter(|draft| draft.serves_around(question)) else {
                continue;
            };
            // One that programs have already, though they prefer another by its predicted time.
            let same = |known: &KernelDraft| known.source == draft.source && known.serves(question);
            if chosen.iter().chain(&made).any(same) {
                continue;
            }
            let occupancy = answer.record.filter(|_| answer.source != AnswerSource::Default);
            let occupancy = occupancy.and_then(|record| record.resources.occupancy);
            let expectation = answer.predicted.map(|time| {
                let kernel = (answer.family, answer.configuration);
                time_formula(kernel, &question.problem, (source.device, occupancy), time)
            });
            let expectation = expectation.unwrap_or(draft.expectation);
            made.push(KernelDraft { expectation, ..draft });
        }
    }
    for pattern in &patterns {
        let is_like = |draft: &&KernelDraft| draft.pattern() == pattern.pattern();
        if !chosen.iter().chain(&made).filter(is_like).any(KernelDraft::serves_everything) {
            made.extend(serving_everything(pattern, source));
        }
    }
    made
}

/// A question for which no kernel is nearly as good as lookup's answer.
struct Gap<'a> {
    question: &'a Question,
    answer: Answer<'a>,
    /// The answer's time by lookup's predictions, if it has them.
    forecast: Option<f64>,
    /// The largest time of a kernel that is good enough, relative to the answer's.
    most: f64,
}

impl<'a> Gap<'a> {
    /// The gap that kernels leave at a question, if any.
    fn of<'d>(
        drafts: impl Iterator<Item = &'d KernelDraft>,
        lookup: &'a Lookup,
        (question, most): &'a (Question, f64),
        sms: u32,
    ) -> Option<Self> {
        let answer = lookup.answer(question).ok()?;
        let forecast = lookup.forecast((&answer.family.name, answer.configuration), question);
        let forecast = forecast.map(|time| time.0);
        let gap = Self { question, answer, forecast, most: *most };
        (!gap.is_filled(drafts, lookup, sms)).then_some(gap)
    }

    /// Whether one of the kernels is nearly as good as the answer: by lookup's predictions where it has them, else by
    /// the times that programs compare.
    fn is_filled<'d>(
        &self,
        drafts: impl IntoIterator<Item = &'d KernelDraft>,
        lookup: &Lookup,
        sms: u32,
    ) -> bool {
        let Problem { shape, batch, .. } = self.question.problem;
        let mut serving = drafts.into_iter().filter(|draft| draft.serves(self.question));
        if let Some(time) = self.forecast {
            let forecast = |draft: &KernelDraft| {
                lookup.forecast((&draft.family, &draft.configuration), self.question)
            };
            let most = self.most * time;
            return serving.any(|draft| forecast(draft).is_some_and(|time| time.0 <= most));
        }
        let most = self.answer.predicted.map_or(f64::MAX, |time| self.most * time.0);
        serving.any(|draft| draft.expectation.cautious_us(&shape, batch, sms) <= most)
    }
}

/// Makes drafts of the kernels of a dispatch set, each with variants for all kinds of shapes and
/// operands, and of lookup's answers where none of these is nearly as good. Also returns the tree, whose
/// leaves are indices into the former, and the kernels of the set that are left out.
pub fn of_dispatch(
    dispatch: &Dispatch,
    records: &[&Record],
    lookup: &Lookup,
    source: ExportSource<'_>,
) -> (Vec<KernelDraft>, DispatchNode, Vec<LeftOut>) {
    let mut drafts: Vec<KernelDraft> = Vec::new();
    let mut left_out: Vec<LeftOut> = Vec::new();
    let mut places: Vec<Vec<usize>> = Vec::new();
    for kernel in &dispatch.kernels {
        let is_its = |record: &&&Record| {
            let problem = &record.problem;
            (record.family.as_str(), &record.parameters) == (&kernel.family, &kernel.parameters)
                && problem.pattern == dispatch.pattern()
        };
        let own = records.iter().filter(is_its);
        let mut variants: Vec<KernelDraft> = Vec::new();
        let mut why =
            "no record has this kernel of the dispatch set: make the set again".to_owned();
        for record in own {
            match KernelDraft::of_record(record, source) {
                Ok(draft) => variants.push(draft),
                Err(error) => why = error.to_string(),
            }
        }
        let family = source.families.iter().find(|family| family.name == kernel.family);
        let (Some(first), Some(family)) = (variants.first().cloned(), family) else {
            let name = format!("{} {}", kernel.family, Configuration(kernel.parameters.clone()));
            left_out.push(LeftOut::new(name, why));
            places.push(Vec::new());
            continue;
        };
        for question in probes(&first.problem) {
            if variants.iter().any(|draft| draft.serves(&question)) {
                continue;
            }
            let made = KernelDraft::new(family, first.configuration.clone(), &question, source);
            if let Some(draft) = made.ok().filter(|draft| draft.serves_around(&question)) {
                variants.push(KernelDraft { expectation: first.expectation, ..draft });
            }
        }
        places.push((drafts.len()..drafts.len() + variants.len()).collect());
        drafts.extend(variants);
    }
    for_any_shape(&mut drafts, lookup, source, &mut |_, _| ());
    let tree = dispatch.tree.mapped(&|kernel| places.get(kernel).cloned().unwrap_or_default());
    (drafts, tree, left_out)
}

/// The default configuration without conditions that has the lowest predicted time for a product of
/// medium size.
fn serving_everything(pattern: &Problem, source: ExportSource<'_>) -> Option<KernelDraft> {
    let shape = Shape { m: 1000, n: 1000, k: 1000 };
    let question = Question::packed(Problem { shape, batch: 1, ..*pattern });
    let defaults = source.families.iter().flat_map(|family| {
        family.defaults(source.device).iter().map(move |configuration| (family, configuration))
    });
    let drafts = defaults.filter_map(|(family, configuration)| {
        let draft = KernelDraft::new(family, configuration.clone(), &question, source).ok()?;
        draft.serves_everything().then_some(draft)
    });
    drafts.min_by(|a, b| a.expectation.own_clocks.total_cmp(&b.expectation.own_clocks))
}

/// A problem of each GEMM type and layout among drafts.
pub(super) fn patterns(drafts: &[KernelDraft]) -> Vec<Problem> {
    let mut patterns: Vec<Problem> = drafts.iter().map(|draft| draft.problem).collect();
    patterns.sort_unstable_by_key(Problem::pattern);
    patterns.dedup_by_key(|problem| problem.pattern());
    patterns
}

/// The lattice of probes: all shapes with every class of operands. Large products come first, because
/// kernels for smaller ones rarely serve them, and of a shape the best aligned rows. Rows that are
/// aligned in different ways are asked for with the extents of a tile and more, each of which costs the
/// compilation of a kernel.
fn probes(pattern: &Problem) -> impl Iterator<Item = Question> + use<> {
    let pattern = *pattern;
    shapes().flat_map(move |shape| {
        let is_large = [shape.m, shape.n, shape.k].into_iter().all(|extent| extent >= PROBES[2]);
        let mut questions = classes(&Problem { shape, batch: 1, ..pattern });
        questions.retain(|question| is_large || is_uniform(question));
        questions
    })
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

/// Problems as users have them, always the same: between those of the lattice.
fn drawn_problems(pattern: &Problem, count: usize) -> impl Iterator<Item = Problem> + use<> {
    let (mut random, limits) = (fastrand::Rng::with_seed(0), DrawLimits::default());
    let pattern = *pattern;
    let drawn = (0..count).map_while(move |_| draw(&mut random, pattern.types, &limits));
    drawn.map(move |Problem { shape: Shape { m, n, k }, batch, .. }| {
        // Classes are those of aligned rows.
        let aligned = |extent: u64| if extent > 16 { extent.next_multiple_of(8) } else { extent };
        let shape = Shape { m: aligned(m), n: aligned(n), k: aligned(k) };
        Problem { shape, batch, ..pattern }
    })
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
    questions.into_iter().flat_map(|question| [question, question.within(0)]).collect()
}
