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
mod known_records;
mod learn;
mod lookup;
mod machine;
mod manual;
mod measure_context;
mod new_family;
mod output;
mod progress;
mod progress_bar;
mod replay;
mod report;
mod request;
mod session_display;
mod streams;
mod trace;
mod tune;

use std::process::ExitCode;

#[doc(hidden)]
pub use request::count_shapes;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};
use serde_json::json;

use arguments::OutputFormat;
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
use manual::{CompletionArguments, ManArguments};
use new_family::NewFamilyArguments;
use replay::ReplayArguments;
use report::ReportArguments;
use trace::TraceArguments;
use tune::TuneArguments;

/// Finds the fastest correct CUDA matrix-multiplication kernel for a shape on this machine's GPU.
#[derive(Debug, Parser)]
#[command(name = "gemm-tune", version, args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  gemm-tune 4096x4096x1024                          tune on the first GPU, else on the host
  gemm-tune 512 --dtype f16 --layout nt --batch 16  another type, layout and a batch
  gemm-tune lookup 960x1100x2048                    the kernel for a shape that nobody tuned
  gemm-tune export --format c -o kernels            ship the winners
  gemm-tune inspect 4096x4096x1024                  look at the kernel

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
    #[command(after_help = "\
Examples:
  gemm-tune tune 4096x4096x1024 --budget 60s
  gemm-tune tune --shapes shapes.txt --device cuda:all
  gemm-tune tune 4096 --dtype bf16 --epilogue bias,gelu --effort full
  gemm-tune tune 4096x4096x1024 --dry-run")]
    Tune(TuneArguments),
    /// Record the matrix products of a PyTorch program, to tune them
    Trace(TraceArguments),
    /// Find the kernel to use for a shape, tuned or not
    Lookup(LookupArguments),
    /// Write kernels in the forms that other programs read: C, Python, Rust, bundle, JSON, CSV
    Export(ExportArguments),
    /// Show the kernel for a shape or how two differ: source, PTX, machine code, resources, memory traffic
    Inspect(InspectArguments),
    /// Explain why a kernel is as fast as it is: what bounds it, what its parameters do, which kernels came close
    Explain(ExplainArguments),
    /// Measure recorded winners beside the libraries, in turn
    Compare(CompareArguments),
    /// Draw winners and their searches as one HTML page
    Report(ReportArguments),
    /// List, show, merge, prune and verify tuning databases
    Db(DbArguments),
    /// Make the map of a GPU: tune the shapes whose lookups are expected to be worst
    Cover(CoverArguments),
    /// Choose a few kernels for many shapes, and a decision tree between them
    Dispatch(DispatchArguments),
    /// Execute configurations of families on the host with every check on: no GPU is needed
    Check(CheckArguments),
    /// Write the two files of a new family: a kernel that works, to begin with
    NewFamily(NewFamilyArguments),
    /// Learn the times of kernels from journals, to predict them in searches and lookup
    Learn(LearnArguments),
    /// Play a search strategy against recorded times, and report how fast it approaches the best
    Replay(ReplayArguments),
    /// Report what this machine can do, and how to fix what it cannot
    Doctor(DoctorArguments),
    /// Print the completions of a shell
    Completions(CompletionArguments),
    /// Print the manual page
    Man(ManArguments),
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

/// The tree of commands and arguments, from which `docs/reference/commands.md` is generated.
#[doc(hidden)]
pub fn command() -> clap::Command {
    Arguments::command()
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

/// Prints an error as a document, where the arguments, which may be wrong, ask for JSON.
fn json_error(message: &str) {
    let words: Vec<_> = std::env::args_os().take_while(|word| word != "--").collect();
    let json = words.iter().any(|word| word == "--json" || word == "--output-format=json")
        || words.windows(2).any(|pair| pair[0] == "--output-format" && pair[1] == "json");
    if json {
        Console::of_results(OutputFormat::Json).document(&json!({ "error": message }));
    }
}

fn run(arguments: Arguments) -> ExitCode {
    match arguments.command {
        None => tune::main(&arguments.tune),
        Some(Command::Tune(tune)) => tune::main(&tune),
        Some(Command::Trace(trace)) => trace::main(&trace),
        Some(Command::Cover(cover)) => cover::main(&cover),
        Some(Command::Check(check)) => check::main(&check),
        Some(Command::NewFamily(new)) => new_family::main(&new),
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
        Some(Command::Completions(shell)) => manual::completions(&shell, Arguments::command()),
        Some(Command::Man(man)) => manual::man(&man, Arguments::command()),
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
