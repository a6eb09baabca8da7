//! The end of every command, and files that commands write.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;

use super::console::Console;
use super::failure::Failure;
use super::{interrupt, streams};
use crate::files;

/// Prints the document or the error, and gives the exit code: that of the signal that ended the work,
/// else that of the work.
pub(super) fn finish(
    console: Console,
    result: Result<(impl Serialize, ExitCode), Failure>,
) -> ExitCode {
    let code = match result {
        Ok((document, code)) => {
            console.document(&document);
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

/// Writes a file whole or not at all, its folder made where it is missing.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let unwritable = |error: std::io::Error| {
        Failure::Work(format!(
            "cannot write `{}`: {error}; choose another place with `-o OUT`",
            path.display()
        ))
    };
    files::replace(path, bytes).map_err(unwritable)
}
