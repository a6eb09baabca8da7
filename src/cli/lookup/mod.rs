//! `gemm-tune lookup`: which kernel to use for a shape, tuned or not.

mod evaluate;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::cli::arguments::{
    CommonArguments, DeviceArguments, FamilyArguments, ProblemArguments, heading,
};
use crate::cli::console::{Console, Volume};
use crate::cli::databases;
use crate::cli::failure::Failure;
use crate::cli::known_records::KnownRecords;
use crate::cli::machine::{Wish, Workshop};
use crate::cli::output::finish;
use crate::cli::request;
use crate::database::BUILT_IN;
use crate::lookup::{Lookup, Question, Unusable};
use crate::model::{Device, Problem, Storage};
use crate::render;
use crate::report::answered;

/// Answers from the record of the shape. For another shape the answer is the kernel with the lowest time by the learned
/// model or by the winners of similar shapes. Without records of the GPU it is a winner of another GPU of the same compute
/// capability, else the default of a family. The answer is legal for the shape, leading dimensions and alignment given.
#[derive(Debug, Args)]
#[command(
    mut_arg("shape_words", |shape| {
        shape.help("Shape to find a kernel for, such as 4096x4096x1024, 512 for a cube, or '512x512x512 nt x16'; may be repeated")
    }),
    mut_arg("device", |device| {
        device.help("GPU to answer for: auto, cuda:N or cpu; auto is that of this machine, else the databases'")
    }),
    after_help = "\
Examples:
  gemm-tune lookup 4096x4096x1000
  gemm-tune lookup 512 --layout nt --batch 16 --device-name h200
  gemm-tune lookup --shapes shapes.txt --csv
  gemm-tune lookup --evaluate --shapes tuned.txt       (measures, on the GPU)"
)]
pub(in crate::cli) struct LookupArguments {
    #[command(flatten)]
    problems: ProblemArguments,
    /// Elements between rows of A as stored [default: packed]
    #[arg(long, value_name = "N", help_heading = heading::PROBLEM)]
    lda: Option<u64>,
    /// Elements between rows of B as stored [default: packed]
    #[arg(long, value_name = "N", help_heading = heading::PROBLEM)]
    ldb: Option<u64>,
    /// Elements between rows of C [default: packed]
    #[arg(long, value_name = "N", help_heading = heading::PROBLEM)]
    ldc: Option<u64>,
    /// Bytes that the addresses of A, B and C are multiples of
    #[arg(long, value_name = "BYTES", default_value_t = Storage::ALLOCATED, help_heading = heading::PROBLEM)]
    align: u64,
    /// Most bytes of device memory for workspaces; 0 for a kernel that needs none [default: any]
    #[arg(long, value_name = "BYTES", help_heading = heading::PROBLEM)]
    workspace: Option<u64>,
    /// Cache policy of the records to answer from: rotate or hot
    #[arg(long, default_value = "rotate", value_name = "POLICY", help_heading = heading::DEVICE)]
    cache_policy: String,
    /// Power state of the records to answer from: burst or sustained
    #[arg(long, default_value = "burst", value_name = "STATE", help_heading = heading::DEVICE)]
    power: String,
    /// Database to answer from; may be repeated [default: all of results/, and the built-in one]
    #[arg(long, value_name = "FILE", help_heading = heading::DEVICE)]
    db: Vec<PathBuf>,
    /// Answer from this database alone, with its very kernels, and refuse everything else
    #[arg(long, value_name = "FILE", conflicts_with = "db", help_heading = heading::DEVICE)]
    pin: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArguments,
    /// Measure how much slower answers are than the winners of these shapes, whose records are held out
    #[arg(long, conflicts_with_all = ["pin", "lda", "ldb", "ldc", "align", "workspace"])]
    evaluate: bool,
    /// Seed of the operands that --evaluate measures with
    #[arg(long, default_value_t = 0, requires = "evaluate")]
    seed: u64,
    #[command(flatten)]
    families: FamilyArguments,
    #[command(flatten)]
    common: CommonArguments,
}

/// Answers, and gives the exit code.
pub(in crate::cli) fn main(arguments: &LookupArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    if arguments.evaluate {
        return evaluate::main(arguments, console);
    }
    finish(console, run(arguments, console).map(|document| (document, ExitCode::SUCCESS)))
}

