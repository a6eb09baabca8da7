//! Selection of the kernels of an artifact that other programs run. Nothing is compiled here.

use std::collections::HashSet;
use std::sync::Arc;

use rayon::prelude::*;

use super::coverage::{Priority, added};
use super::draft::{ExportSource, KernelDraft};
use super::formulas;
use super::left_out::LeftOut;
use super::questions::{asked, probes};
use super::served::served;
use crate::database::Record;
use crate::dispatch::{Dispatch, DispatchNode};
use crate::lookup::{Answer, AnswerSource, Lookup, Question};
use crate::model::{Configuration, Device, Micros, Problem, Shape};
use crate::predict::{ServedCases, time_formula};
use crate::space::{Extents, WorkspaceSizes};
use crate::trees::Precision;

/// A kernel is added if it lowers the weighted sum of the losses by this, as logarithms: for instance those of
/// six drawn problems by a tenth each.
const LEAST_GAIN: f64 = 0.6;

/// A coarse prediction that is so many times the least one is good enough: such a kernel is not chosen.
const FAR: f64 = 1.6;

/// Questions that are answered on all cores before the progress is told.
const AT_ONCE: usize = 256;

/// Adds kernels for shapes that were not tuned: of lookup's answers for a lattice of shapes with classes of operands and
/// for drawn problems, those that lower the loss of all most. Then fits the formulas by which programs choose. Last comes for
/// each pattern a kernel that serves everything, if none does yet: programs use it only where no other one serves.
/// `on_question` hears how many questions were answered, of how many.
pub fn for_any_shape(
    drafts: &mut Vec<KernelDraft>,
    lookup: &Lookup,
    source: ExportSource<'_>,
    on_question: &mut dyn FnMut(usize, usize),
) {
    let patterns = patterns(drafts);
    let made = selected(drafts, &patterns, lookup, source, on_question);
    drafts.extend(made);
    formulas::fit(drafts, lookup, source.device.sms);
    for pattern in &patterns {
        let serves =
            |draft: &KernelDraft| draft.pattern() == pattern.pattern() && draft.serves_everything();
        if !drafts.iter().any(serves) {
            drafts.extend(serving_everything(pattern, source));
        }
    }
}

/// Selects the kernels for shapes that were not tuned, of each pattern as many as pay.
fn selected(
    chosen: &[KernelDraft],
    patterns: &[Problem],
    lookup: &Lookup,
    source: ExportSource<'_>,
    on_question: &mut dyn FnMut(usize, usize),
) -> Vec<KernelDraft> {
    let patterns: Vec<_> = patterns.iter().map(|pattern| (pattern, asked(pattern))).collect();
    let total = patterns.iter().map(|(_, questions)| questions.len()).sum();
    let mut answered = 0;
    let mut made: Vec<KernelDraft> = Vec::new();
    for (pattern, questions) in patterns {
        let (mut asked, mut priorities) = (Vec::new(), Vec::new());
        for some in questions.chunks(AT_ONCE) {
            on_question(answered, total);
            answered += some.len();
            let answers: Vec<(Asked<'_>, Priority)> = some
                .par_chunk_by(|(a, _), (b, _)| (a.problem, a.storage) == (b.problem, b.storage))
                .flat_map_iter(|alike| Asked::of_alike(alike, lookup, source.device))
                .collect();
            let (answers, own): (Vec<_>, Vec<Priority>) = answers.into_iter().unzip();
            asked.extend(answers);
            priorities.extend(own);
        }
        let is_like = |draft: &&KernelDraft| draft.pattern() == pattern.pattern();
        let chosen: Vec<&KernelDraft> = chosen.iter().filter(is_like).collect();
        made.extend(of_pattern(&chosen, (&asked, &priorities), lookup, source));
    }
    made
}

/// A question with lookup's answer.
#[derive(Clone)]
struct Asked<'a> {
    question: Question,
    answer: Answer<'a>,
    /// The answer's time by lookup's predictions, if it has them.
    forecast: Option<f64>,
}

impl<'a> Asked<'a> {
    fn new(question: Question, lookup: &'a Lookup) -> Option<Self> {
        let answer = lookup.answer(&question).ok()?;
        let forecast = lookup.forecast((&answer.family.name, answer.configuration), &question);
        Some(Self { question, answer, forecast: forecast.map(|time| time.0) })
    }

    /// Answers questions that differ in the memory for workspaces alone: where the first answer needs none, it is that of
    /// the others too.
    fn of_alike(
        questions: &[(Question, Priority)],
        lookup: &'a Lookup,
        device: &Device,
    ) -> Vec<(Self, Priority)> {
        let mut asked: Vec<(Self, Priority)> = Vec::new();
        for (question, priority) in questions {
            let first = asked.first().filter(|(first, _)| {
                first.question.workspace == Question::ANY && first.needs_no_workspace(device)
            });
            let own = match first {
                Some((first, _)) => Some(Self { question: *question, ..first.clone() }),
                None => Self::new(*question, lookup),
            };
            asked.extend(own.map(|own| (own, *priority)));
        }
        asked
    }

    fn needs_no_workspace(&self, device: &Device) -> bool {
        let (Answer { family, configuration, .. }, Question { problem, storage, .. }) =
            (&self.answer, &self.question);
        let sizes = WorkspaceSizes::of(family, configuration, problem, device);
        sizes.bytes(&Extents::new(problem, storage)) == Some(0)
    }

