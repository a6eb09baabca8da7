//! `gemm-tune tune`: tunes the shapes that were asked for and records the winners.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::arguments::TuneArguments;
use super::console::Console;
use super::databases;
use super::environment::variable;
use super::machine::{Wish, Workshop};
use super::output::finish;
use super::progress::{Aim, Board, Progress};
use super::shard::{self, Shard};
use super::{Failure, interrupt, request};
use crate::compile::{Compile, CompileThreads};
use crate::database::{
    Database, ReplacePolicy, ResultOrigin, StoreOutcome, check_writable, record_summary,
};
use crate::lookup::Lookup;
use crate::model::{Device, Problem, Regime};
use crate::render::Templates;
use crate::report::{covered, json as documents, tuned};
use crate::search;
use crate::session::{Claim, Lane, Scheduler, TransferHub, share};
use crate::space::Family;
use crate::tune::{
    Event, Hints, Kit, Machine, Precompilation, Precompiler, Seat, Settings, Summary, TuneError,
    lanes, pilot, spaces, tune,
};

/// What the arguments mean.
struct Job {
    problems: Vec<Problem>,
    families: Vec<Family>,
    templates: Templates,
    settings: Settings,
    replace: ReplacePolicy,
}

/// Tunes, prints and gives the exit code.
pub(super) fn main(arguments: &TuneArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    finish(console, run(arguments, console))
}

fn run(arguments: &TuneArguments, console: Console) -> Result<(Value, ExitCode), Failure> {
    let workshop = Workshop::new(&arguments.common)?;
    let job = job(arguments, &workshop, console)?;
    let wish: Wish = arguments.device.parse()?;
    if arguments.dry_run {
        let device = workshop.described_device(wish, console)?;
        return dry_run(&job, &device, console);
    }
    let machine = workshop.machine(wish, console)?;
    let device = machine.device();
    if device.is_cpu() && arguments.sanitize {
        return Err(Failure::Usage(
            "the cpu device checks every access itself: leave out `--sanitize`".to_owned(),
        ));
    }
    if device.is_cpu() && job.settings.regime != Regime::default() {
        return Err(Failure::Usage(
            "the cpu device models times of operands outside the cache and of a device at rest: \
             leave out `--cache-policy` and `--power`"
                .to_owned(),
        ));
    }
    let database = databases::of(&device, arguments.db.as_deref());
    check_writable(&database, &device).map_err(Failure::work)?;
    let compiler = workshop.compiler(&machine, console)?;
    let (major, minor) = compiler.nvrtc().version();
    let compiler: Arc<dyn Compile> = Arc::new(compiler);
    let threads = CompileThreads::new(request::jobs(arguments.jobs)).map_err(Failure::work)?;
    // A budget is a problem's own time on the device.
    let lanes = if job.settings.budget.is_some() { 1 } else { lanes(threads.count()) };
    let searches = lanes * machine.count().clamp(1, job.problems.len().max(1));
    let seats = machine.seats(job.problems.len(), lanes);
    let kit_for = |machine| Kit {
        families: job.families.clone(),
        templates: job.templates.clone(),
        compiler: Arc::clone(&compiler),
        threads: threads.clone(),
        machine,
    };
    // Winners of other GPUs are hints too; a file of them that cannot be read hints at nothing.
    let others = arguments.db.is_none().then(|| databases::files(&[]).unwrap_or_default());
    let session = Session {
        board: Board::new(console, seats.len() > 1),
        width: console.width(),
        nvrtc: format!("{major}.{minor}"),
        others: others.into_iter().flatten().filter(|other| *other != database).collect(),
        transfer: TransferHub::new(
            device.clone(),
            job.families.clone(),
            databases::predictor(
                [database.as_path()],
                &device,
                (&job.families, &job.templates),
                console,
            )?,
        ),
        database,
        stop: interrupt::listen()?,
        settings: job.settings,
        replace: job.replace,
        device,
    };
    let turns = Scheduler::new(&job.problems, seats.len(), searches);
    let results = session.tune_all(&turns, seats, &kit_for)?;
    if session.stop.load(Ordering::Relaxed) {
        console.note("stopped as asked");
    }
    let failed = results.iter().filter(|result| result.get("error").is_some()).count();
    let code = if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let document = json!({
        "gemm_tune": env!("CARGO_PKG_VERSION"),
        "device": session.device,
        "nvrtc": session.nvrtc,
        "database": session.database,
        "results": results,
    });
    Ok((document, code))
}

