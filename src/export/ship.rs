//! Which kernels go into an artifact that another program runs, and all that it needs for that:
//! source, launches, conditions and formulas for other problems, expected times. Nothing is compiled
//! here.

use std::sync::Arc;

use thiserror::Error;

use crate::database::Record;
use crate::dispatch::{Dispatch, Node};
use crate::lookup::{Expectation, Lookup, Question, Rung};
use crate::model::{
    Compute, Configuration, Device, Dtype, LaunchPlan, Layout, Micros, Problem, Shape, Storage,
};
use crate::render::{RenderError, Templates, render_stored};
use crate::space::formula::{Bound, Solver, open_values};
use crate::space::{Family, Legality, Outdated};

/// Extents of the problems that lookup is asked about for kernels that serve any shape: one or a few
/// rows, less than a tile, a few tiles, many.
const PROBES: [u64; 4] = [1, 96, 1000, 5000];

/// A kernel that was chosen already serves a problem where no more than this is expected of it, over
/// the time of the best.
const GOOD_ENOUGH: f64 = 1.1;

/// The time of a kernel that was never measured and of which nothing is expected.
const UNKNOWN: Micros = Micros(1e6);

/// A kernel to ship.
#[derive(Debug, Clone)]
pub struct Draft {
    /// What it was made for.
    pub problem: Problem,
    /// The record whose winner it is; `None` for one that serves other shapes.
    pub record: Option<Record>,
    /// Whether the template is another one by now: then what the record measured is another kernel.
    pub changed: bool,
    /// Its family.
    pub family: String,
    /// Its parameters.
    pub configuration: Configuration,
    /// CUDA C++ that needs no header.
    pub source: Arc<str>,
    /// Its launches for `problem`.
    pub plan: LaunchPlan,
    /// For which problems it is right, and how it is launched for them.
    pub bound: Bound,
    /// What it is expected to take for them.
    pub expectation: Expectation,
}

/// Why a winner cannot be shipped.
#[derive(Debug, Error)]
pub enum ShipError {
    /// The record has a word of a later version.
    #[error(transparent)]
    Word(#[from] crate::model::problem::UnknownWord),
    /// Its family is gone.
    #[error("no family is named `{0}`")]
    NoFamily(String),
    /// Its family has no such kernel any more.
    #[error(transparent)]
    Outdated(#[from] Outdated),
    /// A kernel of a dispatch set whose record is gone.
    #[error("no record has the kernel of `{0}` that the dispatch set has: choose the set anew")]
    NoRecord(String),
    /// Its template is not the one that it was tuned with: its time would be another kernel's.
    #[error(
        "the template of `{0}` has changed since: tune it again, or take it as it is now with `--changed-templates`"
    )]
    Changed(String),
    /// It is not legal any more.
    #[error("its configuration is not legal any more")]
    Illegal,
    /// It is passed tensor maps, which hang on addresses.
    #[error(
        "its kernels take tensor maps, which no artifact encodes yet: export a configuration without"
    )]
    TensorMaps,
    /// It has no source or launches.
    #[error(transparent)]
    Render(#[from] RenderError),
}

/// Where kernels come from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The families.
    pub families: &'a [Family],
    /// Their templates.
    pub templates: &'a Templates,
    /// Whether winners are taken whose template has changed since.
    pub changed_templates: bool,
    /// What the kernels are for.
    pub device: &'a Device,
}

impl Draft {
    /// The winner of a record.
    ///
    /// # Errors
    /// [`ShipError`].
    pub fn of_record(record: &Record, source: Source<'_>) -> Result<Self, ShipError> {
        let problem = Problem::try_from(&record.problem)?;
        let family = source.families.iter().find(|family| family.name == record.family);
        let family = family.ok_or_else(|| ShipError::NoFamily(record.family.clone()))?;
        let changed = source.templates.hash(family) != record.provenance.template_hash;
        if changed && !source.changed_templates {
            return Err(ShipError::Changed(record.family.clone()));
        }
        let configuration = family.completed(record.configuration())?;
        let expectation = Expectation::of(
            (family, &configuration),
            &problem,
            (source.device, record.resources.occupancy),
            record.median(),
        );
        let draft = Self::new(family, configuration, &Question::packed(problem), source)?;
        Ok(Self { record: Some(record.clone()), changed, expectation, ..draft })
    }

