//! The end of every command, and files that commands write.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::console::Console;
use super::failure::Failure;

/// Prints the document or the error, and gives the exit code.
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

/// Writes a file whole or not at all, its folder made where it is missing.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let unwritable = |error: std::io::Error| {
        Failure::Work(format!(
            "cannot write `{}`: {error}; choose another place with `-o OUT`",
            path.display()
        ))
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(unwritable)?;
    // Permissions by the system's mask, as for any file.
    let mode = fs::Permissions::from_mode(0o666);
    let file = tempfile::Builder::new().permissions(mode).tempfile_in(folder);
    let file = file.map_err(unwritable)?;
    fs::write(file.path(), bytes).map_err(unwritable)?;
    file.persist(path).map(|_| ()).map_err(|error| unwritable(error.error))
}
