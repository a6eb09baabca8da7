//! A kernel to export: its source, its launches and the conditions under which it serves a problem.

use std::sync::Arc;

use thiserror::Error;

use crate::database::Record;
use crate::lookup::{Expectation, Question};
use crate::model::{
    Compute, Configuration, Device, Dtype, LaunchPlan, Layout, Micros, Problem, Shape, Storage,
};
use crate::render::{RenderError, Templates, render_stored};
use crate::space::formula::{Bound, Solver, open_values};
use crate::space::{Family, Legality};

/// The time of a kernel that was never measured and of which nothing is expected.
const UNKNOWN: Micros = Micros(1e6);

/// A kernel to ship.
#[derive(Debug, Clone)]
pub struct KernelDraft {
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
pub enum DraftError {
    /// The record has a word of a later version.
    #[error(transparent)]
    Word(#[from] crate::model::problem::UnknownWord),
    /// Its family is gone.
    #[error("no family is named `{0}`")]
    NoFamily(String),
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
pub struct ExportSource<'a> {
    /// The families.
    pub families: &'a [Family],
    /// Their templates.
    pub templates: &'a Templates,
    /// Whether winners are taken whose template has changed since.
    pub changed_templates: bool,
    /// What the kernels are for.
    pub device: &'a Device,
}

impl KernelDraft {
    /// The winner of a record.
    ///
    /// # Errors
    /// [`DraftError`].
    pub fn of_record(record: &Record, source: ExportSource<'_>) -> Result<Self, DraftError> {
        let problem = Problem::try_from(&record.problem)?;
        let family = source.families.iter().find(|family| family.name == record.family);
        let family = family.ok_or_else(|| DraftError::NoFamily(record.family.clone()))?;
        let changed = source.templates.hash(family) != record.provenance.template_hash;
        if changed && !source.changed_templates {
            return Err(DraftError::Changed(record.family.clone()));
        }
        let configuration = family.completed(record.configuration());
        let expectation = Expectation::of(
            (family, &configuration),
            &problem,
            (source.device, record.resources.occupancy),
            record.median(),
        );
        let draft = Self::new(family, configuration, &Question::packed(problem), source)?;
        Ok(Self { record: Some(record.clone()), changed, expectation, ..draft })
    }

    pub(super) fn new(
        family: &Family,
        configuration: Configuration,
        question: &Question,
        source: ExportSource<'_>,
    ) -> Result<Self, DraftError> {
        let Question { problem, storage } = question;
        let ExportSource { templates, device, .. } = source;
        let legality = Legality::of(family, &configuration, problem, device);
        let mut extents = crate::space::Extents::new(problem, storage);
        if !legality.is_some_and(|legality| legality.permits(family, &mut extents)) {
            return Err(DraftError::Illegal);
        }
        let rendered = render_stored(family, templates, &configuration, problem, storage, device)?;
        if !rendered.plan.tensor_maps.is_empty() {
            return Err(DraftError::TensorMaps);
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
    pub(super) fn serves_everything(&self) -> bool {
        self.bound.serves.iter().all(|condition| {
            let [m, n, k, _, lda, ldb, ldc] = condition.reads();
            ![m, n, k, lda, ldb, ldc].contains(&true)
        })
    }

    /// Whether it serves most shapes beside one that it serves: the code of some families hangs on
    /// the shape so much that it is good for nothing else.
    pub(super) fn serves_around(&self, question: &Question) -> bool {
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