    fn new(
        family: &Family,
        configuration: Configuration,
        question: &Question,
        source: Source<'_>,
    ) -> Result<Self, ShipError> {
        let Question { problem, storage } = question;
        let Source { templates, device, .. } = source;
        let legality = Legality::of(family, &configuration, problem, device);
        let mut extents = crate::space::Extents::new(problem, storage);
        if !legality.is_some_and(|legality| legality.permits(family, &mut extents)) {
            return Err(ShipError::Illegal);
        }
        let rendered = render_stored(family, templates, &configuration, problem, storage, device)?;
        if !rendered.plan.tensor_maps.is_empty() {
            return Err(ShipError::TensorMaps);
        }
        let open = open_values(problem, storage);
        let names = templates.names_used(family)?;
        let solver = Solver::new(family, &configuration, problem, device);
        let bound = solver.bound(problem, &open, &names);
        let mut bound = bound.unwrap_or_else(|| Bound::only(&open, &rendered.plan));
        if rendered.plan.nondeterministic {
            // Who asks for another shape did not choose a kernel with other bits in each run.
            bound = bound.of_one_problem(&open);
        }
        // A time of no record: as slow as can be, so that only what else serves nothing uses it.
        let expectation =
            Expectation::of((family, &configuration), problem, (device, None), UNKNOWN);
        Ok(Self {
            problem: *problem,
            record: None,
            changed: false,
            family: family.name.clone(),
            source: rendered.source.into(),
            bound,
            plan: rendered.plan,
            expectation,
            configuration,
        })
    }

    /// What its problem has in common with those that it may serve.
    pub fn pattern(&self) -> (Dtype, Compute, Layout) {
        (self.problem.dtype, self.problem.compute, self.problem.layout)
    }

    /// Whether it is right for a question.
    pub fn serves(&self, question: &Question) -> bool {
        let Problem { dtype, compute, layout, .. } = question.problem;
        self.pattern() == (dtype, compute, layout)
            && self.bound.serves(&open_values(&question.problem, &question.storage))
    }

    /// Whether it serves every shape, however it is stored; batches may have conditions.
    fn serves_everything(&self) -> bool {
        self.bound.serves.iter().all(|condition| {
            let [m, n, k, _, lda, ldb, ldc] = condition.reads();
            ![m, n, k, lda, ldb, ldc].contains(&true)
        })
    }

    /// Whether it serves most shapes beside one that it serves: the code of some families hangs on
    /// the shape so much that it is good for nothing else.
    fn serves_around(&self, question: &Question) -> bool {
        let Shape { m, n, k } = question.problem.shape;
        let more =
            |extent: u64| if extent < 16 { extent } else { (extent * 5 / 4).next_multiple_of(8) };
        let beside = [
            Shape { m: more(m), n, k },
            Shape { m, n: more(n), k },
            Shape { m, n, k: more(k) },
            Shape { m: more(m), n: more(n), k: more(k) },
        ];
        let served = beside.into_iter().filter(|shape| {
            let problem = Problem { shape: *shape, ..question.problem };
            let packed = Storage::packed(&problem);
            // Rows as well aligned as those of the question.
            let least = 1 << question.storage.row_alignment(&question.problem);
            let rows = |row: u64| if least == 1 { row | 1 } else { row.next_multiple_of(least) };
            let (lda, ldb, ldc) = (rows(packed.lda), rows(packed.ldb), rows(packed.ldc));
            let storage = Storage { lda, ldb, ldc, ..question.storage };
            self.serves(&Question { problem, storage })
        });
        served.count() >= 3
    }

    /// A name for files and symbols: `gemm_f32_nn_4096x4096x1024`, with `_any` where it was made to
    /// serve shapes around that one.
    pub fn name(&self) -> String {
        let Problem { shape, batch, dtype, compute, layout } = self.problem;
        let compute = if compute == dtype.default_compute() {
            String::new()
        } else {
            format!("_{}", compute.name().replace('-', "_"))
        };
        let batch = if batch == 1 { String::new() } else { format!("x{batch}") };
        let any = if self.record.is_some() { "" } else { "_any" };
        format!("gemm_{dtype}{compute}_{layout}_{shape}{batch}{any}")
    }

    /// Its name, and what a reader of an artifact has to know of it.
    pub(super) fn remark(&self) -> String {
        let bits = if self.plan.nondeterministic {
            ": not deterministic, two runs on the same values may differ in their last bits"
        } else {
            ""
        };
        format!("{}{bits}", self.name())
    }
}

