//! How a command speaks that needs no device, and how every command ends.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::Failure;
use super::console::{Console, Volume};

#[derive(Debug, Args)]
pub(super) struct OutputArguments {
    /// Print one JSON document on standard output, also on failure
    #[arg(long)]
    json: bool,
    /// Show results only
    #[arg(short, long)]
    quiet: bool,
}

impl OutputArguments {
    pub(super) fn console(&self) -> Console {
        let volume = if self.quiet { Volume::Quiet } else { Volume::Normal };
        Console { volume, json: self.json }
    }
}

/// Prints the document or what went wrong, and gives the exit code.
pub(super) fn finish(console: Console, result: Result<(Value, ExitCode), Failure>) -> ExitCode {
    match result {
        Ok((document, code)) => {
            console.document(&document);
            code
        }
        Err(failure) => {
            console.error(failure.message());
            console.document(&json!({ "error": failure.message() }));
            failure.exit_code()
        }
    }
}
