//! One function for each parser of a file: any bytes are a value or an error, and a value can be used.
//! Called by `tests/fuzz.rs` on stable Rust and by `fuzz/fuzz_targets` under libFuzzer.

pub(crate) mod mutation;
mod words;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use gemm_tune::compile::Fingerprint;
use gemm_tune::cpu::{
    CountingMode, ExecutionChecks, GlobalMemory, KernelParameter, LaunchOptions, PtxLoadError,
    PtxModule, WriteTracking, launch,
};
use gemm_tune::database::{Database, SCHEMA};
use gemm_tune::dispatch::{CoverGoal, Dispatch, TimeTable};
use gemm_tune::export::{CHECKSUMS, MANIFEST, open_bundle, seal};
use gemm_tune::lookup::Question;
use gemm_tune::model::{Device, Dtype, Layout, Micros, Problem, Storage};
use gemm_tune::predict::{LearnedModel, Predictor};
use gemm_tune::render::{Templates, launches};
use gemm_tune::runtime::{Bundle, Catalogue as _};
use gemm_tune::session::{KernelTimes, Trace};
use gemm_tune::space::formula::Language;
use gemm_tune::space::{Families, Family, Formula};
use gemm_tune::tune::{Recorded, parse_recording};

/// A parser under test.
pub(crate) struct Target {
    /// Name, also of the folder of its corpus.
    pub(crate) name: &'static str,
    /// Takes any bytes.
    ///
    /// # Panics
    /// A fault of the parser.
    pub(crate) run: fn(&[u8]),
}

/// All of them.
pub(crate) const TARGETS: [Target; 12] = [
    Target { name: "database", run: database },
    Target { name: "journal", run: journal },
    Target { name: "recorded_space", run: recorded_space },
    Target { name: "learned_model", run: learned_model },
    Target { name: "bundle", run: bundle },
    Target { name: "family", run: family },
    Target { name: "expression", run: expression },
    Target { name: "shapes", run: shapes },
    Target { name: "times", run: times },
    Target { name: "trace", run: trace },
    Target { name: "elf", run: elf },
    Target { name: "ptx", run: ptx },
];

fn text(bytes: &[u8]) -> &str {
    // Files that are no text are refused before they are parsed.
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn problem(shape: &str) -> Problem {
    Problem::new(shape.parse().expect("a shape"), Dtype::F32)
}

/// What programs ask of kernels: small, ragged, large, transposed, batched.
fn problems() -> [Problem; 4] {
    [
        problem("64x64x64"),
        Problem { layout: Layout::Tn, ..problem("127x129x131") },
        Problem { batch: 3, ..problem("1x4096x7") },
        problem("2147479552x1x2147479552"),
    ]
}

fn database(bytes: &[u8]) {
    let name = Path::new("d.toml");
    match Database::parse(text(bytes), name) {
        Ok(database) => {
            for problem in problems() {
                let _ = database.find(&problem, &Device::h200(), Default::default());
            }
            let records: Vec<_> = database.records().iter().collect();
            let _ = gemm_tune::export::json(&records);
            let _ = gemm_tune::export::csv(&records);
        }
        Err(error) => assert!(error.to_string().contains("d.toml"), "{error} (schema {SCHEMA})"),
    }
}

fn journal(bytes: &[u8]) {
    if let Some(recorded) = Recorded::parse(text(bytes)) {
        let _ = format!("{} {}", recorded.problem, recorded.entries.len());
    }
}

fn recorded_space(bytes: &[u8]) {
    match parse_recording(bytes, Path::new("space")) {
        Ok(recording) => assert!(recording.failed() < recording.len()),
        Err(error) => assert!(error.to_string().starts_with("space:"), "{error}"),
    }
}

/// Families and templates of the program.
fn built_in() -> &'static (Vec<Family>, Templates) {
    static BUILT_IN: OnceLock<(Vec<Family>, Templates)> = OnceLock::new();
    BUILT_IN.get_or_init(|| {
        let families = Families::built_in().expect("tested");
        (families.iter().cloned().collect(), Templates::built_in().expect("tested"))
    })
}

/// `HASH` stands for the identity of the code of `naive`, so that the model is used.
fn learned_model(bytes: &[u8]) {
    let (families, templates) = built_in();
    let naive = families.iter().find(|family| family.name == "naive").expect("built in");
    let text = text(bytes).replace("HASH", &templates.hash(naive));
    let Ok(model) = LearnedModel::parse(&text) else { return };
    let device = Device::h200();
    let (predictor, _) = Predictor::new(model, families, templates);
    for problem in &problems()[..3] {
        for default in naive.defaults(&device) {
            let _ = predictor.time((naive, default), problem, &device);
        }
        if let Some(model) = predictor.model(naive, problem, &device) {
            let _ = model.kernels(naive).count();
        }
    }
}

