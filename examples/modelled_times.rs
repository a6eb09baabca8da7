//! How well modelled times of the cpu device rank kernels whose times were measured on an H200.
//!
//! ```sh
//! cargo run --release --example modelled_times -- loads 100 tests/data/journals/*.gz results/ladder-h200.csv > loads.jsonl
//! cargo run --release --example modelled_times -- table tests/data/loads.jsonl.gz
//! ```
//!
//! `loads` executes kernels of journals and of tables by `compare --csv`, and prints what each launch asked of an SM
//! beside the measured time. Of a journal's main family it takes as many kernels as the number says, of each other
//! family eight, drawn by a seed. NVRTC is the one that GEMM_TUNE_NVRTC names.
//!
//! `table` models the times from these loads, alone and with the built-in learned model where it has the family, as
//! `--device cpu` does. Of each problem it prints:
//!
//! - the rank correlation with the measured times within the main family,
//! - the measured time of the first choice over the best one,
//! - whether the families are in the measured order by their bests, and whether the best family is the measured one.

#![expect(clippy::print_stdout, reason = "a program that prints its data")]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use gemm_tune::compile::{Compile, CompileRequest, CompileTarget, Compiler, Nvrtc};
use gemm_tune::cpu::PtxModule;
use gemm_tune::model::statistics::rank_correlation;
use gemm_tune::model::{Configuration, Device, Dtype, Layout, Problem, Shape, Value};
use gemm_tune::predict::{
    ExecutedLaunch, LaunchLoad, LearnedModel, PredictionSource, Predictor, executed_time,
    modelled_time,
};
use gemm_tune::render::{Templates, render};
use gemm_tune::space::{Families, Family};
use gemm_tune::tune::read_journal;
use gemm_tune::validate::HostValidator;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Kernels of each family of a journal besides its main one.
const OTHERS: usize = 8;

/// A kernel with its measured time, and what its launches ask of an SM.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TimedLoad {
    /// The problem, and whether it is of the ladder.
    pub(crate) set: String,
    /// The problem.
    pub(crate) problem: Problem,
    /// The family.
    pub(crate) family: String,
    /// Its configuration.
    pub(crate) parameters: Configuration,
    /// Measured on an H200, in microseconds.
    pub(crate) measured_us: f64,
    /// In the order of the launches; empty before they were executed.
    pub(crate) launches: Vec<LaunchLoad>,
}

/// The quality of modelled times on one set.
#[derive(Debug, Clone)]
pub(crate) struct SetQuality {
    /// The set.
    pub(crate) set: String,
    /// The family with most kernels, and how many these are.
    pub(crate) main: (String, usize),
    /// Rank correlation of times within it: from the loads alone, and as the cpu device gives them.
    pub(crate) correlation: [f64; 2],
    /// Measured time of the kernel with the least modelled time, over the least measured one; likewise.
    pub(crate) first_choice: [f64; 2],
    /// Whether families are in the measured order by their best kernels; likewise.
    pub(crate) is_ordered: [bool; 2],
    /// Whether the family of the best kernel is the measured one; likewise.
    pub(crate) has_best_family: [bool; 2],
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["loads", most, paths @ ..] => print_loads(most.parse()?, paths),
        ["table", path] => {
            println!("{}", table(&qualities(&read_loads(path.as_ref())?)?));
            Ok(())
        }
        _ => bail!("write `loads NUMBER FILES` or `table FILE`"),
    }
}

/// Reads what `loads` printed, compressed.
pub(crate) fn read_loads(path: &Path) -> anyhow::Result<Vec<TimedLoad>> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut text)?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// The quality of modelled times on each set.
pub(crate) fn qualities(loads: &[TimedLoad]) -> anyhow::Result<Vec<SetQuality>> {
    let families: Vec<Family> = Families::built_in()?.iter().cloned().collect();
    let (templates, device) = (Templates::built_in()?, Device::h200());
    let (predictor, _) = Predictor::new(LearnedModel::built_in(&device)?, &families, &templates);
    let mut sets: BTreeMap<&str, Vec<&TimedLoad>> = BTreeMap::new();
    for load in loads {
        sets.entry(&load.set).or_default().push(load);
    }
    let quality = |(set, loads): (&str, Vec<&TimedLoad>)| {
        let modelled: Vec<f64> = (loads.iter())
            .map(|one| modelled_time(&one.launches, &one.problem, &device).0)
            .collect();
        let given: Vec<f64> = (loads.iter())
            .map(|one| {
                let learned = || {
                    let family = families.iter().find(|family| family.name == one.family)?;
                    let parameters = family.completed(one.parameters.clone()).ok()?;
                    let predicted = predictor.time((family, &parameters), &one.problem, &device);
                    let is_learned = predicted.source != PredictionSource::Analytic;
                    is_learned.then_some(predicted.time)
                };
                executed_time(&one.launches, &one.problem, &device, learned()).0
            })
            .collect();
        set_quality(set, &loads, [&modelled, &given])
    };
    Ok(sets.into_iter().map(quality).collect())
}

