//! The command line: the only room that prints, reads the environment, looks at the clock and
//! exits. One file a command.

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
mod shard;
mod tune;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
use console::Console;

/// Why a command ended without doing what it was asked.
#[derive(Debug)]
enum Failure {
    /// The command makes no sense as typed: exit code 2.
    Usage(String),
    /// What was asked for failed: exit code 1.
    Work(String),
}

impl Failure {
    fn work(error: impl std::fmt::Display) -> Self {
        Self::Work(error.to_string())
    }

    fn usage(error: impl std::fmt::Display) -> Self {
        Self::Usage(error.to_string())
    }

    fn message(&self) -> &str {
        match self {
            Self::Usage(message) | Self::Work(message) => message,
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Work(_) => ExitCode::FAILURE,
        }
    }
}

/// Reads the command line and does what it says.
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

/// The life of a worker process.
fn worker() -> ExitCode {
    // A terminal sends Ctrl-C to the whole group; only the parent decides what it ends.
    let _ = ctrlc::set_handler(|| {});
    match crate::worker::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            Console::plain().error(&error.to_string());
            ExitCode::FAILURE
        }
    }
}
