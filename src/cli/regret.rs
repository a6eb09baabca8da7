//! `gemm-tune regret`: measures lookup's answers for held-out shapes beside their winners.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::arguments::{CommonArguments, FamilyArguments, MeasureArguments, ProblemArguments};
use super::console::Console;
use super::failure::Failure;
use super::measure_context::{MeasureContext, in_turn, notes};
use super::output::finish;
use super::{databases, request};
use crate::database::Record;
use crate::lookup::{Lookup, Question};
use crate::model::{Problem, Regime};
use crate::report::regret::{self, Regret};
use crate::tune::{LineUpOptions, retime};

/// Leaves the records of some shapes out, and those of shapes that differ from these by 10 % at most or in layout.
/// Looks each shape up, and times the answer in turn with the recorded winner and the libraries: what a shape costs
/// that nobody tuned. The shapes have to be tuned before, into the same database.
#[derive(Debug, Args)]
#[command(mut_arg("shape", |shape| {
    shape.help("Shape to hold out, such as 4096x4096x1024; may be repeated")
}))]
pub(super) struct RegretArguments {
    #[command(flatten)]
    problems: ProblemArguments,
    #[command(flatten)]
    measure: MeasureArguments,
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
    let problems = arguments.problems.all(1)?;
    if problems.is_empty() {
        return Err(request::no_shape("hold out", "gemm-tune regret"));
    }
    let MeasureArguments { db, device, seed } = &arguments.measure;
    let context = MeasureContext::new(device, &arguments.families, &arguments.common, console)?;
    let device = context.machine.device();
    let path = databases::of(&device, db.as_deref());
    let database = databases::load_file(&path, console)?;
    let regime = Regime::default();
    let is_held_out = |record: &&Record| {
        Problem::try_from(&record.problem)
            .is_ok_and(|problem| problems.iter().any(|one| one.is_like(&problem)))
    };
    let kept = database.records().iter().filter(|record| !is_held_out(record));
    let families = context.families.clone();
    let lookup = Lookup::new(kept, &families, &context.templates, &device, regime).with_predictor(
        databases::predictor([path.as_path()], &device, (&families, &context.templates), console)?,
    );
    let mut kit = context.kit(console)?;
    let mut regrets = Vec::new();
    for problem in in_turn(&problems, console)? {
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
        let (_, tuned) = databases::kernel(record, &families)?;
        let is_same = answer.family.name == record.family && *answer.configuration == tuned;
        let other = (!is_same).then_some((record.family.as_str(), &tuned));
        let on_event = &mut notes(console);
        let named = (answer.family.name.as_str(), answer.configuration);
        let options = LineUpOptions { regime, seed: *seed, checks_neighbours: false };
        let retimed = retime(problem, named, other.as_slice(), &mut kit, options, on_event)
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
            source: answer.source.name(),
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
