//! `gemm-tune tune`: tunes the shapes on the command line and records the winners.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use serde_json::{Value, json};

use super::arguments::{
    CommonArguments, DeviceArguments, FamilyArguments, PatternArguments, heading,
};
use super::console::Console;
use super::environment::variable;
use super::failure::Failure;
use super::machine::Workshop;
use super::output::finish;
use super::session_display::{SessionDisplay, document};
use super::{databases, interrupt, request, trace};
use crate::compile::CompileThreads;
use crate::database::{ReplacePolicy, WritableDatabase};
use crate::measure::TieRule;
use crate::model::{Device, Problem};
use crate::predict::Predictor;
use crate::report::{json as documents, traced, tuned};
use crate::search;
use crate::session::{
    self, COVERED, KernelTimes, ProblemOutcome, ProblemResult, SessionDevice, SessionPlan, Shard,
    Trace, TraceGain,
};
use crate::space::Family;
use crate::tune::{Hints, Settings, spaces};

/// Searches the kernels of all families for each shape, validates every candidate, measures the fastest in turn with the
/// libraries, and records the winner in the tuning database.
#[derive(Debug, Args)]
#[command(mut_arg("device", |device| {
    device.help("Device to tune on: auto, cuda:N, cuda:all, or cpu, which validates for real and models times")
}))]
pub(super) struct TuneArguments {
    /// Shape to tune, such as 4096x4096x1024, 512 for a cube, or '512x512x512 nt x16'; may be repeated
    #[arg(value_name = "SHAPE")]
    pub(super) shape_words: Vec<String>,
    /// The same as an option
    #[arg(long, value_name = "MxNxK", help_heading = heading::PROBLEM)]
    shape: Vec<String>,
    /// File with one shape a line, layout and batch behind it if they differ: `512x512x512 nt x16`
    #[arg(long, value_name = "FILE", help_heading = heading::PROBLEM)]
    shapes: Option<PathBuf>,
    /// Trace of a program, as `gemm-tune trace` writes it: its problems are tuned, those that take most of the time first,
    /// until the rest takes less than 5 % of it
    #[arg(long, value_name = "FILE", help_heading = heading::PROBLEM)]
    trace: Option<PathBuf>,
    /// Shard of --shapes that this process tunes: the Ith of N, I from 1; with /N, the cluster's scheduler gives I
    /// [default: the task of a Slurm array, else all]
    #[arg(long, value_name = "I/N", requires = "shapes", help_heading = heading::PROBLEM, hide_short_help = true)]
    shard: Option<String>,
    #[command(flatten)]
    pattern: PatternArguments,
    #[command(flatten)]
    device: DeviceArguments,
    /// Tuning database to write, whose winners are tried first [default: results/<gpu>.toml]
    #[arg(long, value_name = "PATH", help_heading = heading::DEVICE)]
    db: Option<PathBuf>,
    /// Replace a stored record even if it is faster
    #[arg(long, help_heading = heading::DEVICE)]
    force: bool,
    /// Search and measure everything anew, without the results of earlier runs and databases; only the record of the
    /// problem takes part in the final
    #[arg(long, help_heading = heading::SEARCH, hide_short_help = true)]
    fresh: bool,
    /// Begin as on an unknown GPU: without seeds, learned model, winners and results of earlier runs. A check of default
    /// searches that does not depend on what they know
    #[arg(long, help_heading = heading::SEARCH, hide_short_help = true)]
    uninformed: bool,
    /// Search kernels too whose bits may differ from run to run, such as those whose blocks add to C with
    /// atomic operations; records of such are marked, and only their own problems are answered with them
    #[arg(long, help_heading = heading::SEARCH, hide_short_help = true)]
    allow_nondeterministic: bool,
    /// Where operands are when a timed launch begins: rotate, not in the L2 cache, or hot, in it
    #[arg(long, default_value = "rotate", value_name = "POLICY", help_heading = heading::DEVICE, hide_short_help = true)]
    cache_policy: String,
    /// Run finalists under compute-sanitizer too, a program of CUDA's toolkit
    #[arg(long, help_heading = heading::SEARCH, hide_short_help = true)]
    sanitize: bool,
    /// Select the same winner in most runs: among finalists that differ by less than 0.5 %, the one with
    /// the fewest resources wins, though another may be significantly faster
    #[arg(long, help_heading = heading::SEARCH, hide_short_help = true)]
    stable: bool,
    /// How warm the GPU is: burst, with pauses between samples, or sustained, without
    #[arg(long, default_value = "burst", value_name = "STATE", help_heading = heading::DEVICE, hide_short_help = true)]
    power: String,
    /// How long to search: quick, until the chance is below 20 % that something 3 % better is left; normal,
    /// below 15 % for 1 %; full, until nothing is left or 10000 candidates are evaluated
    #[arg(long, default_value = "normal", value_name = "EFFORT", help_heading = heading::SEARCH)]
    effort: String,
    /// What counts as better when a search ends: a time shorter by more than this [default: by effort]
    #[arg(long, value_name = "PERCENT", help_heading = heading::SEARCH, hide_short_help = true)]
    stop_within: Option<String>,
    /// End when the chance that something better is left is below this [default: by effort; above 13%]
    #[arg(long, value_name = "PERCENT", help_heading = heading::SEARCH, hide_short_help = true)]
    stop_chance: Option<String>,
    /// Time after which a shape's search ends, such as 60s or 2m [default: none; on the cpu device 1m
    /// for quick and 4m for normal effort]
    #[arg(long, value_name = "TIME", help_heading = heading::SEARCH)]
    budget: Option<String>,
    /// Most candidates to evaluate for a shape [default: by effort 300, 1000 or 10000; a fifth of that
    /// on the cpu device]
    #[arg(long, value_name = "N", help_heading = heading::SEARCH, hide_short_help = true)]
    max_configs: Option<NonZeroUsize>,
    /// How candidates are chosen: auto, exhaustive, random, local, evolve or model
    #[arg(long, default_value = "auto", value_name = "NAME", help_heading = heading::SEARCH, hide_short_help = true)]
    search: String,
    /// Seed of the search and of the operands
    #[arg(long, default_value_t = 0, help_heading = heading::SEARCH)]
    seed: u64,
    /// Compiler threads [default: one for each core]
    #[arg(long, value_name = "N", help_heading = heading::COMPILER, hide_short_help = true)]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    families: FamilyArguments,
    /// Show what would be searched, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: CommonArguments,
}

