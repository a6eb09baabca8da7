//! `gemm-tune cover`: makes the map of a GPU.

mod map_run;

use crate::cli::arguments::TypeArguments;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use super::arguments::{CommonArguments, DeviceArguments, FamilyArguments, heading};
use super::console::Console;
use super::failure::Failure;
use super::machine::Workshop;
use super::output::finish;
use super::{databases, interrupt, request, trace};
use crate::compile::CompileThreads;
use crate::database::WritableDatabase;
use crate::model::{Epilogue, Problem};
use crate::predict::DrawLimits;
use crate::report::mapped;
use crate::session::cover::{CoverLog, MapGoal, MapProblems, cover};
use crate::space::Family;
use map_run::MapRun;

/// How often the deadline is looked at.
const TICK: Duration = Duration::from_millis(50);

/// Makes the map of a GPU. Draws problems as users have them, tunes those where lookup's answers are expected to be worst,
/// and trains the learned model on them. Ends when answers for problems that nobody tuned are nearly as good as tuned
/// kernels. Every fourth problem is taken at random; these estimate how much slower answers are (the held-out regret). With
/// `--shapes` or `--trace` the map is made of the problems that matter to you. The log lies beside the database, as
/// `results/nvidia-l4.cover.jsonl`: an interrupted map goes on where it was.
#[derive(Debug, Args)]
#[command(
    after_help = "\
Examples:
  gemm-tune cover --budget 20m
  gemm-tune cover --regret 5% --device cuda:all
  gemm-tune cover --trace trace.json --budget 10m",
    mut_arg("device", |device| {
        device.help("Device to map: auto, cuda:N, cuda:all, or cpu, which models times")
    })
)]
pub(super) struct CoverArguments {
    /// Held-out regret to end at: how much longer answers take than tuned kernels, in the geometric mean
    #[arg(long, default_value = "5%", value_name = "PERCENT", help_heading = heading::SEARCH)]
    regret: String,
    /// Time after which the map is ended, such as 20m [default: none]
    #[arg(long, value_name = "TIME", help_heading = heading::SEARCH)]
    budget: Option<String>,
    /// File with one shape a line, layout and batch behind it: the map is made of these problems, and ends when all are tuned
    #[arg(long, value_name = "FILE", help_heading = heading::PROBLEM)]
    shapes: Option<PathBuf>,
    /// Trace of a program, as `gemm-tune trace` writes it: the map is made of its problems, without their
    /// epilogues. Those that take more of its time are tuned before others with answers as uncertain
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shapes", "dtype", "out_dtype", "compute"], help_heading = heading::PROBLEM)]
    trace: Option<PathBuf>,
    #[command(flatten)]
    types: TypeArguments,
    #[command(flatten)]
    device: DeviceArguments,
    /// Tuning database to write; the learned model is written beside it [default: results/<gpu>.toml]
    #[arg(long, value_name = "PATH", help_heading = heading::DEVICE)]
    db: Option<PathBuf>,
    /// File of measured times to learn from too, as of `learn --times`; may be repeated
    #[arg(long, value_name = "FILE", help_heading = heading::SEARCH)]
    times: Vec<PathBuf>,
    /// Most operations of a drawn problem, as a number such as 2e12
    #[arg(long, conflicts_with_all = ["shapes", "trace"], default_value_t = DrawLimits::default().operations, value_name = "N", help_heading = heading::PROBLEM)]
    max_operations: f64,
    /// Seed of the problems, of the searches and of the operands
    #[arg(long, default_value_t = 0, help_heading = heading::SEARCH)]
    seed: u64,
    /// Begin as on an unknown GPU: without seeds and without the built-in learned model
    #[arg(long, help_heading = heading::SEARCH)]
    uninformed: bool,
    /// Compiler threads [default: one for each core]
    #[arg(long, value_name = "N", help_heading = heading::COMPILER)]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    families: FamilyArguments,
    #[command(flatten)]
    common: CommonArguments,
}

/// Makes the map, prints and gives the exit code.
pub(super) fn main(arguments: &CoverArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    finish(console, run(arguments, console))
}

