//! `gemm-tune cover`: makes the map of a GPU.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use parking_lot::Mutex;
use serde_json::Value;

use super::arguments::{CommonArguments, FamilyArguments};
use super::console::Console;
use super::failure::Failure;
use super::machine::{Wish, Workshop};
use super::output::{finish, write};
use super::progress_bar::CountProgress;
use super::{databases, interrupt, journals, request};
use crate::compile::{Compile, CompileThreads};
use crate::database::{ReplacePolicy, WritableDatabase};
use crate::lookup::{Lookup, Question};
use crate::model::{Device, Hint, Problem, Regime};
use crate::predict::{DrawLimits, LearnedModel, Predictor};
use crate::render::Templates;
use crate::report::mapped;
use crate::session::cover::{CoverLog, CoverState, CoverStep, MapGoal, Mapper, cover};
use crate::session::{self, ProblemOutcome, SessionDevice, SessionEvent, SessionPlan};
use crate::space::Family;
use crate::tune::{MeasuredTimes, Settings, Summary, read_measured_times};

/// How often the deadline is looked at.
const TICK: Duration = Duration::from_millis(50);

/// Makes the map of a GPU: tunes problems as users have them, where lookup's answers are expected to be worst, and trains
/// the learned model on them, until answers for problems that nobody tuned are nearly as good as tuned kernels. Every
/// fourth problem is drawn at random; these estimate how much slower answers are (the held-out regret). An interrupted map
/// goes on where it was.
#[derive(Debug, Args)]
pub(super) struct CoverArguments {
    /// Held-out regret to end at: how much longer answers take than tuned kernels, in the geometric mean
    #[arg(long, default_value = "5%", value_name = "PERCENT")]
    regret: String,
    /// Time after which the map is ended, such as 20m [default: none]
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// How elements are stored: f32 or i32
    #[arg(long, default_value = "f32")]
    dtype: String,
    /// Device to map: auto, cuda:N, cuda:all, or cpu, which models times
    #[arg(long, default_value = "auto")]
    device: String,
    /// Tuning database to write; the learned model is written beside it [default: results/<gpu>.toml]
    #[arg(long, value_name = "PATH")]
    db: Option<PathBuf>,
    /// File of measured times to learn from too, as of `learn --times`; may be repeated
    #[arg(long, value_name = "FILE")]
    times: Vec<PathBuf>,
    /// Most operations of a problem, as a number such as 2e12
    #[arg(long, default_value_t = DrawLimits::default().operations, value_name = "N")]
    max_operations: f64,
    /// Seed of the problems, of the searches and of the operands
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Compiler threads [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Leave out the short lists of kernels, which take minutes to choose and make lookups of new problems faster
    #[arg(long)]
    no_short_lists: bool,
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
    let pattern = request::pattern(&arguments.dtype, None, 1)?;
    let goal = MapGoal {
        regret: request::fraction(&arguments.regret)?,
        limits: limits(arguments.max_operations)?,
        seed: arguments.seed,
    };
    let jobs = request::jobs(arguments.jobs)?;
    let budget = arguments.budget.as_deref().map(request::time).transpose()?;
    let (families, templates) = request::families(&arguments.families)?;
    let workshop = Workshop::new(&arguments.common)?;
    let wish: Wish = arguments.device.parse()?;
    let machine = workshop.machine(wish, console)?;
    let device = machine.device();
    let database = databases::of(&device, arguments.db.as_deref());
    WritableDatabase::check(&database, &device).map_err(Failure::work)?;
    let predictor =
        databases::predictor([database.as_path()], &device, (&families, &templates), console)?;
    let learned = databases::learned_model([database.as_path()], &device)?;
    let compiler = workshop.compiler(&machine, console)?;
    drop(machine);
    let (major, minor) = compiler.nvrtc().version();
    let log =
        workshop.cache.join("cover").join(format!("{}-{}.jsonl", device.slug(), pattern.dtype));
    let (log, steps) = CoverLog::open(&log).map_err(Failure::work)?;
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
        learned,
        is_trained: false,
        compiler: Arc::new(compiler),
        nvrtc: format!("{major}.{minor}"),
        threads: CompileThreads::new(jobs).map_err(Failure::work)?,
        seed: arguments.seed,
        log,
        begun,
        over: deadline(&stop, budget, begun),
    };
    let gemm_type = (pattern.dtype, pattern.compute);
    let (steps, state) = cover(&goal, gemm_type, steps, &mut map)?;
    if map.is_trained && !arguments.no_short_lists && !stop.load(Ordering::Relaxed) {
        map.choose_short_lists()?;
    }
    console.result(&mapped::summary(&steps, &state, &goal, &device));
    let document = mapped::document(&steps, &state, &device, &database);
    Ok((document, ExitCode::SUCCESS))
}

/// Limits on the problems.
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

/// What a map is made with.
struct MapRun<'a> {
    workshop: &'a Workshop,
    wish: Wish,
    console: Console,
    families: Vec<Family>,
    templates: Templates,
    device: Device,
    database: PathBuf,
    times: &'a [PathBuf],
    journals: PathBuf,
    predictor: Arc<Predictor>,
    learned: LearnedModel,
    /// Whether this run trained it.
    is_trained: bool,
    compiler: Arc<dyn Compile>,
    nvrtc: String,
    threads: CompileThreads,
    seed: u64,
    log: CoverLog,
    begun: Instant,
    over: Arc<AtomicBool>,
}

