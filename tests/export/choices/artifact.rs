//! Artifacts of the shipped records, without machine code: kernels of every layout for any shape, and a dispatch
//! set.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use gemm_tune::database::{Database, Record};
use gemm_tune::dispatch::{CoverGoal, Dispatch, DispatchKernel, TimeTable};
use gemm_tune::export::{
    self, Artifact, ExportSource, ExportedKernel, KernelDraft, for_any_shape, of_dispatch,
};
use gemm_tune::lookup::Lookup;
use gemm_tune::model::{Device, Dtype, GemmType, Layout, Problem, Regime, Shape};
use gemm_tune::predict::{LearnedModel, Predictor};
use gemm_tune::render::Templates;
use gemm_tune::space::{Families, Family};

use super::record::image;

/// Records of a layout that an artifact has.
const RECORDS: usize = 18;

/// Kernels of other types, with epilogues, tensor maps and a programmatic dependent launch: family; dtypes of A, B and D and compute type; epilogue.
const TYPED: [(&str, &str, &str); 13] = [
    ("mma", "bf16 bf16 bf16 bf16", ""),
    ("mma", "bf16 bf16 f32 bf16", "bias,gelu"),
    ("mma", "f16 f16 f16 f16", "residual,relu"),
    ("mma", "f32 f32 f32 tf32", "row-scale,col-scale"),
    ("mma", "i8 i8 i32 i8", "bias,relu"),
    ("mma", "i8 i8 bf16 i8", "row-scale,col-scale,mul"),
    ("wgmma", "bf16 bf16 bf16 bf16", ""),
    ("wgmma", "f16 f16 f32 f16", "bias,residual"),
    ("wgmma", "f32 f32 f32 tf32", "silu,mul"),
    ("naive", "f32 f32 f32 f32", "bias,silu,mul"),
    ("naive", "i32 i32 i32 i32", "bias"),
    ("tma", "f32 f32 f32 f32", ""),
    ("dependent", "f32 f32 f32 f32", ""),
];

/// Kernels for any shape that an artifact has of each of these types at most.
const MOST_TYPED: usize = 60;

/// What answers are made of.
pub(in crate::export) struct Known {
    pub(in crate::export) families: Vec<Family>,
    pub(in crate::export) templates: Templates,
    pub(in crate::export) device: Device,
    pub(in crate::export) records: Vec<Record>,
    pub(in crate::export) lookup: Lookup,
}