fn run(arguments: &CoverArguments, console: Console) -> Result<(Value, ExitCode), Failure> {
    let pattern = request::pattern(&arguments.types, 1)?;
    if !pattern.epilogue.is_empty() {
        let what =
            "the map has problems without an epilogue only: tune those with one by `--shapes`";
        return Err(Failure::Usage(what.to_owned()));
    }
    let goal = MapGoal {
        regret: request::fraction(&arguments.regret)?,
        problems: problems(arguments, pattern, console)?,
        seed: arguments.seed,
    };
    let jobs = request::jobs(arguments.jobs)?;
    let budget = arguments.budget.as_deref().map(request::time).transpose()?;
    let (mut families, templates) = request::families(&arguments.families)?;
    if arguments.uninformed {
        families = families.into_iter().map(Family::without_seeds).collect();
    }
    let workshop = Workshop::new(&arguments.common)?;
    let wish = arguments.device.wish()?;
    let machine = workshop.machine(wish.clone(), console)?;
    let device = machine.device();
    let database = databases::of(&device, arguments.db.as_deref());
    WritableDatabase::check(&database, &device).map_err(Failure::work)?;
    let beside = [database.as_path()];
    let learned = if arguments.uninformed {
        databases::learned_model_beside(beside, &device)?.unwrap_or_default()
    } else {
        databases::learned_model(beside, &device, console)?
    };
    let predictor = databases::noted(learned.clone(), (&families, &templates), console);
    let compiler = workshop.compiler(&machine, console)?;
    drop(machine);
    let (major, minor) = compiler.nvrtc().version();
    let (log, mut steps) =
        CoverLog::open(&database.with_extension("cover.jsonl")).map_err(Failure::work)?;
    steps.retain(|step| goal.problems.has(&step.problem));
    if !steps.is_empty() {
        console.note(&format!("going on after {}", mapped::counted(steps.len(), "problem")));
    }
    let stop = interrupt::listen()?;
    let begun = Instant::now();
    let mut map = MapRun {
        journals: workshop.cache.join("journal"),
        workshop: &workshop,
        wish,
        console,
        families,
        templates,
        device: device.clone(),
        database: database.clone(),
        times: &arguments.times,
        predictor: Arc::new(predictor),
        base: learned,
        compiler: Arc::new(compiler),
        nvrtc: format!("{major}.{minor}"),
        threads: CompileThreads::new(jobs).map_err(Failure::work)?,
        seed: arguments.seed,
        log,
        begun,
        over: deadline(&stop, budget, begun),
    };
    let (steps, state) = cover(&goal, steps, &mut map)?;
    console.result(&mapped::summary(&steps, &state, &goal, (&device, console.table_style())));
    let document = mapped::document(&steps, &state, &device, &database);
    Ok((document, ExitCode::SUCCESS))
}

/// What the map is made of.
fn problems(
    arguments: &CoverArguments,
    pattern: Problem,
    console: Console,
) -> Result<MapProblems, Failure> {
    let list: Vec<(Problem, f64)> = if let Some(file) = &arguments.shapes {
        let problems = request::problems(&[], Some(file), pattern)?;
        problems.into_iter().map(|problem| (problem, 1.0)).collect()
    } else if let Some(file) = &arguments.trace {
        let problems = trace::read(file)?.weighted_problems().into_iter();
        let plain = |problem| Problem { epilogue: Epilogue::NONE, ..problem };
        problems.map(|(problem, weight)| (plain(problem), weight)).collect()
    } else {
        return Ok(MapProblems::drawn(pattern.types, limits(arguments.max_operations)?));
    };
    let problems = MapProblems::listed(list);
    match problems.count().unwrap_or(0) {
        0 => Err(Failure::Usage("the trace has no product to tune".to_owned())),
        count => {
            console.note(&format!("a map of {}", mapped::counted(count, "problem")));
            Ok(problems)
        }
    }
}

/// Limits on drawn problems.
fn limits(operations: f64) -> Result<DrawLimits, Failure> {
    if operations.is_finite() && operations >= 1e6 {
        return Ok(DrawLimits { operations, ..DrawLimits::default() });
    }
    Err(Failure::Usage(format!(
        "`--max-operations {operations}` leaves too few problems: give 1e6 or more"
    )))
}

/// A flag that is set at the end of a budget, or when the program is to stop.
fn deadline(stop: &Arc<AtomicBool>, budget: Option<Duration>, begun: Instant) -> Arc<AtomicBool> {
    let Some(budget) = budget else { return Arc::clone(stop) };
    let (stop, over) = (Arc::clone(stop), Arc::new(AtomicBool::new(false)));
    let set = Arc::clone(&over);
    thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) && begun.elapsed() < budget {
            thread::sleep(TICK);
        }
        set.store(true, Ordering::Relaxed);
    });
    over
}
