//! What the tests share: the device, its compiler, and a run of tuning.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gemm_tune::compile::{
    Architecture, CompileChildren, CompileTarget, CompileThreads, Compiler, CubinCache, Network,
    NvrtcRequirements, SearchPaths, acquire,
};
use gemm_tune::model::{Dtype, Problem, Shape};
use gemm_tune::process::ChildCommand;
use gemm_tune::render::Templates;
use gemm_tune::space::{Families, Family};
use gemm_tune::tune::{Hints, Kit, Machine, Settings, Summary, TuneError, tune};
use gemm_tune::worker::{Executor, GpuWorker, WorkerCommand};

pub(crate) fn program_path() -> PathBuf {
    std::env::var_os("GEMM_TUNE_BIN")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_gemm-tune")), PathBuf::from)
}

pub(crate) fn search_paths() -> SearchPaths {
    SearchPaths { cache: Some("target/test-cache".into()), ..SearchPaths::default() }
}

pub(crate) fn worker_command() -> WorkerCommand {
    WorkerCommand {
        program: program_path(),
        arguments: vec!["worker".into()],
        ordinal: 0,
        libraries: gemm_tune::compile::libraries::find("cublas", &search_paths()),
        cleared_variables: Vec::new(),
    }
}

pub(crate) fn worker() -> GpuWorker {
    GpuWorker::start(worker_command()).expect("a device was found before")
}

pub(crate) fn compiler(worker: &GpuWorker) -> Compiler {
    let device = worker.device();
    let architecture = Architecture::from(device.compute_capability);
    let driver_major = u32::try_from(device.driver_cuda / 1000).ok();
    let wanted = NvrtcRequirements { architecture, driver_major };
    let nvrtc = acquire(&search_paths(), &wanted, Network::Allowed, &mut |_| {}).unwrap();
    let cache = CubinCache::new("target/test-cache/cubin".into(), 1 << 30);
    let compiler = Compiler::new(nvrtc, Some(cache), CompileTarget::Cubin(architecture)).unwrap();
    compiler.in_children(compile_children())
}

/// As the program compiles: several threads compile at once only in processes of their own.
pub(crate) fn compile_children() -> CompileChildren {
    CompileChildren {
        command: ChildCommand { program: program_path(), arguments: vec!["compile-worker".into()] },
        limit: Duration::from_secs(120),
        interrupted: Arc::default(),
    }
}

pub(crate) fn threads() -> CompileThreads {
    let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    CompileThreads::new(jobs).unwrap()
}

pub(crate) fn kit(families: Vec<Family>, templates: Templates) -> Kit {
    let worker = worker();
    let compiler = Arc::new(compiler(&worker));
    Kit {
        families,
        templates,
        compiler,
        threads: threads(),
        machine: Machine::gpus([Box::new(worker) as Box<dyn Executor>]),
        predictor: Arc::default(),
    }
}

pub(crate) fn built_in(family: Option<&str>) -> Kit {
    let families = Families::built_in().unwrap();
    let chosen =
        families.iter().filter(|known| family.is_none_or(|name| name == known.name)).cloned();
    kit(chosen.collect(), Templates::built_in().unwrap())
}

/// `tma` without the rule by which searches leave it out.
pub(crate) fn boxes() -> Family {
    let text = include_str!("../../search-spaces/tma.toml");
    let rules = text.split("\n[[").filter(|part| !part.contains("require = \"false\""));
    let text = rules.collect::<Vec<_>>().join("\n[[");
    Family::parse("tma.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// The built-in families, each with configurations to try: [`boxes`] stands for `tma`.
pub(crate) fn searched_families() -> Vec<Family> {
    let families = Families::built_in().unwrap();
    let searched = |family: &Family| match family.name.as_str() {
        "tma" => boxes(),
        _ => family.clone(),
    };
    families.iter().map(searched).collect()
}

pub(crate) fn settings(max_configs: usize) -> Settings {
    Settings { max_configs: Some(max_configs), ..Settings::default() }
}

pub(crate) fn problem(m: u64, n: u64, k: u64) -> Problem {
    Problem::new(Shape { m, n, k }, Dtype::F32)
}

pub(crate) fn run(
    problem: &Problem,
    kit: &mut Kit,
    settings: &Settings,
) -> Result<Summary, TuneError> {
    tune(problem, &Hints::default(), kit, settings, &AtomicBool::new(false), &mut |_| {})
}

pub(crate) fn gemm_tune(arguments: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(program_path())
        .args(arguments)
        .args(["--cache", "target/test-cache"])
        .output()
        .expect("the program is there");
    print!("{}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}
