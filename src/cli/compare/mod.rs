//! `gemm-tune compare`: recorded winners beside the libraries, the ladder and chosen configurations,
//! measured now.

mod lineup;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use crate::cli::arguments::{CommonArguments, FamilyArguments, ProblemArguments, RigArguments};
use crate::cli::console::Console;
use crate::cli::output::finish;
use crate::cli::rig::{Rig, in_turn, notes};
use crate::cli::{Failure, databases, request};
use crate::database::Database;
use crate::model::Regime;
use crate::report::comparison::{self, Compared};
use crate::tune::retime;

/// Times the winners of a database again, each in turn with cuBLAS and the fastest of cuBLASLt's
/// routines, and says by how much they are faster. The speed-up is the library's time over the
/// winner's, with its interval at a confidence of 96 %.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 all were compared, 1 one was not, 2 wrong usage.",
    mut_arg("shape", |shape| {
        shape.help("Shape to compare on, such as 4096x4096x1024; may be repeated")
    }),
    mut_arg("device", |device| {
        device.help("Device to compare on: auto, cuda:N, or cpu, which knows no library")
    })
)]
pub(in crate::cli) struct CompareArguments {
    #[command(flatten)]
    problems: ProblemArguments,
    /// Number of independent products
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    batch: u64,
    #[command(flatten)]
    rig: RigArguments,
    /// Measure each rung of the ladder too: the reference kernels, from one thread an element upwards
    #[arg(long)]
    ladder: bool,
    /// Configuration to measure too; may be repeated. What is not named is the family's default
    #[arg(long, value_name = "FAMILY:NAME=VALUE,...")]
    config: Vec<String>,
    /// File to draw TFLOP/s over size into, as SVG; needs two sizes at least
    #[arg(long, value_name = "OUT.svg")]
    plot: Option<PathBuf>,
    /// Print comma-separated values instead of a table
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    #[command(flatten)]
    families: FamilyArguments,
    #[command(flatten)]
    common: CommonArguments,
}

/// Compares, prints and gives the exit code.
pub(in crate::cli) fn main(arguments: &CompareArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    finish(console, run(arguments, console))
}

fn run(arguments: &CompareArguments, console: Console) -> Result<(Value, ExitCode), Failure> {
    let problems = arguments.problems.all(arguments.batch)?;
    if problems.is_empty() {
        return Err(request::no_shape("compare on", "gemm-tune compare"));
    }
    let RigArguments { db, device, seed } = &arguments.rig;
    let mut kit =
        Rig::new(device, &arguments.families, &arguments.common, console)?.kit(console)?;
    let device = kit.machine.device();
    let path = databases::of(&device, db.as_deref());
    if arguments.ladder || !arguments.config.is_empty() || arguments.plot.is_some() {
        return lineup::run(arguments, &problems, &path, &mut kit, console);
    }
    let database = Database::load_existing(&path).map_err(Failure::work)?;
    let regime = Regime::default();
    let mut compared = Vec::new();
    for problem in in_turn(&problems, console)? {
        let Some(record) = database.find(problem, &device, regime) else {
            let why = format!("no record of {} in {}", device.name, path.display());
            compared.push(Compared::without(*problem, why));
            continue;
        };
        let (family, configuration) = databases::kernel(record, &kit.families)?;
        let winner = (family.as_str(), &configuration);
        let on_event = &mut notes(console);
        let retimed = retime(problem, winner, None, &mut kit, (regime, *seed), on_event)
            .map_err(Failure::work)?;
        compared.push(Compared::of(*problem, retimed));
    }
    if arguments.csv {
        console.result(&comparison::csv(&compared));
    } else {
        console.result(&comparison::table(&compared, &device, console.width()));
    }
    let whole = compared.len() == problems.len()
        && compared.iter().all(|compared| compared.failure().is_none());
    let code = if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok((comparison::document(&compared, &device), code))
}
