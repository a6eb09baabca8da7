//! `gemm-tune db`: lists, shows, merges, prunes and verifies tuning databases.

mod look;
mod merge;
mod prune;
mod restamp;
mod verify;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::arguments::OutputArguments;
use super::console::Console;
use super::failure::Failure;
use super::output::{finish, finish_with};

#[derive(Debug, Args)]
pub(super) struct DbArguments {
    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Debug, Subcommand)]
enum DbCommand {
    /// List records, one a line
    List(look::ListArguments),
    /// Show everything of the records of a shape or key
    Show(look::ShowArguments),
    /// Join the records of several files, and report those that compete
    Merge(merge::MergeArguments),
    /// Take records out of a file by rule; without --yes only say which
    Prune(prune::PruneArguments),
    /// Stamp records anew after a change of templates that leaves their machine code as it was
    Restamp(restamp::RestampArguments),
    /// Time the winners of this device again, and say which records do not hold any more
    Verify(verify::VerifyArguments),
}

/// Runs the command and gives the exit code.
pub(super) fn main(arguments: &DbArguments) -> ExitCode {
    match &arguments.command {
        DbCommand::List(list) => with(&list.output, |console| look::list(list, console)),
        DbCommand::Show(show) => with(&show.output, |console| look::show(show, console)),
        DbCommand::Merge(merge) => with(&merge.output, |console| merge::merge(merge, console)),
        DbCommand::Prune(prune) => with(&prune.output, |console| prune::prune(prune, console)),
        DbCommand::Restamp(restamp) => {
            let console = Console::new(&restamp.common);
            // Values of the command's own are printed there.
            finish_with(console, restamp::restamp(restamp, console), |_| String::new())
        }
        DbCommand::Verify(verify) => {
            let console = Console::new(&verify.common);
            finish(console, verify::verify(verify, console))
        }
    }
}

fn with<D: Serialize>(
    output: &OutputArguments,
    run: impl FnOnce(Console) -> Result<D, Failure>,
) -> ExitCode {
    let console = Console::of_output(output);
    finish(console, run(console).map(|document| (document, ExitCode::SUCCESS)))
}
