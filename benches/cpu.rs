//! How long the cpu device takes for a 512 x 512 x 512 product of f32 with the default
//! configuration of every family: unwatched, with all checks, and counted.
//!
//! Needs no GPU, but an NVRTC, found as `gemm-tune` finds it.

#![expect(clippy::print_stdout, reason = "a program that prints its figures")]

use std::env;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use gemm_tune::compile::{
    Architecture, CompileTarget, Network, Nvrtc, NvrtcRequirements, SearchPaths, acquire,
};
use gemm_tune::cpu::{
    CountingMode, ExecutionChecks, GlobalMemory, KernelParameter, LaunchOptions, PtxModule,
    WriteTracking, launch,
};
use gemm_tune::model::{Device, Dtype, LaunchPlan, Problem};
use gemm_tune::render::{Templates, render};
use gemm_tune::space::Families;
use gemm_tune::worker::{EpilogueAddresses, OperandAddresses, Scalars, bind};

/// Rows, columns and depth.
const EXTENT: u64 = 512;

fn main() -> anyhow::Result<()> {
    // `cargo test` runs benches too, to see that they work.
    let extent = if env::args().any(|argument| argument == "--test") { 64 } else { EXTENT };
    let architecture: Architecture = "sm_90".parse()?;
    let Some(nvrtc) = find_nvrtc(architecture) else {
        println!("skipped: no NVRTC");
        return Ok(());
    };
    println!("{extent} x {extent} x {extent}, f32, {} threads\n", rayon::current_num_threads());
    println!("{:<12} {:>10} {:>10} {:>10}", "family", "unwatched", "checked", "counted");
    let problem = Problem::new(format!("{extent}x{extent}x{extent}").parse()?, Dtype::F32);
    let device = Device::h200();
    let families = Families::built_in()?;
    for family in families.iter() {
        let Some(configuration) = family.default_for(&problem, &device)? else { continue };
        let rendered = render(family, &Templates::built_in()?, &configuration, &problem, &device)?;
        let options = ["--generate-line-info".to_owned()];
        let compiled = nvrtc.compile(
            &rendered.source,
            "kernel.cu",
            CompileTarget::Ptx(architecture),
            &options,
        )?;
        let program = PtxModule::parse(std::str::from_utf8(&compiled.image)?)?;
        let time = |checks, counting| {
            let options = LaunchOptions { checks, counting, ..LaunchOptions::default() };
            run(&program, &rendered.plan, &problem, &options)
        };
        println!(
            "{:<12} {:>8.3} s {:>8.3} s {:>8.3} s",
            family.name,
            time(ExecutionChecks::NONE, CountingMode::Off)?.as_secs_f64(),
            time(ExecutionChecks::ALL, CountingMode::Off)?.as_secs_f64(),
            time(ExecutionChecks::NONE, CountingMode::On)?.as_secs_f64(),
        );
    }
    if let Some(mib) = peak_rss_mib() {
        println!("\nat most {mib} MiB of memory");
    }
    Ok(())
}

/// The best of three launches.
fn run(
    program: &PtxModule,
    plan: &LaunchPlan,
    problem: &Problem,
    options: &LaunchOptions,
) -> anyhow::Result<Duration> {
    let tracking = if options.checks == ExecutionChecks::NONE {
        WriteTracking::Off
    } else {
        WriteTracking::Written
    };
    let mut memory = GlobalMemory::new(tracking);
    let mut random = fastrand::Rng::with_seed(1);
    let mut addresses = Vec::new();
    for elements in [problem.a_elements(), problem.b_elements(), problem.c_elements()] {
        let address = memory.allocate(4 * elements)?;
        let bytes: Vec<u8> = (0..elements).flat_map(|_| random.f32().to_le_bytes()).collect();
        memory.write(address, &bytes)?;
        addresses.push(address);
    }
    let [a, b, c] = addresses[..] else { bail!("a product has three operands") };
    let sizes = plan.workspaces.iter().map(|workspace| memory.allocate(workspace.bytes));
    let workspaces: Vec<u64> = sizes.collect::<Result<_, _>>()?;
    let operands = OperandAddresses { a, b, c, epilogue: EpilogueAddresses::default() };
    let launches = bind(plan, 0, problem, operands, &workspaces, Scalars::PLAIN)?;
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        for wanted in &launches {
            let parameters: Vec<KernelParameter> =
                wanted.arguments.iter().copied().map(KernelParameter::from).collect();
            let kernel = program.kernel(&wanted.entry).context("the kernel is missing")?;
            let (extents, shared) = ((wanted.grid, wanted.block), wanted.dynamic_shared_bytes);
            launch(kernel, extents, shared, &parameters, &memory, options)?;
        }
        best = best.min(start.elapsed());
    }
    Ok(best)
}

/// What the command line does, in short; nothing is installed.
fn find_nvrtc(architecture: Architecture) -> Option<Nvrtc> {
    let folders = |name| env::var_os(name).map(|value| env::split_paths(&value).collect());
    let homes = ["CUDA_HOME", "CUDA_PATH"].map(env::var_os);
    let paths = SearchPaths {
        explicit: env::var_os("GEMM_TUNE_NVRTC").map(Into::into),
        cache: None,
        library_path: folders("LD_LIBRARY_PATH").unwrap_or_default(),
        cuda_homes: homes.into_iter().flatten().map(Into::into).collect(),
        python: Some("python3".into()),
    };
    let wanted = NvrtcRequirements { architecture, driver_major: None };
    acquire(&paths, &wanted, Network::Forbidden, &mut |_| {})
        .inspect_err(|error| println!("{error}"))
        .ok()
}

/// The most memory that the process ever held.
fn peak_rss_mib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024)
}
