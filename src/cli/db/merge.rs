//! `db merge`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::cli::arguments::OutputArguments;
use crate::cli::console::Console;
use crate::cli::databases;
use crate::cli::failure::Failure;
use crate::cli::output::{beside, is_stdout, write};
use crate::database::{self, MergeReport};
use crate::files::{self, InputKind};
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
    let console = beside(&arguments.into, console)?;
    let merged = if is_stdout(&arguments.into) {
        merge_to_stdout(&arguments.files)?
    } else {
        database::merge(&arguments.files, &arguments.into).map_err(Failure::work)?
    };
    databases::note_faults(&merged.faults, console);
    if console.is_text() {
        console.result(&record_changes::merged(&merged, &arguments.into));
    }
    Ok(MergedDocument { merged, output: arguments.into.clone() })
}

/// Merges into a file of its own, and prints it.
fn merge_to_stdout(inputs: &[PathBuf]) -> Result<MergeReport, Failure> {
    let folder = tempfile::tempdir().map_err(Failure::work)?;
    let file = folder.path().join("merged.toml");
    let merged = database::merge(inputs, &file).map_err(Failure::work)?;
    let text = files::read_text(&file, InputKind::Database).map_err(Failure::work)?;
    write(Path::new("-"), text.as_bytes())?;
    Ok(merged)
}
