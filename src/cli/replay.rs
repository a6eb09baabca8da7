//! `gemm-tune replay`: plays a strategy against a recorded space; no GPU has a part in it.

use std::process::ExitCode;

use serde_json::json;

use super::arguments::ReplayArguments;
use super::console::Console;
use super::{Failure, databases, request};
use crate::model::Device;
use crate::predict::LearnedModel;
use crate::render::Templates;
use crate::report::replayed;
use crate::search::replay::{Trials, replay};
use crate::space::{Families, Family};
use crate::tune::{read_informed, read_recording};

/// Plays, prints and gives the exit code.
pub(super) fn main(arguments: &ReplayArguments) -> ExitCode {
    let console = Console::of_results(arguments.json);
    match run(arguments, console) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            console.error(failure.message());
            console.document(&json!({ "error": failure.message() }));
            failure.exit_code()
        }
    }
}

fn run(arguments: &ReplayArguments, console: Console) -> Result<(), Failure> {
    let trials = Trials {
        search: arguments.search.parse().map_err(Failure::usage)?,
        repeats: arguments.repeats.get(),
        most: arguments.max_configs.get(),
        batch: arguments.batch.get(),
        seed: arguments.seed,
        within: request::fraction(&arguments.stop_within)?,
    };
    let recording = if arguments.informed {
        let families = Families::built_in().map_err(Failure::work)?;
        let templates = Templates::built_in().map_err(Failure::work)?;
        let learned = match &arguments.experience {
            Some(path) => request::learned_model(path)?,
            None => LearnedModel::built_in(&Device::h200()).map_err(Failure::work)?,
        };
        let all: Vec<Family> = families.iter().cloned().collect();
        let predictor = databases::noted(learned, (&all, &templates), console);
        read_informed(&arguments.file, &families, &predictor)
    } else {
        read_recording(&arguments.file)
    };
    let recording = recording.map_err(Failure::work)?;
    let replayed = replay(&recording, &trials);
    console.result(&replayed::table(&recording, &trials, &replayed, console.width()));
    console.document(&replayed::document(&trials, &replayed));
    Ok(())
}
