//! The command line: parses arguments, calls the other rooms and prints. The only room that prints, reads
//! the environment and exits. Each command and its arguments have a file; `arguments` has what several share.

mod arguments;
mod check;
mod compare;
mod console;
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
mod tune;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use check::CheckArguments;
use compare::CompareArguments;
use console::Console;
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
#[command(after_help = "Exit codes: 0 done, 1 the work failed, 2 wrong usage.")]
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
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.command {
        None => tune::main(&arguments.tune),
        Some(Command::Tune(tune)) => tune::main(&tune),
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
        Some(Command::Worker) => worker(),
    }
}

/// Serves as a worker process.
fn worker() -> ExitCode {
    // A terminal sends Ctrl-C to the whole process group. Only the parent reacts to it.
    let _ = ctrlc::set_handler(|| {});
    match crate::worker::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            Console::plain().error(&error.to_string());
            ExitCode::FAILURE
        }
    }
}