fn set_quality(set: &str, loads: &[&TimedLoad], times: [&[f64]; 2]) -> SetQuality {
    let measured: Vec<f64> = loads.iter().map(|one| one.measured_us).collect();
    let count = |family: &str| loads.iter().filter(|one| one.family == family).count();
    let names = loads.iter().map(|one| one.family.as_str());
    let main = names.max_by_key(|family| (count(family), *family)).unwrap_or_default();
    let least = measured.iter().copied().fold(f64::INFINITY, f64::min);
    let own = |of: &[f64]| -> Vec<f64> {
        let both = loads.iter().zip(of).filter(|(one, _)| one.family == main);
        both.map(|(_, time)| *time).collect()
    };
    let order = |of: &[f64]| -> Vec<&str> {
        let mut bests: BTreeMap<&str, f64> = BTreeMap::new();
        for (one, time) in loads.iter().zip(of) {
            let best = bests.entry(&one.family).or_insert(f64::INFINITY);
            *best = best.min(*time);
        }
        let mut order: Vec<(&str, f64)> = bests.into_iter().collect();
        order.sort_by(|a, b| a.1.total_cmp(&b.1));
        order.into_iter().map(|(name, _)| name).collect()
    };
    let first = |of: &[f64]| {
        let first = (0..of.len()).min_by(|a, b| of[*a].total_cmp(&of[*b]));
        first.map_or(f64::NAN, |first| measured[first] / least)
    };
    SetQuality {
        set: set.to_owned(),
        main: (main.to_owned(), count(main)),
        correlation: times.map(|of| rank_correlation(&own(&measured), &own(of)).unwrap_or(0.0)),
        first_choice: times.map(first),
        is_ordered: times.map(|of| order(of) == order(&measured)),
        has_best_family: times.map(|of| order(of).first() == order(&measured).first()),
    }
}

fn table(qualities: &[SetQuality]) -> String {
    let mut lines = vec![
        "by loads alone, and as the cpu device gives times (with what was learned)".to_owned(),
        "set | main family | kernels | rank correlation | first choice over best | families in order | best family"
            .to_owned(),
    ];
    lines.extend(qualities.iter().map(|one| {
        let [loads, given] = one.correlation;
        let [first_loads, first_given] = one.first_choice;
        let words = |is: [bool; 2]| is.map(|is| if is { "yes" } else { "no" }).join(", ");
        let (ordered, best) = (words(one.is_ordered), words(one.has_best_family));
        let (main, count) = &one.main;
        let set = &one.set;
        format!(
            "{set} | {main} | {count} | {loads:.3}, {given:.3} | {first_loads:.2}, {first_given:.2} | {ordered} | {best}"
        )
    }));
    lines.join("\n")
}

fn print_loads(most: usize, paths: &[&str]) -> anyhow::Result<()> {
    let (families, templates) = (Families::built_in()?, Templates::built_in()?);
    let device = Device::h200();
    let nvrtc = Nvrtc::open(std::env::var("GEMM_TUNE_NVRTC")?.as_ref())?;
    let target = CompileTarget::AssembledPtx("sm_90".parse()?);
    let compiler = Compiler::new(nvrtc, None, target)?;
    for path in paths {
        let timed = if path.ends_with(".csv") {
            ladder(path.as_ref())?
        } else {
            sample(path.as_ref(), most)?
        };
        for kernels in timed.chunk_by(|a, b| a.problem == b.problem) {
            let validator = HostValidator::prepare(&kernels[0].problem, &device, 1)?;
            let lines: Vec<anyhow::Result<TimedLoad>> = (kernels.par_iter())
                .map(|timed| {
                    let family = families.get(&timed.family)?;
                    let launches =
                        loads(timed, family, (&templates, &compiler), (&validator, &device))?;
                    Ok(TimedLoad { launches, ..timed.clone() })
                })
                .collect();
            // Kernels that the families have no more are left out.
            for line in lines.into_iter().flatten() {
                println!("{}", serde_json::to_string(&line)?);
            }
        }
    }
    Ok(())
}

/// The loads of a kernel's launches.
fn loads(
    TimedLoad { problem, parameters, .. }: &TimedLoad,
    family: &Family,
    (templates, compiler): (&Templates, &Compiler),
    (validator, device): (&HostValidator, &Device),
) -> anyhow::Result<Vec<LaunchLoad>> {
    let configuration = family.completed(parameters.clone())?;
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

/// Kernels of a journal: at most so many of its main family, and [`OTHERS`] of each other one.
fn sample(path: &Path, most: usize) -> anyhow::Result<Vec<TimedLoad>> {
    let recorded = read_journal(path)?;
    let problem = recorded.problem;
    let mut timed: Vec<TimedLoad> = (recorded.entries.into_iter())
        .filter_map(|entry| {
            let measured_us = entry.outcome.measurement()?.median().0;
            let (family, parameters) = (entry.family, entry.parameters);
            let (set, launches) = (problem.to_string(), Vec::new());
            Some(TimedLoad { set, problem, family, parameters, measured_us, launches })
        })
        .collect();
    let count = |family: &str| timed.iter().filter(|one| one.family == family).count();
    let main = timed.iter().map(|one| one.family.clone()).max_by_key(|family| count(family));
    let main = main.context("an empty journal")?;
    fastrand::Rng::with_seed(1).shuffle(&mut timed);
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    timed.retain(|one| {
        let taken = taken.entry(one.family.clone()).or_default();
        *taken += 1;
        *taken <= if one.family == main { most } else { OTHERS }
    });
    Ok(timed)
}

/// The kernels of a table that `compare --csv` wrote.
fn ladder(path: &Path) -> anyhow::Result<Vec<TimedLoad>> {
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
        timed.push(TimedLoad {
            set: format!("ladder, {problem}"),
            problem,
            family: row[7].to_owned(),
            parameters: Configuration(values.collect()),
            measured_us: row[10].parse()?,
            launches: Vec::new(),
        });
    }
    Ok(timed)
}
