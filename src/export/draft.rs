//! A kernel to export: its source, its launches and the conditions under which it serves a problem.

use std::sync::Arc;

use thiserror::Error;

use crate::database::{Record, UnknownPattern};
use crate::lookup::Question;
use crate::model::{
    Configuration, Device, LaunchPlan, Micros, Problem, ProblemPattern, Shape, Storage,
};
use crate::predict::{TimeFormula, time_formula};
use crate::render::{RenderError, Templates, render_stored};
use crate::space::formula::{Bound, OPEN, Solver, open_values};
use crate::space::{Family, Legality, OutdatedConfiguration};

/// Time of a kernel without a measurement and without a prediction.
const UNKNOWN: Micros = Micros(1e6);

/// A kernel to export.
#[derive(Debug, Clone)]
pub struct KernelDraft {
    /// The problem that it was made for.
    pub problem: Problem,
    /// The record whose winner it is; `None` for a kernel for other shapes.
    pub record: Option<Record>,
    /// Whether the template has changed since the record was made: then the recorded measurement is
    /// of another kernel.
    pub changed: bool,
    /// Its family.
    pub family: String,
    /// Its parameters.
    pub configuration: Configuration,
    /// CUDA C++ source that needs no header.
    pub source: Arc<str>,
    /// Its launches for `problem`.
    pub plan: LaunchPlan,
    /// The conditions for problems that it serves, and its launches for them.
    pub bound: Bound,
    /// Its predicted times for them.
    pub expectation: TimeFormula,
}

/// Reasons why a kernel cannot be exported.
#[derive(Debug, Error)]
pub enum DraftError {
    /// The record has a word of a later version.
    #[error(transparent)]
    Pattern(#[from] UnknownPattern),
    /// No family has its name.
    #[error("there is no family `{0}`")]
    NoFamily(String),
    /// Its family no longer has this kernel.
    #[error(transparent)]
    Outdated(#[from] OutdatedConfiguration),
    /// Its template has changed since it was tuned: the recorded time is of another kernel.
    #[error(
        "the template of `{0}` has changed since the record was made: tune it again, or export the current one with `--changed-templates`"
    )]
    Changed(String),
    /// Its configuration is not legal any more.
    #[error("its configuration is no longer legal")]
    Illegal,
    /// It cannot run on an architecture that is exported for.
    #[error("{why} ({architecture})")]
    Unsupported {
        /// What the architecture lacks.
        why: String,
        /// Its name, such as `sm_89`.
        architecture: String,
    },
    /// It cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
}

/// What kernels are exported from, and for which devices.
#[derive(Debug, Clone, Copy)]
pub struct ExportSource<'a> {
    /// The families.
    pub families: &'a [Family],
    /// Their templates.
    pub templates: &'a Templates,
    /// Whether winners with changed templates are exported.
    pub changed_templates: bool,
    /// The device that the kernels are for.
    pub device: &'a Device,
    /// Devices of other architectures that they must run on too, named as the architectures are.
    pub others: &'a [Device],
    /// Most kernels for untuned shapes, of each GEMM type and layout; `None`: as many as pay.
    pub max_kernels: Option<usize>,
}

/// What a device lacks for a configuration; `None` where it can run it.
fn unsupported(
    family: &Family,
    configuration: &Configuration,
    problem: &Problem,
    device: &Device,
) -> Result<Option<String>, DraftError> {
    if let Some(needed) = family.lacks(device) {
        return Ok(Some(format!("needs compute capability {needed}")));
    }
    let broken = family.forbidden(configuration, problem, device);
    let broken = broken.map_err(|error| DraftError::Render(RenderError::from(error)))?;
    Ok(broken.map(|constraint| constraint.because.clone()))
}

