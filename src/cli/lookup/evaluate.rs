//! `gemm-tune lookup --evaluate`: measures answers for held-out shapes beside their winners.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

use super::LookupArguments;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::measure_context::{MeasureContext, in_turn, notes};
use crate::cli::output::finish_with;
use crate::cli::{databases, request};
use crate::database::Record;
use crate::lookup::{Lookup, Question};
use crate::model::Problem;
use crate::report::regret::{self, Regret};
use crate::tune::{LineUpOptions, retime};

/// Leaves the records of the shapes out, and those of shapes that differ from these by 10 % at most or in layout. Looks
/// each shape up, and times the answer in turn with the recorded winner and the libraries: what a shape costs that nobody
/// tuned. The shapes have to be tuned before, into the same database. Gives the exit code.
pub(super) fn main(arguments: &LookupArguments, console: Console) -> ExitCode {
    // Values of the command's own are printed there.
    finish_with(console, run(arguments, console), |_| String::new())
}

fn run(arguments: &LookupArguments, console: Console) -> Result<(Value, ExitCode), Failure> {
    let problems = arguments.problems.all()?;
    if problems.is_empty() {
        return Err(request::no_shape("hold out", "gemm-tune lookup --evaluate"));
    }
    let named: Option<&PathBuf> = match &arguments.db[..] {
        [] => None,
        [only] => Some(only),
        _ => {
            return Err(Failure::Usage(
                "`--evaluate` takes one `--db`, that with the winners: merge several with \
                 `gemm-tune db merge`"
                    .to_owned(),
            ));
        }
    };
    let context = MeasureContext::new(
        arguments.device.wish()?,
        &arguments.families,
        &arguments.common,
        console,
    )?;
    let device = context.machine.device();
    let path = databases::of(&device, named.map(PathBuf::as_path));
    let database = databases::load_file(&path, console)?;
    let regime = request::regime(&arguments.cache_policy, &arguments.power)?;
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
        let options = LineUpOptions { regime, seed: arguments.seed, checks_neighbours: false };
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
        let chosen = lookup.library(&Question::packed(*problem), &answer);
        let uses_library = chosen.is_some_and(|library| library.is_preferred);
        let library = retimed.libraries.into_iter().next().map(|(library, _)| library);
        regrets.push(Regret {
            problem: *problem,
            source: answer.source.name(),
            family: winner.family,
            parameters: winner.configuration.to_string(),
            predicted: answer.predicted,
            time: winner.measurement.median(),
            tuned: of_tuned.measurement.median(),
            uses_library,
            library: library.map(|library| (library.name, library.measurement.median())),
        });
    }
    console.values(|| regret::csv(&regrets));
    console.result(&regret::table(&regrets, &device, console.table_style()));
    let whole = regrets.len() == problems.len();
    let code = if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok((regret::document(&regrets, &device), code))
}
