//! `gemm-tune replay`: plays a strategy against a recorded space, without a GPU.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::arguments::FormatArguments;
use super::console::Console;
use super::failure::Failure;
use super::output::finish;
use super::{databases, request};
use crate::predict::LearnedModel;
use crate::render::Templates;
use crate::report::replayed;
use crate::search::replay::{Trials, replay};
use crate::space::{Families, Family};
use crate::tune::{read_informed, read_recording};

/// Most trials: the curves of each are kept.
const MAX_REPEATS: usize = 10_000;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gemm-tune replay run.jsonl --search model --repeats 30")]
pub(super) struct ReplayArguments {
    /// Recorded space: a Kernel Tuner cache, T4 results or a journal of this program, plain or .gz
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Begin as a search of the journal's problem does, with the families' defaults and predicted times; else nothing is
    /// known of the configurations
    #[arg(long)]
    informed: bool,
    /// File of `gemm-tune learn` to begin with instead of the built-in one
    #[arg(long, requires = "informed", value_name = "FILE")]
    experience: Option<PathBuf>,
    /// Strategy to play: auto, exhaustive, random, local, evolve or model
    #[arg(long, default_value = "auto", value_name = "NAME")]
    search: String,
    /// How often to play it, each time with another seed
    #[arg(long, default_value = "30", value_name = "R")]
    repeats: NonZeroUsize,
    /// Distinct configurations that each play evaluates
    #[arg(long, default_value = "400", value_name = "N")]
    max_configs: NonZeroUsize,
    /// Candidates that are proposed before the outcome of any of them is reported
    #[arg(long, default_value = "12", value_name = "N")]
    batch: NonZeroUsize,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Gain whose remaining chance the search states
    #[arg(long, default_value = "1%", value_name = "PERCENT")]
    stop_within: String,
    #[command(flatten)]
    format: FormatArguments,
}

/// Plays, prints and gives the exit code.
pub(super) fn main(arguments: &ReplayArguments) -> ExitCode {
    let console = Console::of_results(arguments.format.format());
    finish(console, run(arguments, console).map(|document| (document, ExitCode::SUCCESS)))
}

fn run(arguments: &ReplayArguments, console: Console) -> Result<Value, Failure> {
    if arguments.repeats.get() > MAX_REPEATS {
        return Err(Failure::Usage(format!(
            "`--repeats` is {}, above {MAX_REPEATS}: the mean of fewer is as good",
            arguments.repeats
        )));
    }
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
        let given = arguments.experience.as_deref().map(request::learned_model).transpose()?;
        let all: Vec<Family> = families.iter().cloned().collect();
        read_informed(&arguments.file, &families, |device| {
            let learned = given.clone().map_or_else(|| LearnedModel::built_in(device), Ok)?;
            Ok(databases::noted(learned, (&all, &templates), console))
        })
    } else {
        read_recording(&arguments.file)
    };
    let recording = recording.map_err(Failure::work)?;
    let replayed = replay(&recording, &trials);
    console.result(&replayed::table(&recording, &trials, &replayed, console.table_style()));
    Ok(replayed::document(&trials, &replayed))
}