/// Tunes, prints and gives the exit code.
pub(super) fn main(arguments: &TuneArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    finish(console, run(arguments, console))
}

fn run(arguments: &TuneArguments, console: Console) -> Result<(Value, ExitCode), Failure> {
    let jobs = request::jobs(arguments.jobs)?;
    let workshop = Workshop::new(&arguments.common)?;
    let trace = arguments.trace.as_deref().map(trace::read).transpose()?;
    let mut plan = plan(arguments, trace.as_ref(), &workshop, console)?;
    let wish = arguments.device.wish()?;
    if arguments.dry_run {
        let device = workshop.described_device(wish, console)?;
        return dry_run(&plan, &device, console);
    }
    let machine = workshop.machine(wish, console)?;
    let device = machine.device();
    check_host(arguments, &plan.settings, &device)?;
    let database = databases::of(&device, arguments.db.as_deref());
    // Before a compiler is installed.
    let writable = WritableDatabase::check(&database, &device).map_err(Failure::work)?;
    databases::note_faults(writable.unused(), console);
    if !arguments.uninformed {
        plan.predictor = Arc::new(databases::predictor(
            [database.as_path()],
            &device,
            (&plan.families, &plan.templates),
            console,
        )?);
    }
    if arguments.db.is_none() && !arguments.uninformed {
        // Winners of other GPUs are warm starts too.
        let files = databases::files(&[]).unwrap_or_default().into_iter();
        plan.other_databases = files.filter(|other| *other != database).collect();
    }
    plan.database = Some(writable);
    let compiler = workshop.compiler(&machine, console)?;
    let (major, minor) = compiler.nvrtc().version();
    let nvrtc = format!("{major}.{minor}");
    let threads = CompileThreads::new(jobs).map_err(Failure::work)?;
    let session_device =
        SessionDevice { machine, compiler: Arc::new(compiler), nvrtc: nvrtc.clone(), threads };
    let stop = interrupt::listen()?;
    let display = SessionDisplay::new(console, &device, &database);
    let on_event = |event: session::SessionEvent<'_>| display.event(&event);
    let results = session::run(&plan, session_device, &stop, &on_event).map_err(Failure::work)?;
    if stop.load(Ordering::Relaxed) {
        console.note("interrupted");
    }
    let is_won = |result: &ProblemResult| result.outcome.is_won();
    let code = if results.iter().all(is_won) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let mut document = json!({
        "gemm_tune": env!("CARGO_PKG_VERSION"),
        "device": device,
        "nvrtc": nvrtc,
        "database": database.display().to_string(),
        "results": results.iter().map(|result| document(result, &device)).collect::<Vec<_>>(),
    });
    if let Some(gain) = trace.and_then(|trace| gain(&trace, &results, &device, console)) {
        document["gain"] = traced::gain_document(&gain);
    }
    Ok((document, code))
}