impl Known {
    /// The shipped records of an H200 and its learned model.
    pub(in crate::export) fn shipped() -> &'static Self {
        static KNOWN: OnceLock<Known> = OnceLock::new();
        KNOWN.get_or_init(|| {
            let device = Device::h200();
            let families: Vec<Family> = Families::built_in().unwrap().iter().cloned().collect();
            let templates = Templates::built_in().unwrap();
            let database = Database::load_existing(Path::new("results/nvidia-h200.toml")).unwrap();
            let learned = LearnedModel::built_in(&device).unwrap();
            let (predictor, _) = Predictor::new(learned, &families, &templates);
            let records = database.records().to_vec();
            let lookup = Lookup::new(&records, &families, &templates, &device, Regime::default());
            let lookup = lookup.with_predictor(predictor);
            // No answer is of this family: its kernels are exported as if one had won.
            let mut families = families;
            let dependent = Families::from_folder(Path::new("tests/faulty/spaces")).unwrap();
            families.push(dependent.get("dependent").unwrap().clone());
            let templates = Templates::with_folder(Path::new("tests/faulty/templates")).unwrap();
            Self { families, templates, device, records, lookup }
        })
    }

    pub(in crate::export) fn source(&self) -> ExportSource<'_> {
        ExportSource {
            families: &self.families,
            templates: &self.templates,
            changed_templates: true,
            device: &self.device,
            others: &[],
            max_kernels: None,
        }
    }

    fn of_layout(&self, layout: Layout) -> Vec<&Record> {
        let own = |record: &&Record| {
            (record.problem.pattern.layout.as_str(), record.problem.batch) == (layout.name(), 1)
        };
        let all: Vec<&Record> = self.records.iter().filter(own).collect();
        let step = all.len().div_ceil(RECORDS);
        all.into_iter().step_by(step).collect()
    }

    /// The kernels of a layout: some winners, and those for any shape.
    pub(in crate::export) fn kernels(&self, layout: Layout) -> &'static [KernelDraft] {
        static DRAFTS: [OnceLock<Vec<KernelDraft>>; 4] = [const { OnceLock::new() }; 4];
        DRAFTS[layout as usize].get_or_init(|| {
            let own = self.of_layout(layout).into_iter();
            let own = own.map(|record| KernelDraft::of_record(record, self.source()).unwrap());
            let mut drafts: Vec<KernelDraft> = own.collect();
            for_any_shape(&mut drafts, &self.lookup, self.source(), &mut |_, _| ());
            drafts
        })
    }

    /// Kernels of other types, layouts and epilogues: the default of a family as if it had won, and those for any
    /// shape.
    fn typed_kernels(&self) -> &'static [KernelDraft] {
        static DRAFTS: OnceLock<Vec<KernelDraft>> = OnceLock::new();
        DRAFTS.get_or_init(|| self.typed_drafts())
    }

    fn typed_drafts(&self) -> Vec<KernelDraft> {
        let made = TYPED.into_iter().enumerate().map(|(number, (family, types, epilogue))| {
            let types: Vec<&str> = types.split(' ').collect();
            let [a, b, d, compute] = types[..] else { panic!("{types:?}") };
            let [a, b, d] = [a, b, d].map(|dtype| dtype.parse::<Dtype>().unwrap());
            let types = GemmType { a, b, d, compute: compute.parse().unwrap() }.check().unwrap();
            let layout = if types.a == Dtype::I8 { Layout::Nt } else { Layout::ALL[number % 4] };
            // Most of wgmma takes B as it lies only with K contiguous.
            let layout = if family == "wgmma" { Layout::Nt } else { layout };
            let shape = Shape { m: 256, n: 192, k: 128 };
            let epilogue = epilogue.parse().unwrap();
            let problem = Problem { shape, batch: 1, types, layout, epilogue };
            let own = self.families.iter().find(|own| own.name == family).unwrap();
            let mut record = self.records[0].clone();
            record.problem = (&problem).into();
            record.family = family.to_owned();
            record.parameters = own.default().0.clone();
            KernelDraft::of_record(&record, self.source()).unwrap()
        });
        let mut drafts: Vec<KernelDraft> = made.collect();
        // Programs choose among these as among the thousands that there are without a limit.
        let source = ExportSource { max_kernels: Some(MOST_TYPED), ..self.source() };
        for_any_shape(&mut drafts, &self.lookup, source, &mut |_, _| ());
        drafts
    }

    /// A dispatch set of three winners, by made-up times: the first is best for few rows, the second for few columns,
    /// the third elsewhere.
    fn dispatch_set(&self) -> (Vec<KernelDraft>, gemm_tune::dispatch::DispatchNode) {
        let records = self.of_layout(Layout::Nn);
        let mut kernels: Vec<DispatchKernel> = Vec::new();
        for record in records.iter().filter(|record| record.family == "pipelined") {
            let Record { family, parameters, .. } = record;
            let kernel = DispatchKernel { family: family.clone(), parameters: parameters.clone() };
            if !kernels.contains(&kernel) && kernels.len() < 3 {
                kernels.push(kernel);
            }
        }
        let extents = [64, 128, 512, 1024, 4096];
        let shapes = extents.iter().flat_map(|m| extents.map(|n| Shape { m: *m, n, k: 512 }));
        let shapes: Vec<Shape> = shapes.collect();
        let best = |shape: &Shape| [shape.m < 300, shape.n < 300, true].iter().position(|is| *is);
        let times = |shape: &Shape| {
            let best = best(shape);
            (0..3).map(|place| Some(if best == Some(place) { 5.0 } else { 9.0 })).collect()
        };
        let problem = &records[0].problem;
        let table = TimeTable {
            schema: 1,
            device: self.device.name.clone(),
            dtype: problem.pattern.dtype.clone(),
            b_dtype: None,
            out: None,
            compute: problem.pattern.compute.clone(),
            layout: problem.pattern.layout.clone(),
            epilogue: None,
            times_us: shapes.iter().map(times).collect(),
            shapes,
            kernels,
        };
        let dispatch = Dispatch::of(&table, CoverGoal { max_kernels: 3, loss: 0.01 }).unwrap();
        let all: Vec<&Record> =
            self.records.iter().filter(|record| record.problem.batch == 1).collect();
        let (drafts, tree, left_out) = of_dispatch(&dispatch, &all, &self.lookup, self.source());
        assert_eq!(left_out, []);
        (drafts, tree)
    }
}

/// Which artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Winners,
    Dispatch,
    /// As the winners; in folders of their own.
    Small,
    Faults,
    Measured,
    /// Kernels of other types and with epilogues, `naive` for f32 and those of tensor cores.
    Types,
    SmallTypes,
    Operators,
}

/// An artifact in a folder in each form.
pub(super) struct Exported {
    pub(super) kernels: Vec<ExportedKernel>,
    pub(super) folder: PathBuf,
    /// The problems that its kernels were tuned for.
    pub(super) tuned: Vec<Problem>,
}

impl Exported {
    /// Makes it below `target/`.
    pub(super) fn new(kind: Kind) -> Self {
        let known = Known::shipped();
        let (drafts, tree) = match kind {
            Kind::Winners | Kind::Small | Kind::Faults | Kind::Measured => {
                let all = Layout::ALL.iter().flat_map(|layout| known.kernels(*layout));
                (all.cloned().collect(), None)
            }
            Kind::Types | Kind::SmallTypes | Kind::Operators => {
                (known.typed_kernels().to_vec(), None)
            }
            Kind::Dispatch => {
                let (drafts, tree) = known.dispatch_set();
                (drafts, Some(tree))
            }
        };
        let tuned = drafts.iter().filter(|draft: &&KernelDraft| draft.record.is_some());
        let tuned: Vec<Problem> = tuned.map(|draft| draft.problem).collect();
        let kernels: Vec<ExportedKernel> = drafts.into_iter().map(exported).collect();
        let artifact = Artifact { device: known.device.clone(), kernels, tree, libraries: None };
        let folder = Path::new("target/test-artifacts/choices").join(format!("{kind:?}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let (c, left_out) = export::python(&artifact, &["sm_90".parse().unwrap()]);
        assert!(left_out.is_empty(), "{left_out:?}");
        let c = c.into_iter().map(|(name, text)| (name, text.into_bytes()));
        for (name, bytes) in c.chain(export::bundle(&artifact)) {
            fs::write(folder.join(name), bytes).unwrap();
        }
        Self { kernels: artifact.kernels, folder, tuned }
    }
}

pub(super) fn exported(draft: KernelDraft) -> ExportedKernel {
    let image = image(&draft);
    let cubins = BTreeMap::from([("sm_90".to_owned(), Arc::clone(&image))]);
    ExportedKernel { ptx: image, cubins, draft }
}
