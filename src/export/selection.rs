//! Selection of the kernels of an artifact that other programs run. Nothing is compiled here.

use super::draft::{DraftError, ExportSource, KernelDraft};
use crate::database::Record;
use crate::dispatch::{Dispatch, DispatchNode};
use crate::lookup::{AnswerSource, Lookup, Question};
use crate::model::{Compute, Dtype, Layout, Problem, Shape, Storage};
use crate::predict::TimeFormula;

/// Extents of the problems for which lookup selects kernels for any shape: one or a few rows, less
/// than a tile, a few tiles, many.
const PROBES: [u64; 4] = [1, 96, 1000, 5000];

/// A kernel that is already selected is good enough for a problem up to this predicted time,
/// relative to the best.
const GOOD_ENOUGH: f64 = 1.1;

/// Selects kernels for shapes that were not tuned: lookup's answers for a lattice of shapes, with
/// aligned and unaligned leading dimensions, where none of `chosen` is nearly as good.
pub fn for_any_shape(
    chosen: &[KernelDraft],
    lookup: &Lookup,
    source: ExportSource<'_>,
) -> Vec<KernelDraft> {
    let mut patterns: Vec<Problem> = chosen.iter().map(|draft| draft.problem).collect();
    patterns.sort_unstable_by_key(|problem| (problem.dtype, problem.compute, problem.layout));
    patterns.dedup_by_key(|problem| (problem.dtype, problem.compute, problem.layout));
    let sms = source.device.sms;
    let mut made: Vec<KernelDraft> = Vec::new();
    for question in patterns.iter().flat_map(probes) {
        let Ok(answer) = lookup.answer(&question) else { continue };
        let Problem { shape, batch, .. } = question.problem;
        let serving = chosen.iter().chain(&made).filter(|draft| draft.serves(&question));
        let expected = serving.map(|draft| draft.expectation.cautious_us(&shape, batch, sms));
        let best = expected.min_by(f64::total_cmp);
        let enough = match (best, answer.predicted) {
            (Some(best), Some(time)) => best <= GOOD_ENOUGH * time.0,
            (best, None) => best.is_some(),
            (None, _) => false,
        };
        if enough {
            continue;
        }
        let configuration = answer.configuration.clone();
        let draft = KernelDraft::new(answer.family, configuration, &question, source);
        let Some(draft) = draft.ok().filter(|draft| draft.serves_around(&question)) else {
            continue;
        };
        let occupancy = answer.record.filter(|_| answer.source != AnswerSource::Default);
        let occupancy = occupancy.and_then(|record| record.resources.occupancy);
        let expectation = answer.predicted.map(|time| {
            let kernel = (answer.family, answer.configuration);
            TimeFormula::of(kernel, &question.problem, (source.device, occupancy), time)
        });
        made.push(KernelDraft { expectation: expectation.unwrap_or(draft.expectation), ..draft });
    }
    for pattern in &patterns {
        let is_like = |draft: &&KernelDraft| draft.pattern() == pattern_of(pattern);
        if !chosen.iter().chain(&made).filter(is_like).any(KernelDraft::serves_everything) {
            made.extend(serving_everything(pattern, source));
        }
    }
    made
}

/// Makes drafts of the kernels of a dispatch set, each with variants for all kinds of shapes and
/// leading dimensions. Also returns the tree, whose leaves are indices into the drafts.
///
/// # Errors
/// The kernel for which `records` has no record.
pub fn of_dispatch(
    dispatch: &Dispatch,
    records: &[&Record],
    source: ExportSource<'_>,
) -> Result<(Vec<KernelDraft>, DispatchNode), DraftError> {
    let mut drafts: Vec<KernelDraft> = Vec::new();
    let mut places: Vec<Vec<usize>> = Vec::new();
    for kernel in &dispatch.kernels {
        let is_its = |record: &&&Record| {
            let problem = &record.problem;
            (record.family.as_str(), &record.parameters) == (&kernel.family, &kernel.parameters)
                && (&problem.dtype, &problem.compute, &problem.layout)
                    == (&dispatch.dtype, &dispatch.compute, &dispatch.layout)
        };
        let own = records.iter().filter(is_its);
        let mut variants: Vec<KernelDraft> =
            own.map(|record| KernelDraft::of_record(record, source)).collect::<Result<_, _>>()?;
        let Some(first) = variants.first().cloned() else {
            return Err(DraftError::NoRecord(kernel.family.clone()));
        };
        let family = source.families.iter().find(|family| family.name == kernel.family);
        let family = family.ok_or_else(|| DraftError::NoFamily(kernel.family.clone()))?;
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
    if !drafts.iter().any(KernelDraft::serves_everything)
        && let Some(first) = drafts.first()
    {
        drafts.extend(serving_everything(&first.problem, source));
    }
    Ok((drafts, dispatch.tree.mapped(&|kernel| places.get(kernel).cloned().unwrap_or_default())))
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

fn pattern_of(problem: &Problem) -> (Dtype, Compute, Layout) {
    (problem.dtype, problem.compute, problem.layout)
}

/// The lattice of probes, large products first, because kernels for smaller ones rarely serve them.
fn probes(pattern: &Problem) -> impl Iterator<Item = Question> + use<> {
    let pattern = *pattern;
    let extents = || PROBES.into_iter().rev();
    let shapes = extents().flat_map(move |m| {
        extents().flat_map(move |n| extents().filter(|k| *k > 1).map(move |k| Shape { m, n, k }))
    });
    shapes.flat_map(move |shape| {
        let problem = Problem { shape, batch: 1, ..pattern };
        let packed = Storage::packed(&problem);
        let odd =
            Storage { lda: packed.lda | 1, ldb: packed.ldb | 1, ldc: packed.ldc | 1, ..packed };
        [packed, odd].map(|storage| Question { problem, storage })
    })
}