/// Prints what the traced program gains by the winners. Only times of the same GPU are compared.
fn gain(
    trace: &Trace,
    results: &[ProblemResult],
    device: &Device,
    console: Console,
) -> Option<TraceGain> {
    if device.is_cpu() || trace.device != device.name {
        console.note(&format!(
            "what the program gains is not known: its trace has times of {}, and the kernels were tuned on {}",
            trace.device, device.name
        ));
        return None;
    }
    let winners = results.iter().filter_map(|result| match &result.outcome {
        ProblemOutcome::Won { summary, .. } => {
            let library = summary.baselines.first().map(|library| library.measurement.median());
            let tuned = summary.winner()?.measurement.median();
            Some((result.problem, KernelTimes { tuned, library }))
        }
        _ => None,
    });
    let gain = trace.gain(&winners.collect());
    console.result(&traced::gain(&gain, console.table_style()));
    Some(gain)
}

/// Refuses what the host does not do.
fn check_host(
    arguments: &TuneArguments,
    settings: &Settings,
    device: &Device,
) -> Result<(), Failure> {
    if device.is_cpu() && arguments.sanitize {
        return Err(Failure::Usage(
            "the cpu device checks every access itself: leave out `--sanitize`".to_owned(),
        ));
    }
    if device.is_cpu() { request::check_modelled(settings.regime) } else { Ok(()) }
}

/// The plan by the arguments, without the files that depend on the device.
fn plan(
    arguments: &TuneArguments,
    trace: Option<&Trace>,
    workshop: &Workshop,
    console: Console,
) -> Result<SessionPlan, Failure> {
    request::check_cubes(&arguments.shape_words, console)?;
    let (mut families, templates) = request::families(&arguments.families)?;
    if arguments.allow_nondeterministic {
        families = families.into_iter().map(Family::allowing_nondeterministic).collect();
    }
    if arguments.uninformed {
        families = families.into_iter().map(Family::without_seeds).collect();
    }
    let settings = Settings {
        effort: arguments.effort.parse().map_err(Failure::usage)?,
        within: arguments.stop_within.as_deref().map(within).transpose()?,
        stop_chance: arguments.stop_chance.as_deref().map(stop_chance).transpose()?,
        max_configs: arguments.max_configs.map(NonZeroUsize::get),
        budget: arguments.budget.as_deref().map(request::time).transpose()?,
        journals: Some(workshop.cache.join("journal")),
        fresh: arguments.fresh || arguments.uninformed,
        search: arguments.search.parse().map_err(Failure::usage)?,
        regime: request::regime(&arguments.cache_policy, &arguments.power)?,
        sanitizer: arguments.sanitize.then(|| workshop.sanitizer()).transpose()?,
        ties: if arguments.stable { TieRule::Small } else { TieRule::default() },
        seed: arguments.seed,
    };
    Ok(SessionPlan {
        problems: problems(arguments, trace, console)?,
        families,
        templates,
        settings,
        predictor: Arc::new(Predictor::default()),
        database: None,
        other_databases: Vec::new(),
        replace: if arguments.force { ReplacePolicy::Always } else { ReplacePolicy::IfFaster },
        answers: Vec::new(),
    })
}

