//! `gemm-tune regret`: lookup's answers for shapes that are held out, beside their winners.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use serde_json::Value;

use super::arguments::{CommonArguments, FamilyArguments};
use super::console::Console;
use super::machine::{Wish, Workshop};
use super::output::finish;
use super::{Failure, interrupt, request};
use crate::compile::CompileThreads;
use crate::database::{Database, Record};
use crate::lookup::{Lookup, Question};
use crate::model::{Layout, Problem, Regime};
use crate::report::regret::{self, Regret};
use crate::tune::{Event, Kit, retime};

/// Leaves the records of some shapes out, asks lookup for each, and times its answer in turn with the
/// recorded winner and the libraries: what a shape costs that nobody tuned. The shapes have to be tuned
/// before, into the same database.
#[derive(Debug, Args)]
pub(super) struct RegretArguments {
    /// Shape to hold out, such as 4096x4096x1024; may be repeated
    #[arg(long, value_name = "MxNxK")]
    shape: Vec<String>,
    /// File with one shape a line
    #[arg(long, value_name = "FILE")]
    shapes: Option<PathBuf>,
    /// How elements are stored: f32 or i32
    #[arg(long, default_value = "f32")]
    dtype: String,
    /// Whether A and B are used as stored (n) or transposed (t): nn, nt, tn or tt
    #[arg(long, default_value = "nn")]
    layout: String,
    /// Database with the records [default: results/<gpu>.toml]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Device to measure on: auto, cuda:N, or cpu, which models times
    #[arg(long, default_value = "auto")]
    device: String,
    /// Seed of the operands
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print comma-separated values instead of a table
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    #[command(flatten)]
    families: FamilyArguments,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

/// Measures, prints and gives the exit code.
pub(super) fn main(arguments: &RegretArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    finish(console, run(arguments, console))
}

fn run(arguments: &RegretArguments, console: Console) -> Result<(Value, ExitCode), Failure> {
    let problems = problems(arguments)?;
    let wish: Wish = arguments.device.parse()?;
    let (families, templates) = request::families(&arguments.families)?;
    let workshop = Workshop::new(&arguments.common)?;
    let machine = workshop.machine(wish, console)?;
    let device = machine.device();
    let own = || Path::new("results").join(device.slug() + ".toml");
    let path = arguments.db.clone().unwrap_or_else(own);
    let database = Database::load_existing(&path).map_err(Failure::work)?;
    let regime = Regime::default();
    let is_held_out = |record: &&Record| {
        Problem::try_from(&record.problem).is_ok_and(|problem| problems.contains(&problem))
    };
    let kept = database.records().iter().filter(|record| !is_held_out(record));
    let lookup = Lookup::new(kept, &families, &templates, &device, regime);
    let compiler = Arc::new(workshop.compiler(&machine, console)?);
    let threads = CompileThreads::new(request::jobs(None)).map_err(Failure::work)?;
    let mut kit = Kit { families: families.clone(), templates, compiler, threads, machine };
    let stop = interrupt::listen()?;
    let mut regrets = Vec::new();
    for (number, problem) in problems.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            console.note("stopped as asked");
            break;
        }
        console.note(&format!("{} of {}: {problem}", number + 1, problems.len()));
        let Some(record) = database.find(problem, &device, regime) else {
            console.note(&format!("{problem} is left out: no record in {}", path.display()));
            continue;
        };
        let answer = match lookup.answer(&Question::packed(*problem)) {
            Ok(answer) => answer,
            Err(error) => {
                console.note(&format!("{problem} is left out: {error}"));
                continue;
            }
        };
        let tuned = record.configuration();
        let is_same = answer.family.name == record.family && *answer.configuration == tuned;
        let other = (!is_same).then_some((record.family.as_str(), &tuned));
        let on_event = &mut |event: Event<'_>| {
            if let Event::Note(note) = event {
                console.note(&note);
            }
        };
        let named = (answer.family.name.as_str(), answer.configuration);
        let retimed = retime(problem, named, other, &mut kit, (regime, arguments.seed), on_event)
            .map_err(Failure::work)?;
        let of_tuned = retimed.runner_up.clone().unwrap_or_else(|| retimed.winner.clone());
        let (winner, of_tuned) = match (retimed.winner, of_tuned) {
            (Ok(winner), Ok(of_tuned)) => (winner, of_tuned),
            (Err(why), _) | (_, Err(why)) => {
                console.note(&format!("{problem} is left out: {why}"));
                continue;
            }
        };
        let library = retimed.libraries.into_iter().next().map(|(library, _)| library);
        regrets.push(Regret {
            problem: *problem,
            rung: answer.rung.name(),
            family: winner.family,
            parameters: winner.configuration.to_string(),
            predicted: answer.predicted,
            time: winner.measurement.median(),
            tuned: of_tuned.measurement.median(),
            library: library.map(|library| (library.name, library.measurement.median())),
        });
    }
    if arguments.csv {
        console.result(&regret::csv(&regrets));
    } else {
        console.result(&regret::table(&regrets, &device, console.width()));
    }
    let whole = regrets.len() == problems.len();
    let code = if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok((regret::document(&regrets, &device), code))
}

fn problems(arguments: &RegretArguments) -> Result<Vec<Problem>, Failure> {
    let layout: Layout = arguments.layout.parse().map_err(Failure::usage)?;
    let pattern = Problem { layout, ..request::pattern(&arguments.dtype, None, 1)? };
    let mut problems: Vec<Problem> = request::shapes(&arguments.shape)?
        .into_iter()
        .map(|shape| request::problem(Problem { shape, ..pattern }))
        .collect::<Result<_, _>>()?;
    if let Some(file) = &arguments.shapes {
        problems.extend(request::shapes_file(file, pattern)?);
    }
    if problems.is_empty() {
        return Err(Failure::Usage(
            "nothing to hold out: give a shape, as in `gemm-tune regret --shape 4096x4096x1024`, or \
             `--shapes FILE`"
                .to_owned(),
        ));
    }
    Ok(problems)
}
