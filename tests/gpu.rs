//! What needs a GPU. On a machine without one every test says that it is skipped, and why.
//!
//! Runs one test at a time: a device serves one measurement. The worker is the program itself,
//! found by cargo or named by `GEMM_TUNE_BIN` where cargo is not.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test says what it sees and may fail"
)]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gemm_tune::compile::{
    Architecture, Compile, CompileRequest, Compiler, CubinCache, Network, SearchPaths, Target,
    Wanted, acquire,
};
use gemm_tune::model::{Compute, Dtype, Layout, Outcome, OutcomeKind, Problem, Shape, Value};
use gemm_tune::render::Templates;
use gemm_tune::space::{Families, Family};
use gemm_tune::tune::{Event, Kit, Settings, Summary, TuneError, tune};
use gemm_tune::validate::reference::triple_loop;
use gemm_tune::validate::{KERNELS, Validator, compile_options};
use gemm_tune::worker::{Executor, Worker, WorkerCommand, WorkerError};
use libtest_mimic::{Arguments, Failed, Trial};

type Test = fn() -> Result<(), Failed>;

const TESTS: [(&str, Test); 9] = [
    ("the_device_reference_agrees_with_the_triple_loop", reference_agrees),
    ("every_family_is_correct_for_awkward_shapes", families_are_correct),
    ("planted_faults_get_their_outcomes", planted_faults),
    ("a_killed_worker_is_replaced", killed_worker),
    ("a_problem_beyond_the_memory_is_refused", memory),
    ("libraries_are_validated_and_measured", libraries),
    ("the_budget_ends_a_search", budget),
    ("the_program_tunes_and_records", program),
    ("the_program_says_what_the_machine_can_do", doctor),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let missing = Worker::start(worker_command()).err().map(|error| error.to_string());
    if let (Some(why), false) = (&missing, arguments.list) {
        for (name, _) in TESTS {
            println!("{name} ... skipped: no CUDA device ({why})");
        }
    }
    let trials = TESTS
        .map(|(name, test)| Trial::test(name, test).with_ignored_flag(missing.is_some()))
        .into();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn program_path() -> PathBuf {
    std::env::var_os("GEMM_TUNE_BIN")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_gemm-tune")), PathBuf::from)
}

fn search_paths() -> SearchPaths {
    SearchPaths { cache: Some("target/test-cache".into()), ..SearchPaths::default() }
}

fn worker_command() -> WorkerCommand {
    WorkerCommand {
        program: program_path(),
        arguments: vec!["worker".to_owned()],
        ordinal: 0,
        libraries: gemm_tune::compile::libraries::find("cublas", &search_paths()),
    }
}

fn worker() -> Worker {
    Worker::start(worker_command()).expect("a device was found before")
}

fn compiler(worker: &Worker) -> Compiler {
    let device = worker.device();
    let architecture = Architecture::from(device.compute_capability);
    let driver_major = u32::try_from(device.driver_cuda / 1000).ok();
    let wanted = Wanted { architecture, driver_major };
    let nvrtc = acquire(&search_paths(), &wanted, Network::Allowed, &mut |_| {}).unwrap();
    let cache = CubinCache::new("target/test-cache/cubin".into(), 1 << 30);
    Compiler::new(nvrtc, Some(cache), Target::Cubin(architecture)).unwrap()
}

fn kit(families: Vec<Family>, templates: Templates) -> Kit {
    let worker = worker();
    let compiler = Arc::new(compiler(&worker));
    Kit { families, templates, compiler, executor: Box::new(worker) }
}

fn built_in(family: Option<&str>) -> Kit {
    let families = Families::built_in().unwrap();
    let chosen =
        families.iter().filter(|known| family.is_none_or(|name| name == known.name)).cloned();
    kit(chosen.collect(), Templates::built_in().unwrap())
}

fn settings(max_configs: usize) -> Settings {
    let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    Settings { max_configs, budget: None, seed: 1, jobs }
}

fn problem(m: u64, n: u64, k: u64) -> Problem {
    Problem::new(Shape { m, n, k }, Dtype::F32)
}

fn run(problem: &Problem, kit: &mut Kit, settings: &Settings) -> Result<Summary, TuneError> {
    tune(problem, kit, settings, &AtomicBool::new(false), &mut |_| {})
}

fn reference_agrees() -> Result<(), Failed> {
    let mut worker = worker();
    let compiler = compiler(&worker);
    for dtype in [Dtype::F32, Dtype::I32] {
        for layout in Layout::ALL {
            for (m, n, k, batch) in [(1, 1, 1, 1), (7, 5, 3, 2), (65, 64, 17, 1), (33, 130, 100, 3)]
            {
                let problem =
                    Problem { layout: *layout, batch, ..Problem::new(Shape { m, n, k }, dtype) };
                let compiled = compiler.compile(&CompileRequest {
                    source: KERNELS.into(),
                    name: "kernels.cu".to_owned(),
                    options: compile_options(&problem),
                })?;
                let validator = Validator::prepare(&mut worker, &compiled.image, &problem, 9)?;
                let device = validator.reference(&mut worker)?;
                let [a, b] = validator.host_operands();
                let host = triple_loop(&problem, &a, &b);
                assert_eq!(device.len(), host.len());
                for (device, host) in device.iter().zip(&host) {
                    // Both are f64 sums of at most 100 terms below 1e6, in different orders.
                    assert!((device - host).abs() <= 1e-12 * host.abs().max(1.0), "{problem}");
                }
                validator.release(&mut worker)?;
            }
        }
    }
    Ok(())
}

/// Every candidate of every family over shapes that meet each edge, all layouts, both dtypes,
/// batches: a sample of the large space, all of the small ones.
fn families_are_correct() -> Result<(), Failed> {
    let shapes =
        [(1, 1, 1), (7, 5, 3), (33, 65, 129), (128, 256, 64), (127, 257, 65), (300, 8, 1000)];
    let families = Families::built_in().unwrap();
    for family in families.iter() {
        let mut kit = built_in(Some(&family.name));
        for (case, (m, n, k)) in shapes.into_iter().enumerate() {
            for layout in Layout::ALL {
                let dtype = if case % 2 == 1 { Dtype::I32 } else { Dtype::F32 };
                let batch = if case == 3 { 3 } else { 1 };
                let mut problem =
                    Problem { layout: *layout, batch, ..Problem::new(Shape { m, n, k }, dtype) };
                if family.refusal(&problem, kit.executor.device()).is_some() {
                    problem.dtype = Dtype::F32;
                    problem.compute = Compute::F32;
                }
                let summary = run(&problem, &mut kit, &settings(24))?;
                for coverage in &summary.coverage {
                    let correct = coverage.outcomes.get(&OutcomeKind::Correct).copied();
                    assert_eq!(
                        correct,
                        Some(coverage.evaluated()),
                        "{problem}, {}: {:?}",
                        coverage.family,
                        coverage.failures
                    );
                }
            }
        }
    }
    Ok(())
}

fn planted_faults() -> Result<(), Failed> {
    let families = Families::from_folder(Path::new("tests/faulty/spaces")).unwrap();
    let templates = Templates::with_folder(Path::new("tests/faulty/templates")).unwrap();
    let mut kit = kit(families.iter().cloned().collect(), templates);
    // Tiles come out even in M and in K but not in N, so that each fault has its place.
    let (outcomes, summary) = faulty_run(&problem(512, 500, 512), &mut kit)?;
    for (fault, kind, words) in [
        ("none", OutcomeKind::Correct, ""),
        ("missing_barrier", OutcomeKind::Correctness, "elements wrong"),
        (
            "off_by_one_at_the_edge",
            OutcomeKind::Correctness,
            "512 elements wrong, worst at C[0][499]",
        ),
        ("never_writes", OutcomeKind::Correctness, "256000 elements wrong"),
        ("writes_past_c", OutcomeKind::Correct, ""),
        ("reads_c_when_beta_is_0", OutcomeKind::Correctness, "NaN instead of"),
        ("changes_a", OutcomeKind::Correctness, ""),
        ("drops_a_product", OutcomeKind::Correctness, "1 elements wrong, worst at C[256][250]"),
        ("ignores_beta", OutcomeKind::Correctness, "uniform values"),
        ("illegal_address", OutcomeKind::Runtime, "while validating: "),
        ("loops_forever", OutcomeKind::Timeout, "did not end within"),
        ("does_not_compile", OutcomeKind::Compile, "faulty.cu(11): error"),
        ("wrong_entry_point", OutcomeKind::Runtime, "while loading: "),
        ("too_much_shared_memory", OutcomeKind::Runtime, "while loading: "),
    ] {
        let outcome = outcomes.get(fault).ok_or(format!("{fault} was not evaluated"))?;
        let failure = outcome.failure().unwrap_or_default();
        assert_eq!(outcome.kind(), kind, "{fault}: {failure}");
        assert!(failure.contains(words), "{fault}: {failure}");
    }
    // One for the illegal address, one for the endless loop.
    assert_eq!(summary.restarts, 2);

    // Where M does not come out even, the row past the last is written.
    let (outcomes, _) = faulty_run(&problem(500, 512, 64), &mut kit)?;
    let failure = outcomes["writes_past_c"].failure().unwrap_or_default();
    assert!(failure.contains("words beside a buffer were overwritten"), "{failure}");
    assert_eq!(outcomes["none"].kind(), OutcomeKind::Correct);
    Ok(())
}

fn faulty_run(
    problem: &Problem,
    kit: &mut Kit,
) -> Result<(BTreeMap<String, Outcome>, Summary), Failed> {
    let mut outcomes = BTreeMap::new();
    let on_event = &mut |event: Event<'_>| {
        if let Event::Evaluated { configuration, outcome, .. } = event
            && let Some(Value::Text(fault)) = configuration.get("FAULT")
        {
            println!("{fault}: {}", outcome.failure().unwrap_or_else(|| "correct".to_owned()));
            outcomes.insert(fault.clone(), outcome.clone());
        }
    };
    let stop = AtomicBool::new(false);
    let summary = tune(problem, kit, &settings(100), &stop, on_event)?;
    Ok((outcomes, summary))
}