/// The kernels that serve shapes which nobody tuned: what lookup answers for a lattice of shapes,
/// with rows that vectors fit and rows that they do not, where none of `chosen` is about as good.
pub fn for_any_shape(chosen: &[Draft], lookup: &Lookup, source: Source<'_>) -> Vec<Draft> {
    let mut patterns: Vec<Problem> = chosen.iter().map(|draft| draft.problem).collect();
    patterns.sort_unstable_by_key(|problem| (problem.dtype, problem.compute, problem.layout));
    patterns.dedup_by_key(|problem| (problem.dtype, problem.compute, problem.layout));
    let sms = source.device.sms;
    let mut made: Vec<Draft> = Vec::new();
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
        let draft = Draft::new(answer.family, configuration, &question, source);
        let Some(draft) = draft.ok().filter(|draft| draft.serves_around(&question)) else {
            continue;
        };
        let occupancy = answer.source.filter(|_| answer.rung != Rung::Default);
        let occupancy = occupancy.and_then(|record| record.resources.occupancy);
        let expectation = answer.predicted.map(|time| {
            let kernel = (answer.family, answer.configuration);
            Expectation::of(kernel, &question.problem, (source.device, occupancy), time)
        });
        made.push(Draft { expectation: expectation.unwrap_or(draft.expectation), ..draft });
    }
    for pattern in &patterns {
        let is_like = |draft: &&Draft| draft.pattern() == pattern_of(pattern);
        if !chosen.iter().chain(&made).filter(is_like).any(Draft::serves_everything) {
            made.extend(serving_everything(pattern, source));
        }
    }
    made
}

/// The kernels of a dispatch set, each with its code for all kinds of shapes and rows; and the tree, whose
/// answers are places among them.
///
/// # Errors
/// The kernel that no record of `records` is of.
pub fn of_dispatch(
    dispatch: &Dispatch,
    records: &[&Record],
    source: Source<'_>,
) -> Result<(Vec<Draft>, Node), ShipError> {
    let mut drafts: Vec<Draft> = Vec::new();
    let mut places: Vec<Vec<usize>> = Vec::new();
    for kernel in &dispatch.kernels {
        let is_its = |record: &&&Record| {
            let problem = &record.problem;
            (record.family.as_str(), &record.parameters) == (&kernel.family, &kernel.parameters)
                && (&problem.dtype, &problem.compute, &problem.layout)
                    == (&dispatch.dtype, &dispatch.compute, &dispatch.layout)
        };
        let own = records.iter().filter(is_its);
        let mut variants: Vec<Draft> =
            own.map(|record| Draft::of_record(record, source)).collect::<Result<_, _>>()?;
        let Some(first) = variants.first().cloned() else {
            return Err(ShipError::NoRecord(kernel.family.clone()));
        };
        let family = source.families.iter().find(|family| family.name == kernel.family);
        let family = family.ok_or_else(|| ShipError::NoFamily(kernel.family.clone()))?;
        for question in probes(&first.problem) {
            if variants.iter().any(|draft| draft.serves(&question)) {
                continue;
            }
            let made = Draft::new(family, first.configuration.clone(), &question, source);
            if let Some(draft) = made.ok().filter(|draft| draft.serves_around(&question)) {
                variants.push(Draft { expectation: first.expectation, ..draft });
            }
        }
        places.push((drafts.len()..drafts.len() + variants.len()).collect());
        drafts.extend(variants);
    }
    if !drafts.iter().any(Draft::serves_everything)
        && let Some(first) = drafts.first()
    {
        drafts.extend(serving_everything(&first.problem, source));
    }
    Ok((drafts, dispatch.tree.mapped(&|kernel| places.get(kernel).cloned().unwrap_or_default())))
}

/// The default without conditions of which the least is expected for a product of medium size.
fn serving_everything(pattern: &Problem, source: Source<'_>) -> Option<Draft> {
    let shape = Shape { m: 1000, n: 1000, k: 1000 };
    let question = Question::packed(Problem { shape, batch: 1, ..*pattern });
    let defaults = source.families.iter().flat_map(|family| {
        family.defaults(source.device).iter().map(move |configuration| (family, configuration))
    });
    let drafts = defaults.filter_map(|(family, configuration)| {
        let draft = Draft::new(family, configuration.clone(), &question, source).ok()?;
        draft.serves_everything().then_some(draft)
    });
    drafts.min_by(|a, b| a.expectation.own_clocks.total_cmp(&b.expectation.own_clocks))
}

fn pattern_of(problem: &Problem) -> (Dtype, Compute, Layout) {
    (problem.dtype, problem.compute, problem.layout)
}

/// The lattice: large products first, for they are the rarest to be served by what is there.
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