fn problems(
    arguments: &TuneArguments,
    trace: Option<&Trace>,
    console: Console,
) -> Result<Vec<Problem>, Failure> {
    let pattern = arguments.pattern.pattern()?;
    let words = request::shape_words(&arguments.shape_words, &arguments.shape)?;
    let mut problems = request::problems(&words, arguments.shapes.as_deref(), pattern)?;
    if let Some(trace) = trace {
        let own = trace.worthwhile();
        console.note(&format!(
            "{} of {} problems of the trace take {:.0} % of its time: tuning these",
            own.len(),
            trace.products.len(),
            100.0 * COVERED
        ));
        problems.extend(own);
    }
    if problems.is_empty() {
        return Err(request::no_shape("tune", "gemm-tune"));
    }
    let shard = match &arguments.shapes {
        Some(_) => Shard::find(arguments.shard.as_deref(), &variable).map_err(Failure::usage)?,
        None => None,
    };
    let Some(shard) = shard else { return Ok(problems) };
    let own = shard.of(&problems);
    let (Shard { index, count, source }, all) = (shard, problems.len());
    let number = index + 1;
    console.note(&format!("shard {number} of {count} ({source}): {} of {all} shapes", own.len()));
    Ok(own)
}

/// The fraction that counts as better, within the range that stopping rules support.
fn within(word: &str) -> Result<f64, Failure> {
    let fraction = request::fraction(word)?;
    if search::WITHIN.contains(&fraction) {
        return Ok(fraction);
    }
    let [least, most] = [search::WITHIN.start(), search::WITHIN.end()].map(|limit| 100.0 * limit);
    Err(Failure::Usage(format!(
        "`--stop-within {word}` is outside of what searches know chances of: {least} % to {most} %"
    )))
}

/// The chance below which a search ends, within what searches can state.
fn stop_chance(word: &str) -> Result<f64, Failure> {
    let chance = request::fraction(word)?;
    if chance > search::LEAST_CHANCE {
        return Ok(chance);
    }
    Err(Failure::Usage(format!(
        "`--stop-chance {word}` is never reached: in {:.0} % of problems something better is left that the search does \
         not come across. Give more than that, or search longer with `--effort full`",
        100.0 * search::LEAST_CHANCE
    )))
}

/// Shows what would be searched.
fn dry_run(
    plan: &SessionPlan,
    device: &Device,
    console: Console,
) -> Result<(Value, ExitCode), Failure> {
    let mut documents = Vec::new();
    for problem in &plan.problems {
        let spaces = spaces(&plan.families, &plan.templates, problem, device, &Hints::default())
            .map_err(Failure::work)?;
        let candidates = spaces.legal().min(plan.settings.most(device));
        console.result(&tuned::spaces(&spaces, problem, candidates, console.table_style()));
        documents.push(documents::spaces(&spaces, problem, candidates));
    }
    let document = json!({
        "gemm_tune": env!("CARGO_PKG_VERSION"),
        "device": device,
        "dry_run": documents,
    });
    Ok((document, ExitCode::SUCCESS))
}
