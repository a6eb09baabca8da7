//! `db merge`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::cli::arguments::OutputArguments;
use crate::cli::console::Console;
use crate::cli::databases;
use crate::cli::failure::Failure;
use crate::database;
use crate::report::record_changes::{self, MergedDocument};

/// Of records for the same problem, GPU and cache policy, a deterministic one comes before others, then
/// one of a whole run before one of an interrupted run, then the faster, then the earlier. The others are
/// reported and left out. The order of the files does not matter.
#[derive(Debug, Args)]
pub(super) struct MergeArguments {
    /// Databases to join; they are not changed
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// File to write; where it exists, its records take part
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    into: PathBuf,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

pub(super) fn merge(
    arguments: &MergeArguments,
    console: Console,
) -> Result<impl Serialize + use<>, Failure> {
    let merged = database::merge(&arguments.files, &arguments.into).map_err(Failure::work)?;
    databases::note_faults(&merged.faults, console);
    if !console.json {
        console.result(&record_changes::merged(&merged, &arguments.into));
    }
    Ok(MergedDocument { merged, output: arguments.into.clone() })
}