/// Whether a device or compiler is gone, which is gone for the other problems too.
fn ends_all(error: &TuneError) -> bool {
    matches!(error, TuneError::Device(_) | TuneError::Compiler(_) | TuneError::Panicked)
}

/// What all problems of a run share.
struct Session {
    board: Board,
    width: u16,
    device: Device,
    nvrtc: String,
    database: PathBuf,
    /// Databases that hints may come from besides.
    others: Vec<PathBuf>,
    transfer: TransferHub,
    stop: Arc<AtomicBool>,
    settings: Settings,
    replace: ReplacePolicy,
}

impl Session {
    /// Tunes the problems, as many at a time as there are seats, and gives the documents about them
    /// in the order of the problems. What comes after a stop is left out.
    fn tune_all(
        &self,
        turns: &Scheduler<'_>,
        seats: Vec<Seat>,
        kit_for: &(dyn Fn(Machine) -> Kit + Sync),
    ) -> Result<Vec<Value>, Failure> {
        let lanes: Vec<Result<Vec<(usize, Value)>, Failure>> = thread::scope(|scope| {
            let tune_in = move |(number, seat): (usize, Seat)| {
                let lane = turns.lane(number);
                let machine = turns.example().and_then(|problem| seat.machine(problem));
                let kit = machine.map(kit_for);
                kit.map_or(Ok(Vec::new()), |kit| self.tune_in_turn(kit, turns, &lane))
            };
            let seats = seats.into_iter().enumerate();
            let lanes: Vec<_> = seats.map(|seat| scope.spawn(move || tune_in(seat))).collect();
            let joined = lanes.into_iter().map(|lane| lane.join());
            joined
                .map(|lane| lane.unwrap_or_else(|_| Err(Failure::work(TuneError::Panicked))))
                .collect()
        });
        let mut results = Vec::new();
        for lane in lanes {
            results.extend(lane?);
        }
        results.sort_by_key(|(number, _)| *number);
        Ok(results.into_iter().map(|(_, result)| result).collect())
    }

    /// Tunes one problem after the other until none is left or somebody stops; gives the documents about
    /// them by their numbers. Meanwhile the compiler begins with the one that comes next.
    fn tune_in_turn(
        &self,
        mut kit: Kit,
        turns: &Scheduler<'_>,
        lane: &Lane<'_, '_>,
    ) -> Result<Vec<(usize, Value)>, Failure> {
        let (ahead, ordered) = (Precompiler::of(&kit), Mutex::new(None));
        let has_related = |problem: &Problem| self.transfer.predictor().has_related(problem);
        if let Some(problem) = lane.leader() {
            self.pilot(problem, &mut kit, turns).inspect_err(|_| turns.give_up())?;
            turns.follow();
        }
        let mut results = Vec::new();
        while let Some(Claim { number, problem, search }) = lane.take(&has_related) {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let mut search = Some(search);
            let order_next = || {
                let order =
                    lane.coming(&has_related).and_then(|problem| self.order(problem, &ahead));
                *ordered.lock().unwrap_or_else(PoisonError::into_inner) = order;
            };
            let mut observer = self.transfer.observer(problem);
            let result = thread::scope(|scope| {
                self.tune(problem, &mut kit, &mut |event| {
                    observer.observe(event);
                    // The cores have nothing to do any more.
                    if matches!(event, Event::Searched) {
                        search = None;
                        scope.spawn(order_next);
                    }
                })
            });
            if result.is_err() {
                turns.give_up();
            }
            results.push((number, result?));
        }
        Ok(results)
    }