/// A manifest with right checksums; or checksums, where the bytes begin with one.
fn bundle(bytes: &[u8]) {
    let mut files: BTreeMap<String, Vec<u8>> =
        ["k.cu", "k.ptx", "k.cubin"].map(|name| (name.to_owned(), Vec::new())).into();
    if bytes.get(..8).is_some_and(|first| first.iter().all(u8::is_ascii_hexdigit)) {
        files.insert(CHECKSUMS.to_owned(), bytes.to_vec());
    } else {
        files.insert(MANIFEST.to_owned(), bytes.to_vec());
        files = seal(files);
    }
    let read = |name: &str| {
        files.get(name).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    let Ok(bundle) = Bundle::read(read, &Device::h200()) else {
        assert!(open_bundle(read).is_err());
        return;
    };
    for problem in problems() {
        let storage = Storage::packed(&problem);
        let skewed = Storage { lda: storage.lda + 1, alignment: 4, ..storage };
        for storage in [storage, skewed] {
            if let Ok(chosen) = bundle.choose(&Question::new(problem, storage)) {
                bundle.code(&chosen).expect("every listed file is there");
            }
        }
    }
}

fn family(bytes: &[u8]) {
    match Family::parse("family.toml", text(bytes)) {
        Ok(family) => {
            let device = Device::h200();
            for problem in problems() {
                let _ = family.refusal(&problem, &device);
                let _ = family.default_for(&problem, &device);
                for default in family.defaults(&device) {
                    let storage = Storage::packed(&problem);
                    let _ = launches(&family, default, &problem, &storage, &device);
                }
            }
        }
        Err(error) => assert!(error.to_string().contains("family.toml"), "{error}"),
    }
}

fn expression(bytes: &[u8]) {
    let Ok(formula) = Formula::try_from(text(bytes).to_owned()) else { return };
    for open in [[64; 7], [1, 2, 3, 4, 5, 6, 7], [i64::MAX; 7], [i64::MIN; 7], [0; 7]] {
        let value = formula.value(&open);
        let _ = formula.holds(&open);
        let printed = formula.text(Language::Python);
        let again = Formula::try_from(printed.clone());
        let again = again.unwrap_or_else(|error| panic!("{printed}: {error}"));
        assert_eq!(again.value(&open), value, "{printed}");
    }
    for language in [Language::C, Language::Rust] {
        let _ = formula.text(language);
    }
}

fn shapes(bytes: &[u8]) {
    match gemm_tune::cli::count_shapes(text(bytes)) {
        Ok(count) => assert!(count > 0),
        Err(message) => assert!(message.contains("shapes"), "{message}"),
    }
}

fn times(bytes: &[u8]) {
    if let Ok(table) = TimeTable::parse(text(bytes)) {
        let _ = Dispatch::of(&table, CoverGoal { max_kernels: 4, loss: 0.05 });
    }
}

/// A trace is written as it is read, and its problems can be tuned.
fn trace(bytes: &[u8]) {
    if let Ok(trace) = Trace::parse(text(bytes)) {
        assert!(trace.worthwhile().len() <= trace.products.len());
        let again = Trace::parse(&trace.text()).expect("a trace that was written");
        assert_eq!(again.products.len(), trace.products.len());
        let twice = Trace::of_processes(vec![trace.clone(), trace]).expect("two traces");
        let kernels = KernelTimes { tuned: Micros(1.0), library: None };
        let times = twice.worthwhile().into_iter().map(|one| (one, kernels)).collect();
        let gain = twice.gain(&times);
        assert!(gain.saved().0.is_finite() && gain.part().is_finite());
    }
}

fn elf(bytes: &[u8]) {
    let fingerprint = Fingerprint::of(bytes, &["gemm", "pack"]);
    assert_eq!(fingerprint.as_str().len(), 32);
    let _ = gemm_tune::gpu::check_cubin(bytes);
}

/// Any text is a program or a located error, and a program's kernels run to an end or a violation.
fn ptx(bytes: &[u8]) {
    let text = text(bytes);
    match PtxModule::parse(text) {
        Ok(program) => executed(&program),
        Err(PtxLoadError::Ptx(error)) => {
            // Behind the last line there may be an end that was not expected.
            let lines = text.lines().count() as u32 + 1;
            assert!((1..=lines).contains(&error.line()), "{error}");
        }
        Err(PtxLoadError::Memory(error)) => panic!("{error}"),
    }
}

/// Runs every kernel with two warps, the second not whole, and everything watched.
fn executed(program: &PtxModule) {
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let Ok(address) = memory.allocate(4096) else { return };
    let options = LaunchOptions {
        checks: ExecutionChecks::ALL,
        counting: CountingMode::On,
        instruction_budget: 10_000,
        ..LaunchOptions::default()
    };
    for kernel in program.kernels() {
        let value = |bytes: &u64| {
            if *bytes == 8 { KernelParameter::Long(address) } else { KernelParameter::Word(8) }
        };
        let parameters: Vec<_> = kernel.facts().parameters.iter().map(value).collect();
        let _ = launch(kernel, ([1, 1, 1], [40, 1, 1]), 256, &parameters, &memory, &options);
    }
}
