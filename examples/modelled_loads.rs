//! Executes kernels with measured times on the cpu device, and prints what each launch asked of an SM
//! beside the time, as lines of JSON: the data that the modelled time is fitted to and tested on.
//!
//! ```sh
//! cargo run --release --example modelled_loads -- 100 tests/data/journals/*.gz results/ladder-h200.csv > loads.jsonl
//! ```
//!
//! The number is the most kernels of a file's main family; they are drawn by a seed. NVRTC is taken from
//! GEMM_TUNE_NVRTC.

#![expect(clippy::print_stdout, reason = "a program that prints its data")]

use std::path::Path;

use anyhow::Context as _;
use gemm_tune::compile::{Compile, CompileRequest, CompileTarget, Compiler, Nvrtc};
use gemm_tune::cpu::PtxModule;
use gemm_tune::model::{Configuration, Device, Dtype, Layout, Problem, Shape, Value};
use gemm_tune::predict::{ExecutedLaunch, LaunchLoad};
use gemm_tune::render::{Templates, render};
use gemm_tune::space::{Families, Family};
use gemm_tune::tune::read_journal;
use gemm_tune::validate::HostValidator;
use rayon::prelude::*;
use serde_json::json;

/// A kernel with its measured time.
struct Timed {
    problem: Problem,
    family: String,
    configuration: Configuration,
    us: f64,
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let most: usize = arguments.next().context("give the number of kernels of a file")?.parse()?;
    let (families, templates) = (Families::built_in()?, Templates::built_in()?);
    let device = Device::h200();
    let nvrtc = Nvrtc::open(std::env::var("GEMM_TUNE_NVRTC")?.as_ref())?;
    let target = CompileTarget::AssembledPtx("sm_90".parse()?);
    let compiler = Compiler::new(nvrtc, None, target)?;
    for path in arguments {
        let timed = if path.ends_with(".csv") {
            ladder(path.as_ref())?
        } else {
            sample(path.as_ref(), most)?
        };
        for kernels in timed.chunk_by(|a, b| a.problem == b.problem) {
            let validator = HostValidator::prepare(&kernels[0].problem, &device, 1)?;
            let lines: Vec<_> = kernels
                .par_iter()
                .map(|timed| {
                    let family = families.get(&timed.family)?;
                    let loads =
                        loads(timed, family, (&templates, &compiler), (&validator, &device))?;
                    anyhow::Ok(json!({
                        "problem": timed.problem,
                        "family": timed.family,
                        "parameters": timed.configuration,
                        "measured_us": timed.us,
                        "launches": loads,
                    }))
                })
                .collect();
            for line in lines {
                match line {
                    Ok(line) => println!("{line}"),
                    Err(error) => println!("{}", json!({ "error": error.to_string() })),
                }
            }
        }
    }
    Ok(())
}

/// The loads of a kernel's launches.
fn loads(
    Timed { problem, configuration, .. }: &Timed,
    family: &Family,
    (templates, compiler): (&Templates, &Compiler),
    (validator, device): (&HostValidator, &Device),
) -> anyhow::Result<Vec<LaunchLoad>> {
    let configuration = family.completed(configuration.clone())?;
    let rendered = render(family, templates, &configuration, problem, device)?;
    let compiled = compiler.compile(&CompileRequest::kernel(&family.name, rendered.source))?;
    let program = PtxModule::parse(std::str::from_utf8(&compiled.image)?)?;
    let counts = validator.count(&program, &rendered.plan)?;
    let launches = rendered.plan.kernels.iter().zip(&counts).map(|(launch, counts)| {
        let facts = program.kernel(&launch.entry).context("a kernel is missing")?.facts();
        let resources = compiled.resources.get(&launch.entry).context("no resources")?;
        let executed = ExecutedLaunch {
            launch,
            counts,
            registers: resources.registers.into(),
            shared_bytes: facts.static_shared_bytes + u64::from(launch.dynamic_shared_bytes),
        };
        Ok(executed.load())
    });
    launches.collect()
}

/// Kernels of a journal: at most so many of its main family, and all others.
fn sample(path: &Path, most: usize) -> anyhow::Result<Vec<Timed>> {
    let recorded = read_journal(path)?;
    let mut timed: Vec<Timed> = (recorded.entries.into_iter())
        .filter_map(|entry| {
            let us = entry.outcome.measurement()?.median().0;
            let (family, configuration) = (entry.family, entry.parameters);
            Some(Timed { problem: recorded.problem, family, configuration, us })
        })
        .collect();
    let count = |family: &str| timed.iter().filter(|one| one.family == family).count();
    let main = timed.iter().map(|one| one.family.clone()).max_by_key(|family| count(family));
    let main = main.context("an empty journal")?;
    fastrand::Rng::with_seed(1).shuffle(&mut timed);
    let mut left = most;
    timed.retain(|one| {
        let is_main = one.family == main;
        left = left.saturating_sub(usize::from(is_main));
        !is_main || left > 0
    });
    Ok(timed)
}

/// The kernels of a table that `compare --csv` wrote.
fn ladder(path: &Path) -> anyhow::Result<Vec<Timed>> {
    let mut timed = Vec::new();
    for row in csv::Reader::from_path(path)?.into_records() {
        let row = row?;
        let number = |at: usize| row[at].parse::<u64>();
        if row[7].is_empty() {
            continue;
        }
        let shape = Shape { m: number(0)?, n: number(1)?, k: number(2)? };
        let problem =
            Problem { layout: row[5].parse::<Layout>()?, ..Problem::new(shape, Dtype::F32) };
        let values = row[8].split_whitespace().filter_map(|setting| {
            let (name, value) = setting.split_once('=')?;
            let value = match (value.parse(), value.parse()) {
                (Ok(number), _) => Value::Int(number),
                (_, Ok(switch)) => Value::Bool(switch),
                _ => Value::Text(value.to_owned()),
            };
            Some((name.to_owned(), value))
        });
        let configuration = Configuration(values.collect());
        timed.push(Timed {
            problem,
            family: row[7].to_owned(),
            configuration,
            us: row[10].parse()?,
        });
    }
    Ok(timed)
}