    /// Asks the first questions of a problem, for what they tell the others, who follow as soon as they know.
    fn pilot(
        &self,
        problem: &Problem,
        kit: &mut Kit,
        turns: &Scheduler<'_>,
    ) -> Result<(), Failure> {
        let hints = self.hints(problem, &kit.families, &kit.templates)?;
        let mut progress = Progress::new(&self.board, *problem, &self.device, Aim::Others);
        let mut observer = self.transfer.observer(problem);
        let on_event = &mut |event: Event<'_>| {
            progress.event(&event);
            if observer.observe(&event) {
                turns.follow();
            }
        };
        let sounded = pilot(problem, &hints, kit, &self.settings, &self.stop, on_event);
        progress.finish();
        match sounded {
            Err(error) if ends_all(&error) => Err(Failure::work(error)),
            // What else stands in the way will be told when its turn comes.
            _ => Ok(()),
        }
    }

    /// Has the compiler begin with what the search of a problem will ask for. What stands in the way will
    /// be told when its turn comes.
    fn order(&self, problem: &Problem, ahead: &Precompiler) -> Option<Precompilation> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let hints = self.hints(problem, ahead.families(), ahead.templates()).ok()?;
        ahead.order(problem, &hints, &self.settings).ok()
    }

    /// Tunes one problem, shows and records the winner, and gives the document about it. What happens
    /// meanwhile is passed on to `on_event`.
    fn tune(
        &self,
        problem: &Problem,
        kit: &mut Kit,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Value, Failure> {
        let hints = self.hints(problem, &kit.families, &kit.templates)?;
        let mut progress = Progress::new(&self.board, *problem, &self.device, Aim::Winner);
        let on_event = &mut |event: Event<'_>| {
            progress.event(&event);
            on_event(&event);
        };
        let result = tune(problem, &hints, kit, &self.settings, &self.stop, on_event);
        progress.finish();
        let summary = match result {
            Ok(summary) => summary,
            Err(error) if ends_all(&error) => return Err(Failure::work(error)),
            Err(error) => return Ok(self.failed(problem, &error.to_string())),
        };
        let ranking = tuned::ranking(&summary, &self.device, self.width);
        let coverage =
            format!("{}{}", tuned::coverage(&summary, self.width), covered::text(&summary));
        let verdict = tuned::verdict(&summary, &self.device);
        if summary.winner().is_none() {
            self.board.result(&format!("\n{ranking}\n{coverage}"));
            return Ok(self.failed(problem, verdict.trim_end()));
        }
        let mut document = documents::summary(&summary, &self.device);
        let (word, text) = self.record(&summary, kit)?;
        document["recorded"] = json!(word);
        self.board.result(&format!("\n{ranking}\n{coverage}\n{verdict}  {text}\n"));
        Ok(document)
    }

    /// What the databases know of a problem by now: what was just recorded is a hint for the next.
    fn hints(
        &self,
        problem: &Problem,
        families: &[Family],
        templates: &Templates,
    ) -> Result<Hints, Failure> {
        let mut databases = vec![Database::load(&self.database).map_err(Failure::work)?];
        databases.extend(self.others.iter().filter_map(|path| Database::load(path).ok()));
        let records = databases.iter().flat_map(Database::records);
        let regime = self.settings.regime;
        let lookup = Lookup::new(records, families, templates, &self.device, regime);
        Ok(Hints { start: lookup.warm_start(problem), predictor: self.transfer.predictor() })
    }

    fn failed(&self, problem: &Problem, message: &str) -> Value {
        self.board.error(message);
        json!({ "problem": documents::problem_document(problem), "error": message })
    }

    /// Records the winner, and says what became of it in a word and in words.
    fn record(&self, summary: &Summary, kit: &Kit) -> Result<(&'static str, String), Failure> {
        let family = summary.winner().map(|winner| winner.family.as_str());
        let template = kit.families.iter().find(|known| Some(known.name.as_str()) == family);
        let origin = ResultOrigin {
            device: self.device.clone(),
            template_hash: template.map(|family| kit.templates.hash(family)).unwrap_or_default(),
            nvrtc: self.nvrtc.clone(),
            time: jiff::Timestamp::now(),
            seed: self.settings.seed,
        };
        let recorded = record_summary(summary, &origin, &self.database, self.replace)
            .map_err(Failure::work)?;
        let path = self.database.display();
        Ok(match recorded {
            None => ("nothing", "nothing recorded".to_owned()),
            Some(StoreOutcome::Added) => ("added", format!("recorded in {path}")),
            Some(StoreOutcome::Replaced { before }) => {
                ("replaced", format!("recorded in {path}, in place of one of {before}"))
            }
            Some(StoreOutcome::Kept { stored }) => (
                "kept",
                format!(
                    "{path} keeps its record of {stored}, which is faster (`--force` replaces)"
                ),
            ),
        })
    }
}

