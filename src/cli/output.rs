//! The end of every command, and files that commands write.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;

use super::arguments::OutputFormat;
use super::console::Console;
use super::failure::Failure;
use super::{interrupt, streams};
use crate::files;
use crate::report::rows;

/// Prints the document in the chosen form or the error, and gives the exit code: that of the signal that ended the work,
/// else that of the work.
pub(super) fn finish(
    console: Console,
    result: Result<(impl Serialize, ExitCode), Failure>,
) -> ExitCode {
    let rows = |document: &_| rows::csv(&serde_json::to_value(document).unwrap_or_default());
    finish_with(console, result, rows)
}

/// As [`finish`], with comma-separated values of the command's own.
pub(super) fn finish_with<D: Serialize>(
    console: Console,
    result: Result<(D, ExitCode), Failure>,
    csv: impl FnOnce(&D) -> String,
) -> ExitCode {
    let code = match result {
        Ok((document, code)) => {
            console.document(&document);
            console.values(|| csv(&document));
            streams::lost().map_or(code, |lost| {
                console.error(&lost);
                ExitCode::FAILURE
            })
        }
        Err(failure) => {
            console.error(failure.message());
            console.document(&json!({ "error": failure.message() }));
            failure.exit_code()
        }
    };
    interrupt::exit_code().map_or(code, ExitCode::from)
}

/// The path that stands for standard output.
const STDOUT: &str = "-";

/// Whether a path stands for standard output.
pub(super) fn is_stdout(path: &Path) -> bool {
    path == Path::new(STDOUT)
}

/// The console of a command that writes `path`: where that is standard output, messages for people are not printed there.
///
/// # Errors
/// A form of results that would be printed there too.
pub(super) fn beside(path: &Path, console: Console) -> Result<Console, Failure> {
    if !is_stdout(path) {
        return Ok(console);
    }
    match console.format {
        OutputFormat::Table | OutputFormat::Md => Ok(Console { stdout_is_taken: true, ..console }),
        OutputFormat::Csv | OutputFormat::Json => Err(Failure::Usage(
            "`-o -` and the results as CSV or JSON are both written to standard output: leave out one"
                .to_owned(),
        )),
    }
}

/// Refuses standard output for what is a folder.
pub(super) fn folder(path: &Path) -> Result<(), Failure> {
    if !is_stdout(path) {
        return Ok(());
    }
    Err(Failure::Usage(
        "`-o -` takes one file, and this is a folder: name one with `-o DIR`".to_owned(),
    ))
}

/// Writes a file whole or not at all, its folder made where it is missing. `-` is standard output.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if is_stdout(path) {
        streams::bytes(bytes);
        return Ok(());
    }
    let unwritable = |error: std::io::Error| {
        Failure::Work(format!(
            "cannot write `{}`: {error}; choose another place with `-o OUT`",
            path.display()
        ))
    };
    files::replace(path, bytes).map_err(unwritable)
}
