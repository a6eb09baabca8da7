//! `gemm-tune dispatch`: a few kernels for many shapes, and a decision tree between them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use serde_json::{Value, json};

use super::arguments::{CommonArguments, FamilyArguments, MeasureArguments, ProblemArguments};
use super::console::Console;
use super::failure::Failure;
use super::measure_context::MeasureContext;
use super::output::{beside, finish, write};
use super::{databases, interrupt};
use crate::database::{Record, StoredPattern};
use crate::dispatch::{self, CoverGoal, Dispatch, DispatchKernel, TimeTable};
use crate::files::{self, InputKind};
use crate::model::{Configuration, Problem, Regime};
use crate::tune::time_each;

/// Times every winner of a database for every shape, and chooses the smallest set of kernels that is
/// nearly as fast as all of them: within --loss in the geometric mean. A decision tree over M, N and K
/// says which of them a shape gets; what it costs on shapes that it was not fitted to is measured by
/// holding out a tenth of the shapes, ten times. `gemm-tune export --dispatch` takes the result.
#[derive(Debug, Args)]
#[command(
    after_help = "\
Examples:
  gemm-tune dispatch -o set.json --max-kernels 8 --loss 5%
  gemm-tune export --dispatch set.json --format c -o tuned-c",
    mut_arg("shape_words", |shape| {
        shape.help(
            "Shape to measure, such as 4096x4096x1024; may be repeated [default: those of the winners]",
        )
    }),
    // The table has problems that differ in their shape only.
    mut_arg("shapes", |shapes| shapes.help("File with one shape a line"))
)]
pub(super) struct DispatchArguments {
    /// File to write the kernels and the tree to
    #[arg(short = 'o', long = "output", value_name = "OUT")]
    out: PathBuf,
    /// File of times, shapes x kernels: read where it exists, and nothing is measured; else written
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,
    /// Most kernels
    #[arg(long, value_name = "N", default_value_t = 8)]
    max_kernels: usize,
    /// By how much they may be slower than all winners, in the geometric mean of the shapes
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    loss: String,
    #[command(flatten)]
    problems: ProblemArguments,
    #[command(flatten)]
    measure: MeasureArguments,
    #[command(flatten)]
    families: FamilyArguments,
    #[command(flatten)]
    common: CommonArguments,
}

/// Chooses, and gives the exit code.
pub(super) fn main(arguments: &DispatchArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    let written = beside(&arguments.out, console).and_then(|console| run(arguments, console));
    finish(console, written.map(|document| (document, ExitCode::SUCCESS)))
}

fn run(arguments: &DispatchArguments, console: Console) -> Result<Value, Failure> {
    let wanted = CoverGoal { max_kernels: arguments.max_kernels, loss: loss(&arguments.loss)? };
    let table = match &arguments.times {
        Some(path) if path.exists() => {
            let text = files::read_text(path, InputKind::Dispatch).map_err(|error| {
                Failure::Work(format!("cannot read `{}`: {error}", path.display()))
            })?;
            TimeTable::parse(&text)
                .map_err(|error| Failure::Work(format!("`{}`: {error}", path.display())))?
        }
        path => {
            let table = measured(arguments, console)?;
            if let Some(path) = path {
                write_document(path, &json!(table))?;
            }
            // A table with a shape that no kernel has a time for cannot be read back.
            TimeTable::parse(&json!(table).to_string()).map_err(Failure::work)?
        }
    };
    let found = Dispatch::of(&table, wanted).map_err(Failure::work)?;
    write_document(&arguments.out, &json!(found))?;
    let loss = &found.loss;
    console.result(&format!(
        "{} of {} kernels for {} shapes, {} leaves: {} written\n  \
         slower than the best kernel of each shape, in the geometric mean: {:.2} % with the best of \
         the set (at worst {:.2} %), {:.2} % as the tree chooses, {:.2} % on shapes that it was not \
         fitted to (at worst {:.2} %)\n",
        found.kernels.len(),
        table.kernels.len(),
        loss.shapes,
        found.tree.leaves(),
        arguments.out.display(),
        loss.set_percent,
        loss.set_worst_percent,
        loss.tree_percent,
        loss.held_out_percent,
        loss.held_out_worst_percent,
    ));
    Ok(json!(found))
}