fn run(arguments: &LookupArguments, console: Console) -> Result<Value, Failure> {
    request::check_cubes(&arguments.problems.shape_words, console)?;
    let questions = questions(arguments)?;
    let regime = request::regime(&arguments.cache_policy, &arguments.power)?;
    let (families, templates) = request::families(&arguments.families)?;
    let problems: Vec<Problem> = questions.iter().map(|question| question.problem).collect();
    let named = arguments.pin.as_ref().map_or(&arguments.db[..], std::slice::from_ref);
    let known = KnownRecords::read(named, &problems, console)?;
    let device = device(arguments, &known, console)?;
    let known = known.for_device(&device, &problems, regime)?;
    let predictor = databases::predictor(known.files(), &device, (&families, &templates), console)?;
    let lookup =
        Lookup::new(known.all(), &families, &templates, &device, regime).with_predictor(predictor);
    let is_named = |unusable: &&Unusable| known.is_in_a_file(&unusable.key);
    for note in left_out(lookup.unusable().iter().filter(is_named)) {
        console.note(&note);
    }
    let lookup = if arguments.pin.is_some() { lookup.pinned() } else { lookup };
    let mut documents = Vec::new();
    for question in &questions {
        let answer = lookup.answer(question).map_err(Failure::work)?;
        let Question { problem, storage, .. } = question;
        let plan = render::launches(answer.family, answer.configuration, problem, storage, &device)
            .map_err(Failure::work)?;
        if !documents.is_empty() {
            console.result("\n");
        }
        let library = lookup.library(question, &answer);
        let both = (&answer, library.as_ref());
        console.result(&answered::text(question, &device, both, &plan, console.table_style()));
        if console.volume == Volume::Verbose {
            let style = console.table_style();
            console.result(&format!("{}\n", answered::candidates(&answer, both.1, style)));
        }
        let mut document = answered::document(question, &device, both, &plan);
        if answer.record.is_some_and(|record| known.is_built_in(record)) {
            databases::note_built_in(console);
            document["database"] = json!(BUILT_IN);
        }
        documents.push(document);
    }
    let only = (documents.len() == 1).then(|| documents.pop()).flatten();
    Ok(only.unwrap_or_else(|| json!({ "answers": documents })))
}

/// A line for each reason why records cannot be used.
fn left_out<'a>(unusable: impl Iterator<Item = &'a Unusable>) -> Vec<String> {
    let mut keys: IndexMap<&str, Vec<&str>> = IndexMap::new();
    for Unusable { key, why } in unusable {
        keys.entry(why).or_default().push(key);
    }
    let line = |(why, keys): (&str, Vec<&str>)| match &keys[..] {
        [key] => format!("record {key} is left out: {why}"),
        keys => format!("{} records are left out, one of them {}: {why}", keys.len(), keys[0]),
    };
    keys.into_iter().map(line).collect()
}

/// The questions that the arguments ask: one at least.
fn questions(arguments: &LookupArguments) -> Result<Vec<Question>, Failure> {
    let problems = arguments.problems.all()?;
    if problems.is_empty() {
        return Err(request::no_shape("look up", "gemm-tune lookup"));
    }
    problems.into_iter().map(|problem| question(arguments, problem)).collect()
}

fn question(arguments: &LookupArguments, problem: Problem) -> Result<Question, Failure> {
    let packed = Storage::packed(&problem);
    let storage = Storage {
        lda: arguments.lda.unwrap_or(packed.lda),
        ldb: arguments.ldb.unwrap_or(packed.ldb),
        ldc: arguments.ldc.unwrap_or(packed.ldc),
        alignment: arguments.align,
    };
    storage.check(&problem).map_err(Failure::usage)?;
    let any = Question::new(problem, storage);
    Ok(arguments.workspace.map_or(any, |bytes| any.within(bytes)))
}

/// The device to answer for: the named one, else the one in this machine, else the only one with
/// records.
fn device(
    arguments: &LookupArguments,
    known: &KnownRecords,
    console: Console,
) -> Result<Device, Failure> {
    let DeviceArguments { device: word, device_name } = &arguments.device;
    if device_name.is_none() {
        let ordinal = match word.parse()? {
            Wish::Cpu => return Ok(Device::cpu()),
            Wish::Auto | Wish::AllGpus | Wish::Named(_) => 0,
            Wish::Gpu(ordinal) => ordinal,
        };
        match Workshop::new(&arguments.common)?.worker(ordinal)? {
            Ok(worker) => return Ok(crate::worker::Executor::device(&worker).clone()),
            Err(error) if word != "auto" => return Err(Failure::work(error)),
            Err(_) => {}
        }
    }
    let device = known.device(device_name.as_deref())?;
    if device_name.is_none() {
        console.note(&format!("No GPU found; answering for {}", device.name));
    }
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_cannot_be_used_have_a_line_for_each_reason() {
        let all = [("a", "old"), ("b", "wide"), ("c", "old"), ("d", "old")];
        let unusable = all.map(|(key, why)| Unusable { key: key.to_owned(), why: why.to_owned() });
        let notes = ["3 records are left out, one of them a: old", "record b is left out: wide"];
        assert_eq!(left_out(unusable.iter()), notes);
    }
}
