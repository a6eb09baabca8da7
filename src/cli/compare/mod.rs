//! `gemm-tune compare`: recorded winners beside the libraries, the ladder and chosen configurations,
//! measured now.

mod lineup;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use serde_json::Value;

use crate::cli::arguments::{CommonArguments, FamilyArguments};
use crate::cli::console::Console;
use crate::cli::machine::{Wish, Workshop};
use crate::cli::output::finish;
use crate::cli::{Failure, interrupt, request};
use crate::compile::CompileThreads;
use crate::database::Database;
use crate::model::{Layout, Problem, Regime};
use crate::report::comparison::{self, Compared};
use crate::tune::{Event, Kit, retime};

/// Times the winners of a database again, each in turn with cuBLAS and the fastest of cuBLASLt's
/// routines, and says by how much they are faster. The speed-up is the library's time over the
/// winner's, with its interval at a confidence of 96 %.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 all were compared, 1 one was not, 2 wrong usage.")]
pub(in crate::cli) struct CompareArguments {
    /// Shape to compare on, such as 4096x4096x1024; may be repeated
    #[arg(long, value_name = "MxNxK")]
    shape: Vec<String>,
    /// File with one shape a line, layout and batch behind it if they differ: `512x512x512 nt x16`
    #[arg(long, value_name = "FILE")]
    shapes: Option<PathBuf>,
    /// How elements are stored: f32 or i32
    #[arg(long, default_value = "f32")]
    dtype: String,
    /// Whether A and B are used as stored (n) or transposed (t): nn, nt, tn or tt
    #[arg(long, default_value = "nn")]
    layout: String,
    /// Number of independent products
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    batch: u64,
    /// Database with the winners [default: results/<gpu>.toml]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Device to compare on: auto, cuda:N, or cpu, which knows no library
    #[arg(long, default_value = "auto")]
    device: String,
    /// Seed of the operands
    #[arg(long, default_value_t = 0)]
    seed: u64,
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
    let problems = problems(arguments)?;
    let wish: Wish = arguments.device.parse()?;
    let (families, templates) = request::families(&arguments.families)?;
    let workshop = Workshop::new(&arguments.common)?;
    let machine = workshop.machine(wish, console)?;
    let device = machine.device();
    let own = || Path::new("results").join(device.slug() + ".toml");
    let path = arguments.db.clone().unwrap_or_else(own);
    let is_line_up = arguments.ladder || !arguments.config.is_empty() || arguments.plot.is_some();
    let compiler = Arc::new(workshop.compiler(&machine, console)?);
    let threads = CompileThreads::new(request::jobs(None)).map_err(Failure::work)?;
    let mut kit = Kit { families, templates, compiler, threads, machine };
    if is_line_up {
        return lineup::run(arguments, &problems, &path, &mut kit, console);
    }
    let database = Database::load_existing(&path).map_err(Failure::work)?;
    let stop = interrupt::listen()?;
    let regime = Regime::default();
    let mut compared = Vec::new();
    for (number, problem) in problems.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            console.note("stopped as asked");
            break;
        }
        console.note(&format!("{} of {}: {problem}", number + 1, problems.len()));
        let Some(record) = database.find(problem, &device, regime) else {
            let why = format!("no record of {} in {}", device.name, path.display());
            compared.push(Compared::without(*problem, why));
            continue;
        };
        let configuration = record.configuration();
        let winner = (record.family.as_str(), &configuration);
        let on_event = &mut |event: Event<'_>| {
            if let Event::Note(note) = event {
                console.note(&note);
            }
        };
        let seed = arguments.seed;
        let retimed = retime(problem, winner, None, &mut kit, (regime, seed), on_event)
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

fn problems(arguments: &CompareArguments) -> Result<Vec<Problem>, Failure> {
    let pattern = request::pattern(&arguments.dtype, None, arguments.batch)?;
    let layout: Layout = arguments.layout.parse().map_err(Failure::usage)?;
    let pattern = Problem { layout, ..pattern };
    let shapes = request::shapes(&arguments.shape)?.into_iter();
    let mut problems: Vec<Problem> = shapes
        .map(|shape| request::problem(Problem { shape, ..pattern }))
        .collect::<Result<_, _>>()?;
    if let Some(file) = &arguments.shapes {
        problems.extend(request::shapes_file(file, pattern)?);
    }
    if problems.is_empty() {
        return Err(Failure::Usage(
            "nothing to compare on: give a shape, as in `gemm-tune compare --shape \
             4096x4096x1024`, or `--shapes FILE`"
                .to_owned(),
        ));
    }
    Ok(problems)
}