    /// The kernel of the answer, if it serves shapes around too.
    fn draft(&self, source: ExportSource<'_>) -> Option<KernelDraft> {
        let Self { question, answer, .. } = self;
        let configuration = answer.configuration.clone();
        let draft = KernelDraft::new(answer.family, configuration, question, source).ok()?;
        if !draft.serves_around(question) {
            return None;
        }
        let occupancy = answer.record.filter(|_| answer.source != AnswerSource::Default);
        let occupancy = occupancy.and_then(|record| record.resources.occupancy);
        let expectation = answer.predicted.map(|time| {
            let kernel = (answer.family, answer.configuration);
            time_formula(kernel, &question.problem, (source.device, occupancy), time)
        });
        let expectation = expectation.unwrap_or(draft.expectation);
        Some(KernelDraft { expectation, ..draft })
    }

    /// The logarithm of a kernel's time over the answer's, at least 0: by lookup's predictions where it has them, else
    /// by the times that programs compare.
    fn loss(&self, draft: &KernelDraft, predicted: Option<Micros>, sms: u32) -> Option<f64> {
        let Problem { shape, batch, .. } = self.question.problem;
        let by_formula = || draft.expectation.cautious_us(&shape, batch, sms);
        let (time, best) = match (self.forecast, self.answer.predicted) {
            (Some(best), _) => (predicted?.0, best),
            (None, Some(best)) => (by_formula(), best.0),
            // Any kernel will do.
            (None, None) => return Some(0.0),
        };
        Some((time / best).ln().max(0.0))
    }
}

/// The questions that each kernel serves, by their places, with the kernel's predicted time if there is one. It is a coarse
/// prediction where that is far above the least of these kernels.
pub(super) fn predictions(
    drafts: &[&KernelDraft],
    questions: &[Question],
    lookup: &Lookup,
) -> Vec<Vec<(usize, Option<Micros>)>> {
    let times = |draft: &KernelDraft, places: &[usize], precision: Precision| {
        let questions: Vec<Question> = places.iter().map(|at| questions[*at]).collect();
        lookup.forecasts((&draft.family, &draft.configuration), &questions, precision)
    };
    let coarse = |(draft, places): (&&KernelDraft, Vec<usize>)| -> Vec<(usize, Option<Micros>)> {
        let times = times(draft, &places, Precision::Coarse);
        places.into_iter().zip(times).collect()
    };
    let mut all: Vec<Vec<(usize, Option<Micros>)>> =
        drafts.par_iter().zip(served(drafts, questions)).map(coarse).collect();
    let mut least = vec![f64::INFINITY; questions.len()];
    for (at, time) in all.iter().flatten() {
        least[*at] = time.map_or(f64::INFINITY, |time| time.0).min(least[*at]);
    }
    all.par_iter_mut().zip(drafts).for_each(|(all, draft)| {
        let is_near = |(at, time): &(usize, Option<Micros>)| {
            time.is_some_and(|time| time.0 < FAR * least[*at])
        };
        let mut near: Vec<&mut (usize, Option<Micros>)> =
            all.iter_mut().filter(|one| is_near(one)).collect();
        let places: Vec<usize> = near.iter().map(|(at, _)| *at).collect();
        let full = times(draft, &places, Precision::Full);
        near.iter_mut().zip(full).for_each(|(one, time)| one.1 = time);
    });
    all
}

/// The questions that each kernel serves, by their places, with the kernel's loss.
fn losses(
    drafts: &[&KernelDraft],
    asked: &[Asked<'_>],
    lookup: &Lookup,
    sms: u32,
) -> Vec<ServedCases> {
    let questions: Vec<Question> = asked.iter().map(|asked| asked.question).collect();
    let times = predictions(drafts, &questions, lookup);
    let of_draft = |(draft, times): (&&KernelDraft, Vec<(usize, Option<Micros>)>)| {
        let loss = |(at, time): (usize, _)| Some((at, asked[at].loss(draft, time, sms)?));
        times.into_iter().filter_map(loss).collect()
    };
    drafts.iter().zip(times).map(of_draft).collect()
}

/// Selects the kernels of a pattern: of lookup's answers to questions, those that lower the weighted loss of all most.
fn of_pattern(
    chosen: &[&KernelDraft],
    (asked, priorities): (&[Asked<'_>], &[Priority]),
    lookup: &Lookup,
    source: ExportSource<'_>,
) -> Vec<KernelDraft> {
    let sms = source.device.sms;
    let drafts: Vec<Option<KernelDraft>> =
        asked.par_iter().map(|asked| asked.draft(source)).collect();
    let mut known: HashSet<Arc<str>> =
        chosen.iter().map(|draft| Arc::clone(&draft.source)).collect();
    let is_new = |draft: &KernelDraft| known.insert(Arc::clone(&draft.source));
    let drafts: Vec<KernelDraft> = drafts.into_iter().flatten().filter(is_new).collect();
    let mut least = vec![f64::INFINITY; asked.len()];
    for (at, loss) in losses(chosen, asked, lookup, sms).into_iter().flatten() {
        least[at] = least[at].min(loss);
    }
    let all: Vec<&KernelDraft> = drafts.iter().collect();
    let added = added(least, priorities, &losses(&all, asked, lookup, sms), LEAST_GAIN);
    let most = source.max_kernels.unwrap_or(usize::MAX);
    added.into_iter().take(most).map(|candidate| drafts[candidate].clone()).collect()
}

/// Makes drafts of the kernels of a dispatch set, each with variants for all kinds of shapes and
/// operands, and of lookup's answers those that lower the loss most. Also returns the tree, whose
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