fn killed_worker() -> Result<(), Failed> {
    let mut worker = worker();
    let address = worker.allocate(1024)?;
    worker.fill(address, 0x0102_0304, 256)?;
    assert_eq!(worker.read(address, 4)?, [4, 3, 2, 1]);
    // The only child of this process is the worker.
    let killed =
        Command::new("pkill").args(["-KILL", "-P", &std::process::id().to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()), "pkill is needed for this test");
    let error = worker.read(address, 4).unwrap_err();
    assert!(matches!(error, WorkerError::Died { .. }), "{error}");
    assert!(error.ends_worker());
    worker.restart()?;
    let address = worker.allocate(1024)?;
    worker.fill(address, 7, 256)?;
    assert_eq!(worker.read(address, 4)?, [7, 0, 0, 0]);
    Ok(())
}

fn memory() -> Result<(), Failed> {
    let mut kit = built_in(Some("naive"));
    let error = run(&problem(2_000_000, 2_000_000, 8), &mut kit, &settings(1)).unwrap_err();
    assert!(matches!(error, TuneError::Memory { .. }), "{error}");
    // The device is as usable as before.
    assert!(run(&problem(64, 64, 64), &mut kit, &settings(1))?.winner().is_some());
    Ok(())
}

fn libraries() -> Result<(), Failed> {
    let mut kit = built_in(Some("tiled"));
    for (layout, batch) in [(Layout::Nn, 1), (Layout::Nt, 1), (Layout::Tn, 3), (Layout::Tt, 1)] {
        let problem = Problem { layout, batch, ..problem(1000, 600, 500) };
        let mut notes = Vec::new();
        let on_event = &mut |event: Event<'_>| {
            if let Event::Note(note) = event {
                notes.push(note);
            }
        };
        let stop = AtomicBool::new(false);
        let summary = tune(&problem, &mut kit, &settings(2), &stop, on_event)?;
        let names: Vec<&str> = summary.baselines.iter().map(|b| b.name.as_str()).collect();
        println!("{problem}: {names:?} {notes:?}");
        if names.is_empty() {
            println!("skipped: no cuBLAS on this machine");
            return Ok(());
        }
        assert!(names.contains(&"cuBLAS"), "{names:?} {notes:?}");
        assert!(names.iter().any(|name| name.starts_with("cuBLASLt")), "{names:?} {notes:?}");
        for baseline in &summary.baselines {
            assert!(baseline.measurement.samples.len() >= 20);
        }
    }
    Ok(())
}

