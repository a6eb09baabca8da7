//! Builds the libraries of an exported C source with `cc` and `ar`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::console::Console;
use crate::cli::environment;
use crate::cli::failure::Failure;
use crate::export;

/// Builds both libraries in the folder of the source.
pub(super) fn build(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    run(&export::LIBRARY_COMMANDS, folder)?;
    Ok([export::LIBRARY, export::STATIC_LIBRARY].map(|name| folder.join(name)).into())
}

/// Builds the shared library that the Python module loads. Where there is no C compiler, the module says how to build
/// it.
pub(super) fn build_shared(folder: &Path, console: Console) -> Result<Vec<PathBuf>, Failure> {
    if environment::program("cc").is_none() {
        console.note(&format!(
            "there is no C compiler: build the library that `gemm_tuned.py` loads with {} in `{}`",
            by_hand(&[export::SHARED_LIBRARY_COMMAND]),
            folder.display()
        ));
        return Ok(Vec::new());
    }
    run(&[export::SHARED_LIBRARY_COMMAND], folder)?;
    Ok(vec![folder.join(export::LIBRARY)])
}

/// Commands as a shell takes them.
fn by_hand(commands: &[(&str, &[&str])]) -> String {
    let line =
        |(program, arguments): &(&str, &[&str])| format!("`{program} {}`", arguments.join(" "));
    commands.iter().map(line).collect::<Vec<_>>().join(", ")
}

fn run(commands: &[(&str, &[&str])], folder: &Path) -> Result<(), Failure> {
    let told = || format!("build the library with {} in `{}`", by_hand(commands), folder.display());
    for (name, arguments) in commands {
        let program = environment::program(name).ok_or_else(|| {
            Failure::Work(format!("there is no `{name}` on PATH: install it, or {}", told()))
        })?;
        let output = Command::new(&program).args(*arguments).current_dir(folder).output();
        let output = output.map_err(|error| {
            Failure::Work(format!("cannot run `{}`: {error}", program.display()))
        })?;
        if !output.status.success() {
            return Err(Failure::Work(format!(
                "`{}` failed: {}; {}",
                program.display(),
                String::from_utf8_lossy(&output.stderr).trim(),
                told()
            )));
        }
    }
    Ok(())
}
