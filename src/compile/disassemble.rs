//! The disassembler: converts machine code to text with `nvdisasm`, installed or provided on
//! demand. This module does not interpret the text.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

use super::libraries::{SearchPaths, programs};
use super::provide::{Network, ProvideError, ProvideEvent, ProvideFailure, Tool, provide};

/// CUDA major version of the disassembler to install: the first with a wheel.
const MAJOR: u32 = 13;

/// Reason that machine code was not disassembled.
#[derive(Debug, Error)]
pub enum DisassembleError {
    /// No disassembler is available.
    #[error("{}{error}", list(rejected))]
    NotProvided {
        /// Messages of the disassemblers that failed.
        rejected: Vec<String>,
        /// The reason that none was installed.
        error: ProvideError,
    },
    /// The installed disassembler fails.
    #[error("{0}")]
    Failed(String),
}

fn list(rejected: &[String]) -> String {
    rejected.iter().map(|rejection| format!("{rejection}\n")).collect()
}

/// Disassembles a cubin with the first disassembler that accepts it: that of an older toolkit may
/// not support the architecture.
///
/// # Errors
/// No disassembler is found or installable, or the installed one fails.
pub fn disassemble(
    cubin: &[u8],
    paths: &SearchPaths,
    network: Network,
    on_event: &mut dyn FnMut(ProvideEvent),
) -> Result<String, DisassembleError> {
    let mut rejected = Vec::new();
    for program in programs("nvdisasm", paths) {
        match run(&program, cubin) {
            Ok(text) => return Ok(text),
            Err(rejection) => rejected.push(rejection),
        }
    }
    let program = provide_for(paths, network, on_event)
        .map_err(|error| DisassembleError::NotProvided { rejected, error })?;
    run(&program, cubin).map_err(DisassembleError::Failed)
}

fn provide_for(
    paths: &SearchPaths,
    network: Network,
    on_event: &mut dyn FnMut(ProvideEvent),
) -> Result<PathBuf, ProvideError> {
    let tool = Tool::Nvdisasm;
    let refuse = |reason| Err(ProvideError { tool, reason, major: MAJOR });
    if network == Network::Forbidden {
        return refuse(ProvideFailure::Offline);
    }
    let Some(cache) = &paths.cache else { return refuse(ProvideFailure::NoCache) };
    let Some(python) = &paths.python else { return refuse(ProvideFailure::NoPython) };
    provide(tool, cache, MAJOR, python, on_event)
}

/// Runs a disassembler on a cubin; returns its text or an error message.
fn run(program: &Path, cubin: &[u8]) -> Result<String, String> {
    let output = || -> io::Result<_> {
        let mut file = tempfile::Builder::new().suffix(".cubin").tempfile()?;
        io::Write::write_all(&mut file, cubin)?;
        Command::new(program).arg("--print-code").arg(file.path()).stdin(Stdio::null()).output()
    };
    let output = output().map_err(|error| format!("`{}`: {error}", program.display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{}` failed: {}", program.display(), said.trim()))
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn the_first_disassembler_that_takes_the_code_is_used() {
        let home = tempfile::tempdir().unwrap();
        let script = |name: &str, script: &str| {
            let bin = home.path().join(name).join("bin");
            std::fs::create_dir_all(&bin).unwrap();
            testing::program(&bin, "nvdisasm", script);
            home.path().join(name)
        };
        let old = script("old", "echo 'unknown architecture' >&2; exit 1");
        let new = script("new", "echo disassembled; cat \"$2\"");
        let paths = SearchPaths { cuda_homes: vec![old.clone(), new], ..SearchPaths::default() };
        let text = disassemble(b"code", &paths, Network::Forbidden, &mut |_| {}).unwrap();
        assert_eq!(text, "disassembled\ncode");

        let paths = SearchPaths { cuda_homes: vec![old], ..SearchPaths::default() };
        let error = disassemble(b"code", &paths, Network::Forbidden, &mut |_| {}).unwrap_err();
        let error = error.to_string();
        for words in ["failed: unknown architecture", "this run is offline", "CUDA_HOME"] {
            assert!(error.contains(words), "{error}");
        }
    }
}
