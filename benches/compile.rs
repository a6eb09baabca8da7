//! How many kernels NVRTC compiles in a second, on one thread and on several, without a cache.
//!
//! Needs no GPU and no cargo: the built program runs on any machine that has an NVRTC, found as
//! `gemm-tune` finds it, or named by `--nvrtc` or `GEMM_TUNE_NVRTC`.

#![expect(clippy::print_stdout, reason = "a program that prints its figures")]

use std::env;
use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use gemm_tune::compile::{
    Architecture, Compile, CompileChildren, CompilePool, CompileRequest, CompileTarget,
    CompileThreads, Compiler, Network, Nvrtc, NvrtcRequirements, SearchPaths, acquire,
};
use gemm_tune::model::{Device, Dtype, Problem, Shape};
use gemm_tune::process::ChildCommand;
use gemm_tune::render::{Templates, render};
use gemm_tune::space::{Families, LegalSpace};

#[derive(Parser)]
#[command(about = "Measures how many kernels NVRTC compiles in a second")]
struct Arguments {
    /// How many kernels to compile.
    #[arg(long, default_value_t = 200)]
    count: usize,
    /// Threads to compile on; may be repeated [default: 1, and one for each processor].
    #[arg(long)]
    jobs: Vec<NonZeroUsize>,
    /// What to compile for.
    #[arg(long, default_value = "sm_90")]
    arch: Architecture,
    /// The `libnvrtc.so` to use.
    #[arg(long)]
    nvrtc: Option<PathBuf>,
    /// Compile in children of this `gemm-tune` instead of threads.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Passed by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
    /// Passed by `cargo test`: compile a few, to see that it works.
    #[arg(long, hide = true)]
    test: bool,
    /// Names of benchmarks, as `cargo bench` passes them on; there is only this one.
    #[arg(hide = true)]
    _filters: Vec<String>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let Some(nvrtc) = find_nvrtc(&arguments) else {
        println!("skipped: no NVRTC");
        return Ok(());
    };
    let (major, minor) = nvrtc.version();
    println!("NVRTC {major}.{minor}, {}", nvrtc.path().display());

    let mut compiler = Compiler::new(nvrtc, None, CompileTarget::Cubin(arguments.arch))?;
    if let Some(program) = arguments.program {
        let command = ChildCommand { program, arguments: vec!["compile-worker".into()] };
        let limit = Duration::from_secs(60);
        let interrupted = Arc::default();
        compiler = compiler.in_children(CompileChildren { command, limit, interrupted });
    }
    let compiler: Arc<dyn Compile> = Arc::new(compiler);
    let count = if arguments.test { 4 } else { arguments.count };
    let sources = kernels(count)?;
    // The first compile of a process also reads the library from disk.
    compiler.compile(&request(0, &sources[0])).context("the first kernel does not compile")?;

    println!("{count} kernels for {}\n", arguments.arch);
    println!(
        "{:>5} {:>9} {:>10} {:>7} {:>14}",
        "jobs", "seconds", "kernels/s", "ratio", "peak RSS MiB"
    );
    let most = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let mut alone = None;
    let mut jobs_tried = arguments.jobs;
    if jobs_tried.is_empty() {
        jobs_tried = vec![NonZeroUsize::MIN, most];
    }
    jobs_tried.dedup();
    for jobs in jobs_tried {
        let seconds = compile_all(&compiler, &sources, jobs)?.as_secs_f64();
        let ratio = *alone.get_or_insert(seconds) / seconds;
        let rate = count as f64 / seconds;
        let rss = peak_rss_mib().map_or("unknown".to_owned(), |mib| mib.to_string());
        println!("{jobs:>5} {seconds:>9.2} {rate:>10.1} {ratio:>7.2} {rss:>14}");
    }
    Ok(())
}

/// What the command line does, in short; nothing is installed.
fn find_nvrtc(arguments: &Arguments) -> Option<Nvrtc> {
    let folders = |name| env::var_os(name).map(|value| env::split_paths(&value).collect());
    let homes = ["CUDA_HOME", "CUDA_PATH"].map(env::var_os);
    let paths = SearchPaths {
        explicit: arguments.nvrtc.clone().or(env::var_os("GEMM_TUNE_NVRTC").map(Into::into)),
        cache: None,
        library_path: folders("LD_LIBRARY_PATH").unwrap_or_default(),
        cuda_homes: homes.into_iter().flatten().map(Into::into).collect(),
        python: Some("python3".into()),
    };
    let wanted = NvrtcRequirements { architecture: arguments.arch, driver_major: None };
    acquire(&paths, &wanted, Network::Forbidden, &mut |_| {})
        .inspect_err(|error| println!("{error}"))
        .ok()
}

fn request(index: usize, source: &Arc<str>) -> CompileRequest {
    let name = format!("kernel-{index}.cu");
    CompileRequest { source: Arc::clone(source), name, options: vec![] }
}

fn compile_all(
    compiler: &Arc<dyn Compile>,
    sources: &[Arc<str>],
    jobs: NonZeroUsize,
) -> anyhow::Result<Duration> {
    let pool = CompilePool::new(Arc::clone(compiler), CompileThreads::new(jobs)?);
    let start = Instant::now();
    for (index, source) in sources.iter().enumerate() {
        pool.submit(index, request(index, source));
    }
    for _ in sources {
        let (index, result) =
            pool.recv_timeout(Duration::from_secs(120)).context("no kernel in two minutes")?;
        result.with_context(|| format!("kernel {index} does not compile"))?;
    }
    Ok(start.elapsed())
}

/// The most memory that the process ever held, and that its children hold now at most.
fn peak_rss_mib() -> Option<u64> {
    let peak = |process: &str| -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.split_whitespace().next()?.parse().ok()
    };
    // A child belongs to the thread that started it.
    let tasks = fs::read_dir("/proc/self/task").ok()?.flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: u64 = lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|child| peak(&child))
        .sum();
    Some((peak("self")? + children) / 1024)
}

/// So many kernels of all families that serve a problem, from all over their spaces: what a search
/// compiles, in the proportions of the spaces.
fn kernels(count: usize) -> anyhow::Result<Vec<Arc<str>>> {
    let device = Device::h200();
    let problem = Problem::new(Shape { m: 1024, n: 1024, k: 1024 }, Dtype::F32);
    let (families, templates) = (Families::built_in()?, Templates::built_in()?);
    let mut spaces = Vec::new();
    for family in families.iter() {
        spaces.push((family, LegalSpace::of(family, &problem, &device)?));
    }
    let all: usize = spaces.iter().map(|(_, space)| space.len()).sum();
    // A step that has no divisor in common with most numbers meets all parts of a space.
    let step = (all as f64 * 0.618) as usize | 1;
    let mut sources = Vec::new();
    for index in 0..count {
        let mut rank = index * step % all;
        for (family, space) in &spaces {
            if let Some(configuration) = space.get(rank) {
                let rendered = render(family, &templates, &configuration, &problem, &device)?;
                sources.push(rendered.source.into());
                break;
            }
            rank -= space.len();
        }
    }
    Ok(sources)
}