/// `5%` or `0.05`.
fn loss(text: &str) -> Result<f64, Failure> {
    let (number, unit) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let loss = number.trim().parse::<f64>().ok().map(|number| number / unit);
    loss.filter(|loss| (0.0..=10.0).contains(loss)).ok_or_else(|| {
        Failure::Usage(format!("`{text}` is no loss: write a percentage, as in `--loss 5%`"))
    })
}

/// Measures every winner for every shape.
fn measured(arguments: &DispatchArguments, console: Console) -> Result<TimeTable, Failure> {
    let pattern = arguments.problems.pattern()?;
    let MeasureArguments { db, device, seed } = &arguments.measure;
    let context =
        MeasureContext::new(device.wish()?, &arguments.families, &arguments.common, console)?;
    let device = context.machine.device();
    let path = databases::of(&device, db.as_deref());
    let database = databases::load_file(&path, console)?;
    let regime = Regime::default();
    let records: Vec<(Problem, &Record)> = database
        .records()
        .iter()
        .filter(|record| record.is_of(&device) && record.regime() == Some(regime))
        // Non-deterministic winners serve their own problems only.
        .filter(|record| record.deterministic)
        .filter_map(|record| Some((Problem::try_from(&record.problem).ok()?, record)))
        .filter(|(problem, _)| Problem { shape: pattern.shape, ..*problem } == pattern)
        .collect();
    let mut kernels: Vec<(String, Configuration)> = Vec::new();
    for (_, record) in &records {
        let kernel = databases::kernel(record, &context.families)?;
        if !kernels.contains(&kernel) {
            kernels.push(kernel);
        }
    }
    if kernels.is_empty() {
        return Err(Failure::Work(format!(
            "`{}` has no winner for {} of {}: tune some shapes first",
            path.display(),
            pattern.pattern(),
            device.name
        )));
    }
    let mut problems = arguments.problems.all()?;
    if problems.is_empty() {
        problems = records.iter().map(|(problem, _)| *problem).collect();
    }
    problems.retain(|problem| Problem { shape: pattern.shape, ..*problem } == pattern);
    let mut kit = context.kit(console)?;
    let stop = interrupt::listen()?;
    let named: Vec<_> = kernels.iter().map(|(family, own)| (family.as_str(), own)).collect();
    let mut times_us = Vec::new();
    for (number, problem) in problems.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Work("interrupted before all kernels were measured".to_owned()));
        }
        console.note(&format!("{} of {}: {problem}", number + 1, problems.len()));
        let times = time_each(problem, &named, &mut kit, (regime, *seed));
        let times = times.map_err(Failure::work)?;
        times_us.push(times.into_iter().map(|time| time.ok().map(|time| time.0)).collect());
    }
    let tabled =
        kernels.into_iter().map(|(family, own)| DispatchKernel { family, parameters: own.0 });
    let StoredPattern { dtype, b_dtype, out, compute, layout, epilogue } = pattern.pattern().into();
    Ok(TimeTable {
        schema: dispatch::SCHEMA,
        device: device.name,
        dtype,
        b_dtype,
        out,
        compute,
        layout,
        epilogue,
        shapes: problems.iter().map(|problem| problem.shape).collect(),
        kernels: tabled.collect(),
        times_us,
    })
}

fn write_document(path: &Path, document: &Value) -> Result<(), Failure> {
    write(path, format!("{document:#}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_a_share_or_a_percentage() {
        for (text, expected) in [("5%", 0.05), ("0.05", 0.05), ("0%", 0.0), ("12.5 %", 0.125)] {
            assert_eq!(loss(text).ok(), Some(expected), "{text}");
        }
        for text in ["", "%", "-1%", "five", "nan"] {
            assert!(matches!(loss(text), Err(Failure::Usage(_))), "{text}");
        }
    }
}