impl Mapper for MapRun<'_> {
    type Error = Failure;

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn tune(&mut self, problems: &[Problem]) -> Result<Vec<(Problem, Option<f64>)>, Failure> {
        let answers = self.answers(problems)?;
        let plan = SessionPlan {
            problems: problems.to_vec(),
            families: self.families.clone(),
            templates: self.templates.clone(),
            settings: Settings {
                journals: Some(self.journals.clone()),
                seed: self.seed,
                ..Settings::default()
            },
            predictor: Arc::clone(&self.predictor),
            database: Some(
                WritableDatabase::check(&self.database, &self.device).map_err(Failure::work)?,
            ),
            other_databases: Vec::new(),
            replace: ReplacePolicy::IfFaster,
            answers: answers.clone(),
        };
        let device = SessionDevice {
            machine: self.workshop.machine(self.wish, self.console)?,
            compiler: Arc::clone(&self.compiler),
            nvrtc: self.nvrtc.clone(),
            threads: self.threads.clone(),
        };
        let progress = Mutex::new((0, CountProgress::new(self.console, "problems tuned")));
        progress.lock().1.expect(problems.len());
        let on_event = |event: SessionEvent<'_>| {
            if let SessionEvent::Finished(result) = event {
                let (count, progress) = &mut *progress.lock();
                *count += 1;
                progress.reach(*count, &result.problem.to_string());
            }
        };
        let results = session::run(&plan, device, &self.over, &on_event).map_err(Failure::work)?;
        let tuned = results.into_iter().filter_map(|result| {
            let answer = answers.iter().find(|(problem, _)| *problem == result.problem);
            match result.outcome {
                // What was interrupted is tuned again.
                ProblemOutcome::Won { summary, .. } if summary.is_interim() => None,
                ProblemOutcome::Won { summary, .. } => {
                    Some((result.problem, answer.and_then(|(_, hint)| log_regret(&summary, hint))))
                }
                ProblemOutcome::NoWinner(_) | ProblemOutcome::Failed(_) => {
                    Some((result.problem, None))
                }
            }
        });
        Ok(tuned.collect())
    }

    fn train(&mut self) -> Result<(), Failure> {
        let measured = self.measured()?;
        let mut model =
            LearnedModel::learn(&self.device, &self.families, &self.templates, &measured.problems);
        // A model of more problems is better than one of these.
        model.keep_larger(std::mem::take(&mut self.learned));
        (self.learned, self.is_trained) = (model, true);
        self.write_model()?;
        let learned = self.learned.clone();
        let known = (self.families.as_slice(), &self.templates);
        self.predictor = Arc::new(databases::noted(learned, known, self.console));
        Ok(())
    }

    fn note(&mut self, steps: &[CoverStep], state: &CoverState) -> Result<(), Failure> {
        self.log.add(steps).map_err(Failure::work)?;
        self.console.note(&mapped::progress(state, self.begun.elapsed()));
        Ok(())
    }
}

impl MapRun<'_> {
    /// What lookup answers for problems, from what is known now.
    fn answers(&self, problems: &[Problem]) -> Result<Vec<(Problem, Hint)>, Failure> {
        let path = self.database.as_path();
        let records = if path.exists() {
            databases::load_file(path, self.console)?.records().to_vec()
        } else {
            Vec::new()
        };
        let known = (self.families.as_slice(), &self.templates);
        let lookup = Lookup::new(&records, known.0, known.1, &self.device, Regime::default())
            .with_predictor((*self.predictor).clone());
        let answer = |problem: &Problem| {
            let answer = lookup.answer(&Question::packed(*problem)).ok()?;
            let (family, configuration) =
                (answer.family.name.clone(), answer.configuration.clone());
            Some((*problem, Hint { family, configuration }))
        };
        Ok(problems.iter().filter_map(answer).collect())
    }

    /// All timings: those of the journals, and of files that the user gave.
    fn measured(&self) -> Result<MeasuredTimes, Failure> {
        let mut files = journals::entries(&self.journals.join(self.device.slug()))?;
        files.sort();
        let mut measured = MeasuredTimes {
            device: self.device.name.clone(),
            regime: Regime::default(),
            problems: Vec::new(),
        };
        for path in self.times {
            let own = read_measured_times(path).map_err(Failure::work)?;
            if own.device != measured.device || own.regime != measured.regime {
                return Err(other_times(path, &own));
            }
            measured.extend(own.problems);
        }
        for path in files {
            // Journals of other programs and regimes are left alone.
            let Ok(own) = read_measured_times(&path) else { continue };
            if own.device == measured.device && own.regime == measured.regime {
                measured.extend(own.problems);
            }
        }
        Ok(measured)
    }

    fn write_model(&self) -> Result<(), Failure> {
        if self.learned.families.is_empty() {
            return Ok(());
        }
        let text = self.learned.text().map_err(Failure::work)?;
        write(&self.database.with_extension("model.json"), text.as_bytes())
    }

    /// Chooses the kernels that lookup compares, and writes the model with them.
    fn choose_short_lists(&mut self) -> Result<(), Failure> {
        if self.learned.families.is_empty() {
            return Ok(());
        }
        let learned = std::mem::take(&mut self.learned);
        self.learned =
            super::learn::with_shortlists(learned, &self.device, &self.families, self.console);
        self.write_model()
    }
}

/// The failure for times that say nothing of the device.
fn other_times(path: &Path, times: &MeasuredTimes) -> Failure {
    Failure::Work(format!(
        "`{}` has times of {}, or of another `--cache-policy` or `--power` than the default",
        path.display(),
        times.device
    ))
}

/// Logarithm of the time of an answer over the winner's; `None` where it was not measured in the final.
fn log_regret(summary: &Summary, answer: &Hint) -> Option<f64> {
    let winner = summary.winner()?;
    let own = summary
        .ranking
        .iter()
        .find(|one| one.family == answer.family && one.configuration == answer.configuration)?;
    Some((own.measurement.median().0 / winner.measurement.median().0).ln().max(0.0))
}