impl KernelDraft {
    /// Makes a draft of the winner of a record.
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
        let configuration = family.completed(record.configuration())?;
        let expectation = time_formula(
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
        let Question { problem, storage, .. } = question;
        let ExportSource { templates, device, .. } = source;
        let legality = Legality::of(family, &configuration, problem, device);
        let extents = crate::space::Extents::new(problem, storage);
        if !legality.is_some_and(|legality| legality.permits(family, &extents)) {
            return Err(DraftError::Illegal);
        }
        for other in source.others {
            if let Some(why) = unsupported(family, &configuration, problem, other)? {
                return Err(DraftError::Unsupported { why, architecture: other.name.clone() });
            }
        }
        let rendered = render_stored(family, templates, &configuration, problem, storage, device)?;
        let open = open_values(problem, storage);
        let names = templates.names_used(family)?;
        let solver = Solver::new(family, &configuration, problem, device);
        let bound = solver.bound(problem, &open, &names);
        let mut bound = bound.unwrap_or_else(|| Bound::only(&open, &rendered.plan));
        if rendered.plan.nondeterministic {
            // A non-deterministic kernel serves only its own problem, because callers with other
            // shapes did not allow it.
            bound = bound.of_one_problem(&open);
        }
        // Without a record, a very long time: the kernel is used only where no other one serves.
        let expectation = time_formula((family, &configuration), problem, (device, None), UNKNOWN);
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

    /// The types and layout that served problems share with its own.
    pub fn pattern(&self) -> ProblemPattern {
        self.problem.pattern()
    }

    /// Whether it serves a question.
    pub fn serves(&self, question: &Question) -> bool {
        let open = open_values(&question.problem, &question.storage);
        self.pattern() == question.problem.pattern()
            && self.bound.serves(&open)
            && self.has_room(question, &open)
    }

    /// Whether the workspaces of a question that it serves fit into the memory for them.
    pub(super) fn has_room(&self, question: &Question, open: &[i64; OPEN.len()]) -> bool {
        question.workspace == Question::ANY
            || self.workspace_bytes(open).is_some_and(|bytes| bytes <= question.workspace)
    }

    /// Bytes of its workspaces for a problem that it serves, each aligned.
    fn workspace_bytes(&self, open: &[i64; OPEN.len()]) -> Option<u64> {
        let sizes = self.bound.workspaces.iter().map(|(_, formula)| {
            let bytes = u64::try_from(formula.value(open)?).ok()?;
            bytes.checked_next_multiple_of(Storage::ALLOCATED)
        });
        sizes.sum()
    }

    /// Whether it serves every shape and storage; batches may have conditions.
    pub(super) fn serves_everything(&self) -> bool {
        self.bound.serves.iter().all(|condition| {
            let [m, n, k, _, lda, ldb, ldc] = condition.reads();
            ![m, n, k, lda, ldb, ldc].contains(&true)
        })
    }

    /// Whether it serves most of the longer or most of the shorter shapes near one that it serves. The
    /// code of some families depends so much on the shape that it serves no others.
    pub(super) fn serves_around(&self, question: &Question) -> bool {
        // By a quarter, with rows aligned as they are.
        let longer = |extent: u64| (extent * 5 / 4).next_multiple_of(8) + extent % 8;
        let shorter = |extent: u64| extent * 3 / 4 / 8 * 8 + extent % 8;
        self.serves_most(question, longer) || self.serves_most(question, shorter)
    }

    /// Whether it serves most of the shapes that differ from one in an extent, or in all. Rows are padded
    /// as they are.
    fn serves_most(&self, question: &Question, other: impl Fn(u64) -> u64) -> bool {
        let Shape { m, n, k } = question.problem.shape;
        let other = |extent: u64| if extent < 16 { extent } else { other(extent) };
        let beside = [
            Shape { m: other(m), n, k },
            Shape { m, n: other(n), k },
            Shape { m, n, k: other(k) },
            Shape { m: other(m), n: other(n), k: other(k) },
        ];
        let (own, packed) = (question.storage, Storage::packed(&question.problem));
        let pads = [own.lda - packed.lda, own.ldb - packed.ldb, own.ldc - packed.ldc];
        let served = beside.into_iter().filter(|shape| {
            let problem = Problem { shape: *shape, ..question.problem };
            let Storage { lda, ldb, ldc, .. } = Storage::packed(&problem);
            let [lda, ldb, ldc] = [lda + pads[0], ldb + pads[1], ldc + pads[2]];
            let storage = Storage { lda, ldb, ldc, ..own };
            self.serves(&Question { problem, storage, ..*question })
        });
        served.count() >= 3
    }

    /// Name for files and symbols: `gemm_f32_nn_4096x4096x1024`; `_any` marks a kernel for shapes
    /// around that one.
    pub fn name(&self) -> String {
        let Problem { shape, batch, .. } = self.problem;
        let pattern = self.pattern().identifier();
        let batch = if batch == 1 { String::new() } else { format!("x{batch}") };
        let any = if self.record.is_some() { "" } else { "_any" };
        format!("gemm_{pattern}_{shape}{batch}{any}")
    }

    /// Its name, with a remark for readers of an artifact.
    pub(super) fn remark(&self) -> String {
        let bits = if self.plan.nondeterministic {
            ": not deterministic, two runs on the same values may differ in their last bits"
        } else {
            ""
        };
        format!("{}{bits}", self.name())
    }
}