fn budget() -> Result<(), Failed> {
    let mut kit = built_in(None);
    let settings =
        Settings { budget: Some(std::time::Duration::from_secs(3)), ..settings(100_000) };
    let began = std::time::Instant::now();
    let summary = run(&problem(1024, 1024, 1024), &mut kit, &settings)?;
    assert!(summary.ended_early && summary.winner().is_some());
    assert!(began.elapsed().as_secs() < 15, "{:?}", began.elapsed());
    Ok(())
}

fn gemm_tune(arguments: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(program_path())
        .args(arguments)
        .args(["--cache", "target/test-cache"])
        .output()
        .expect("the program is there");
    print!("{}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

fn program() -> Result<(), Failed> {
    let folder = std::env::temp_dir().join(format!("gemm-tune-test-{}", std::process::id()));
    let database = folder.join("db.toml");
    let path = database.to_string_lossy().into_owned();
    let arguments =
        ["--shape", "256x256x256", "--db", &path, "--max-configs", "20", "--json", "-q"];
    let (document, code) = gemm_tune(&arguments);
    assert_eq!(code, Some(0), "{document}");
    let document: serde_json::Value = serde_json::from_str(&document)?;
    assert_eq!(document["results"][0]["recorded"], "added");
    let stored = std::fs::read_to_string(&database)?;
    assert!(stored.starts_with('#') && stored.contains("[[record]]"), "{stored}");

    let (document, code) = gemm_tune(&arguments);
    assert_eq!(code, Some(0));
    let document: serde_json::Value = serde_json::from_str(&document)?;
    let recorded = document["results"][0]["recorded"].as_str();
    assert!(matches!(recorded, Some("kept" | "replaced")), "{recorded:?}");

    // A database of a newer schema is refused before anything is measured, and left alone.
    std::fs::write(&database, "schema = 99\n")?;
    let (document, code) = gemm_tune(&arguments);
    assert_eq!(code, Some(1));
    assert!(document.contains("newer gemm-tune"), "{document}");
    assert_eq!(std::fs::read_to_string(&database)?, "schema = 99\n");
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn doctor() -> Result<(), Failed> {
    let (text, code) = gemm_tune(&["doctor"]);
    assert_eq!(code, Some(0), "{text}");
    for line in ["driver: ok", "GPU: ok", "NVRTC: ok", "this machine can tune"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    Ok(())
}
