//! The command line: parses arguments, calls the other rooms and prints. The only room that prints, reads
//! the environment and exits. Each command and its arguments have a file; `arguments` has what several share.

mod address_space;
mod arguments;
mod check;
mod compare;
mod console;
mod cover;
mod databases;
mod db;
mod dispatch;
mod doctor;
mod environment;
mod eta;
mod explain;
mod export;
mod failure;
mod highlight;
mod inspect;
mod inspect_context;
mod interrupt;
mod journals;
mod learn;
mod lookup;
mod machine;
mod measure_context;
mod output;
mod progress;
mod progress_bar;
mod regret;
mod replay;
mod report;
mod request;
mod session_display;
mod streams;
mod tune;

use std::process::ExitCode;

#[doc(hidden)]
pub use request::count_shapes;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};
use serde_json::json;

use check::CheckArguments;
use compare::CompareArguments;
use console::Console;
use cover::CoverArguments;
use db::DbArguments;
use dispatch::DispatchArguments;
use doctor::DoctorArguments;
use explain::ExplainArguments;
use export::ExportArguments;
use inspect::InspectArguments;
use learn::LearnArguments;
use lookup::LookupArguments;
use regret::RegretArguments;
use replay::ReplayArguments;
use report::ReportArguments;
use tune::TuneArguments;

/// Finds the fastest correct CUDA matrix-multiplication kernel for a shape on this machine's GPU.
#[derive(Debug, Parser)]
#[command(name = "gemm-tune", version, args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Exit codes:
    0  done; also where the reader of the output closed its pipe
    1  the work failed, or its output cannot be written (a full disk); what was done is kept
    2  wrong usage
  130  ended by SIGINT (Ctrl-C), 143 by SIGTERM, 129 by SIGHUP: what was found so far is kept")]
struct Arguments {
    #[command(flatten)]
    tune: TuneArguments,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tune one or more shapes: the main job, also done when no command is named
    Tune(TuneArguments),
    /// Make the map of a GPU: tune what its lookups answer worst, until they are nearly as good as tuned kernels
    Cover(CoverArguments),
    /// Execute configurations of families on the host, watched by every check: no GPU is needed
    Check(CheckArguments),
    /// Measure recorded winners beside the libraries, in turn
    Compare(CompareArguments),
    /// Play a search strategy against recorded times, and report how fast it approaches the best
    Replay(ReplayArguments),
    /// Learn the times of kernels from journals, to predict them in searches and lookup
    Learn(LearnArguments),
    /// Find the kernel to use for a shape, tuned or not
    Lookup(LookupArguments),
    /// List, show, merge, prune and verify tuning databases
    Db(DbArguments),
    /// Measure how much slower lookup's answers are than the winners of shapes that are held out
    Regret(RegretArguments),
    /// Choose a few kernels for many shapes, and a decision tree between them
    Dispatch(DispatchArguments),
    /// Write winners and evaluated configurations in the forms that other programs read
    Export(ExportArguments),
    /// Show a kernel or how two differ: source, PTX, machine code, resources, memory traffic
    Inspect(InspectArguments),
    /// Explain why a winner wins: what bounds it, what each parameter does, which kernels came close
    Explain(ExplainArguments),
    /// Draw winners and their searches as one HTML page
    Report(ReportArguments),
    /// Report what this machine can do, and how to fix what it cannot
    Doctor(DoctorArguments),
    /// Serve a device to the program that started this process
    #[command(hide = true)]
    Worker,
    /// Compile for the program that started this process
    #[command(hide = true)]
    CompileWorker,
    /// Render templates for the program that started this process
    #[command(hide = true)]
    RenderWorker,
}

/// Refuses a command behind options, which would be read as a shape.
fn with_the_command_first(arguments: Arguments) -> Result<Arguments, clap::Error> {
    let mut known = Arguments::command();
    let misplaced =
        arguments.tune.shape_words.iter().find(|word| known.find_subcommand(word).is_some());
    match misplaced {
        None => Ok(arguments),
        Some(word) => {
            let message =
                format!("`{word}` is a command: write it first, as in `gemm-tune {word} --help`");
            Err(known.error(ErrorKind::ArgumentConflict, message))
        }
    }
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    environment::leave_relative_library_folders();
    interrupt::survive_file_limits();
    if let Some(shortage) = address_space::shortage() {
        Console::plain().error(&shortage);
        json_error(&shortage);
        return ExitCode::FAILURE;
    }
    match Arguments::try_parse().and_then(with_the_command_first) {
        Ok(arguments) => run(arguments),
        Err(unparsed) => not_run(&unparsed),
    }
}

/// Prints the help or the version that was asked for, or what is wrong with the arguments.
fn not_run(unparsed: &clap::Error) -> ExitCode {
    let text = unparsed.render();
    if !unparsed.use_stderr() {
        streams::out(&text.ansi().to_string());
        return streams::lost().map_or(ExitCode::SUCCESS, |lost| {
            Console::plain().error(&lost);
            ExitCode::FAILURE
        });
    }
    streams::err(&text.ansi().to_string());
    let text = text.to_string();
    json_error(text.trim_end().strip_prefix("error: ").unwrap_or(text.trim_end()));
    ExitCode::from(2)
}

/// Prints an error as a document, where the arguments, which may be wrong, have `--json`.
fn json_error(message: &str) {
    let json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    Console::of_results(json).document(&json!({ "error": message }));
}

fn run(arguments: Arguments) -> ExitCode {
    match arguments.command {
        None => tune::main(&arguments.tune),
        Some(Command::Tune(tune)) => tune::main(&tune),
        Some(Command::Cover(cover)) => cover::main(&cover),
        Some(Command::Check(check)) => check::main(&check),
        Some(Command::Compare(compare)) => compare::main(&compare),
        Some(Command::Replay(replay)) => replay::main(&replay),
        Some(Command::Learn(learn)) => learn::main(&learn),
        Some(Command::Db(db)) => db::main(&db),
        Some(Command::Inspect(inspect)) => inspect::main(&inspect),
        Some(Command::Explain(explain)) => explain::main(&explain),
        Some(Command::Report(report)) => report::main(&report),
        Some(Command::Doctor(doctor)) => doctor::main(&doctor),
        Some(Command::Lookup(lookup)) => lookup::main(&lookup),
        Some(Command::Export(export)) => export::main(&export),
        Some(Command::Dispatch(dispatch)) => dispatch::main(&dispatch),
        Some(Command::Regret(regret)) => regret::main(&regret),
        Some(Command::Worker) => serve(crate::worker::serve),
        Some(Command::CompileWorker) => serve(crate::compile::children::serve),
        Some(Command::RenderWorker) => serve(crate::render::serve_templates),
    }
}

/// Serves as a child process.
fn serve<E: std::fmt::Display>(work: fn() -> Result<(), E>) -> ExitCode {
    // A terminal sends Ctrl-C to the whole process group. Only the parent reacts to it.
    interrupt::ignore();
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            Console::plain().error(&error.to_string());
            ExitCode::FAILURE
        }
    }
}