fn job(arguments: &TuneArguments, workshop: &Workshop, console: Console) -> Result<Job, Failure> {
    let (mut families, templates) = request::families(&arguments.families)?;
    if arguments.allow_nondeterministic {
        families = families.into_iter().map(Family::allowing_nondeterministic).collect();
    }
    let settings = Settings {
        effort: arguments.effort.parse().map_err(Failure::usage)?,
        within: arguments.stop_within.as_deref().map(within).transpose()?,
        max_configs: arguments.max_configs.map(NonZeroUsize::get),
        budget: arguments.budget.as_deref().map(budget).transpose()?,
        journals: Some(workshop.cache.join("journal")),
        fresh: arguments.fresh,
        search: arguments.search.parse().map_err(Failure::usage)?,
        regime: request::regime(&arguments.cache_policy, &arguments.power)?,
        sanitizer: arguments.sanitize.then(|| workshop.sanitizer()).transpose()?,
        seed: arguments.seed,
    };
    let replace = if arguments.force { ReplacePolicy::Always } else { ReplacePolicy::IfFaster };
    Ok(Job { problems: problems(arguments, console)?, families, templates, settings, replace })
}

fn problems(arguments: &TuneArguments, console: Console) -> Result<Vec<Problem>, Failure> {
    let pattern = arguments.pattern.pattern()?;
    let problems = request::problems(&arguments.shape, arguments.shapes.as_deref(), pattern)?;
    if problems.is_empty() {
        return Err(request::no_shape("tune", "gemm-tune"));
    }
    let shard = match &arguments.shapes {
        Some(_) => shard::shard(arguments.shard.as_deref(), variable)?,
        None => None,
    };
    let Some(Shard { index, count, source }) = shard else { return Ok(problems) };
    let own = share(&problems, index, count);
    let (number, all) = (index + 1, problems.len());
    console.note(&format!("share {number} of {count} ({source}): {} of {all} shapes", own.len()));
    Ok(own)
}

fn budget(text: &str) -> Result<Duration, Failure> {
    let wrong = || Failure::Usage(format!("`{text}` is no time: write `60s`, `2m` or `1h 30m`"));
    let time: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(time).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

/// What counts as better, within what is known of searches.
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

fn dry_run(job: &Job, device: &Device, console: Console) -> Result<(Value, ExitCode), Failure> {
    let mut documents = Vec::new();
    for problem in &job.problems {
        let spaces = spaces(&job.families, &job.templates, problem, device, &Hints::default())
            .map_err(Failure::work)?;
        let candidates = spaces.legal().min(job.settings.most(device));
        console.result(&tuned::spaces(&spaces, problem, candidates, console.width()));
        documents.push(documents::spaces(&spaces, problem, candidates));
    }
    let document = json!({
        "gemm_tune": env!("CARGO_PKG_VERSION"),
        "device": device,
        "dry_run": documents,
    });
    Ok((document, ExitCode::SUCCESS))
}
