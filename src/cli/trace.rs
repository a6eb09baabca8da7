//! `gemm-tune trace`: runs a Python program and records the matrix products of PyTorch in it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;
use serde_json::Value;

use super::arguments::OutputArguments;
use super::console::Console;
use super::failure::Failure;
use super::interrupt;
use super::output::{finish, is_stdout, write};
use crate::export::TRACE_MODULE;
use crate::files::{self, InputKind};
use crate::report::traced;
use crate::session::Trace;

/// Runs a Python program, and records the matrix products that PyTorch computes in it and in its child processes: their
/// problems, how often, and how long they take. `gemm-tune --trace FILE` tunes what was found. Nothing of the program is
/// changed, but compiled models run in eager mode meanwhile.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gemm-tune trace -o trace.json -- python serve.py --port 8000
  gemm-tune --trace trace.json")]
pub(super) struct TraceArguments {
    /// File to write the trace to
    #[arg(short, long = "output", default_value = "trace.json", value_name = "FILE")]
    out: PathBuf,
    /// The program and its arguments, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    output: OutputArguments,
}

/// What Python runs when it starts: begins to record, and then runs the file of that name that it would have run.
const SITE: &str = r#""""Begins the records of `gemm-tune trace` in a Python process."""

import importlib.machinery
import importlib.util
import os
import sys

import gemm_tuned_trace

gemm_tuned_trace.install()
_own = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [one for one in sys.path if os.path.abspath(one or os.curdir) != _own]
_other = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
if _other is not None:
    _other.loader.exec_module(importlib.util.module_from_spec(_other))
"#;

/// Variable with the folder that each process writes its records to.
const FOLDER: &str = "GEMM_TUNED_TRACE_FOLDER";

/// Runs the program, prints what it multiplies, and gives the exit code.
pub(super) fn main(arguments: &TraceArguments) -> ExitCode {
    let console = Console::of_output(&arguments.output);
    finish(console, run(arguments, console))
}

fn run(arguments: &TraceArguments, console: Console) -> Result<(Value, ExitCode), Failure> {
    if is_stdout(&arguments.out) {
        return Err(Failure::Usage(
            "`-o -` is where the program writes: name a file with `-o FILE`".to_owned(),
        ));
    }
    let unmade = |error| Failure::Work(format!("cannot make a temporary folder: {error}"));
    let folder = tempfile::tempdir().map_err(unmade)?;
    let (modules, records) = (folder.path().join("modules"), folder.path().join("records"));
    for folder in [&modules, &records] {
        fs::create_dir(folder).map_err(unmade)?;
    }
    let (name, text) = TRACE_MODULE;
    for (name, text) in [(name, text), ("sitecustomize.py", SITE)] {
        files::replace(&modules.join(name), text.as_bytes()).map_err(unmade)?;
    }
    let ended = ended(&arguments.command, &modules, &records)?;
    let trace = recorded(&records)?.ok_or_else(|| {
        Failure::Work(format!(
            "{}and no product of PyTorch was seen: give a program that imports torch, in a Python that reads \
             PYTHONPATH, not `python -I` or `python -E`",
            ended.as_deref().map_or("the program ended, ".to_owned(), |how| format!("{how}, "))
        ))
    })?;
    write(&arguments.out, trace.text().as_bytes())?;
    console.result(&traced::table(&trace, console.table_style()));
    let out = arguments.out.display();
    console.note(&format!("written to {out}; `gemm-tune --trace {out}` tunes it"));
    let code = match ended {
        None => ExitCode::SUCCESS,
        Some(how) => {
            console.error(&format!("{how}; {out} has what it multiplied until then"));
            ExitCode::FAILURE
        }
    };
    Ok((traced::document(&trace), code))
}

/// Runs a program to its end; what is wrong with the end.
fn ended(words: &[OsString], modules: &Path, records: &Path) -> Result<Option<String>, Failure> {
    let [program, arguments @ ..] = words else { return Ok(None) };
    let known = env::var_os("PYTHONPATH").filter(|known| !known.is_empty());
    let known = known.iter().flat_map(env::split_paths);
    let path = env::join_paths([modules.to_owned()].into_iter().chain(known))
        .map_err(|error| Failure::Work(format!("cannot extend PYTHONPATH: {error}")))?;
    let mut command = Command::new(program);
    command.args(arguments).env("PYTHONPATH", path).env(FOLDER, records);
    let name = program.display();
    let unstarted = |error| Failure::Work(format!("cannot run `{name}`: {error}"));
    // A terminal sends Ctrl-C to the program too, which writes its records then.
    let signals = interrupt::watch()?;
    let mut child = command.spawn().map_err(unstarted)?;
    signals.pass_to(child.id());
    let status = child.wait().map_err(unstarted)?;
    Ok((!status.success()).then(|| format!("`{name}` ended with {status}")))
}

/// The trace of all processes; `None` where none has a product.
fn recorded(folder: &Path) -> Result<Option<Trace>, Failure> {
    let unread = |error| Failure::Work(format!("cannot read `{}`: {error}", folder.display()));
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unread)? {
        paths.push(entry.map_err(unread)?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let traces = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let is_empty = |trace: &Trace| trace.products.is_empty() && trace.others.is_empty();
    Ok(Trace::of_processes(traces.into_iter().filter(|trace| !is_empty(trace)).collect()))
}

/// Reads a trace.
pub(super) fn read(path: &Path) -> Result<Trace, Failure> {
    let name = path.display();
    let text = files::read_text(path, InputKind::Trace)
        .map_err(|error| Failure::Usage(format!("cannot read `{name}`: {error}")))?;
    Trace::parse(&text).map_err(|error| Failure::Usage(format!("`{name}`: {error}")))
}
