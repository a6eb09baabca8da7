//! `gemm-tune tune`: tunes the shapes that were asked for and records the winners.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::arguments::TuneArguments;
use super::console::Console;
use super::machine::{Wish, Workshop};
use super::progress::Progress;
use super::{Failure, interrupt, request};
use crate::database::{Origin, Recorded, Replace, check_writable, record_summary};
use crate::model::{Device, Layout, Problem, Shape};
use crate::render::Templates;
use crate::report::{json as documents, table};
use crate::space::Family;
use crate::tune::{Event, Kit, Settings, Summary, TuneError, spaces, tune};

/// What the arguments mean.
struct Job {
    problems: Vec<Problem>,
    families: Vec<Family>,
    templates: Templates,
    settings: Settings,
    replace: Replace,
}

/// Tunes, prints and gives the exit code.
pub(super) fn main(arguments: &TuneArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    match run(arguments, console) {
        Ok((document, code)) => {
            console.document(&document);
            code
        }
        Err(failure) => {
            console.error(failure.message());
            console.document(&json!({ "error": failure.message() }));
            failure.exit_code()
        }
    }
}

fn run(arguments: &TuneArguments, console: Console) -> Result<(Value, ExitCode), Failure> {
    let workshop = Workshop::new(&arguments.common)?;
    let job = job(arguments, workshop.cache.join("journal"))?;
    let wish: Wish = arguments.device.parse()?;
    if arguments.dry_run {
        let device = workshop.described_device(wish, console)?;
        return dry_run(&job, &device, console);
    }
    let machine = workshop.machine(wish, console)?;
    let device = machine.device();
    let database =
        arguments.db.clone().unwrap_or_else(|| Path::new("results").join(device.slug() + ".toml"));
    check_writable(&database, &device).map_err(Failure::work)?;
    let compiler = workshop.compiler(&machine, console)?;
    let (major, minor) = compiler.nvrtc().version();
    let mut session = Session {
        console,
        device,
        nvrtc: format!("{major}.{minor}"),
        database,
        stop: interrupt::listen()?,
        kit: Kit {
            families: job.families,
            templates: job.templates,
            compiler: Arc::new(compiler),
            machine,
        },
        settings: job.settings,
        replace: job.replace,
    };
    let mut results = Vec::new();
    let mut failed = 0;
    for problem in &job.problems {
        let result = session.tune(problem)?;
        failed += usize::from(result.get("error").is_some());
        results.push(result);
        if session.stop.load(Ordering::Relaxed) {
            console.note("stopped as asked");
            break;
        }
    }
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

/// What all problems of a run share.
struct Session {
    console: Console,
    device: Device,
    nvrtc: String,
    database: PathBuf,
    stop: Arc<AtomicBool>,
    kit: Kit,
    settings: Settings,
    replace: Replace,
}

impl Session {
    /// Tunes one problem, shows and records the winner, and gives the document about it.
    fn tune(&mut self, problem: &Problem) -> Result<Value, Failure> {
        let mut progress = Progress::new(self.console, *problem, &self.device);
        let on_event = &mut |event: Event<'_>| progress.event(&event);
        let result = tune(problem, &mut self.kit, &self.settings, &self.stop, on_event);
        progress.finish();
        let summary = match result {
            Ok(summary) => summary,
            // A device or compiler that is gone is gone for the other problems too.
            Err(error @ (TuneError::Device(_) | TuneError::Compiler(_) | TuneError::Pool(_))) => {
                return Err(Failure::work(error));
            }
            Err(error) => return Ok(self.failed(problem, &error.to_string())),
        };
        let width = self.console.width();
        self.console.result(&format!("\n{}", table::ranking(&summary, &self.device, width)));
        self.console.result(&format!("\n{}", table::coverage(&summary, width)));
        let verdict = table::verdict(&summary, &self.device);
        if summary.winner().is_none() {
            return Ok(self.failed(problem, verdict.trim_end()));
        }
        self.console.result(&format!("\n{verdict}"));
        let mut document = documents::summary(&summary, &self.device);
        document["recorded"] = json!(self.record(&summary)?);
        Ok(document)
    }

    fn failed(&self, problem: &Problem, message: &str) -> Value {
        self.console.error(message);
        json!({ "problem": documents::problem_document(problem), "error": message })
    }

    fn record(&self, summary: &Summary) -> Result<String, Failure> {
        let family = summary.winner().map(|winner| winner.family.as_str());
        let template = self.kit.families.iter().find(|known| Some(known.name.as_str()) == family);
        let origin = Origin {
            device: self.device.clone(),
            template_hash: template
                .map(|family| self.kit.templates.hash(family))
                .unwrap_or_default(),
            nvrtc: self.nvrtc.clone(),
            time: jiff::Timestamp::now(),
            seed: self.settings.seed,
        };
        let recorded = record_summary(summary, &origin, &self.database, self.replace)
            .map_err(Failure::work)?;
        let path = self.database.display();
        let (word, text) = match recorded {
            None => ("nothing", "nothing recorded".to_owned()),
            Some(Recorded::Added) => ("added", format!("recorded in {path}")),
            Some(Recorded::Replaced { before }) => {
                ("replaced", format!("recorded in {path}, in place of one of {before}"))
            }
            Some(Recorded::Kept { stored }) => (
                "kept",
                format!(
                    "{path} keeps its record of {stored}, which is faster (`--force` replaces)"
                ),
            ),
        };
        self.console.result(&format!("  {text}\n"));
        Ok(word.to_owned())
    }
}

fn job(arguments: &TuneArguments, journals: PathBuf) -> Result<Job, Failure> {
    let (families, templates) = request::families(&arguments.families)?;
    let settings = Settings {
        max_configs: arguments.max_configs.map(NonZeroUsize::get),
        budget: arguments.budget.as_deref().map(budget).transpose()?,
        journals: Some(journals),
        fresh: arguments.fresh,
        search: arguments.search.parse().map_err(Failure::usage)?,
        seed: arguments.seed,
        jobs: request::jobs(arguments.jobs),
    };
    let replace = if arguments.force { Replace::Always } else { Replace::IfFaster };
    Ok(Job { problems: problems(arguments)?, families, templates, settings, replace })
}

fn problems(arguments: &TuneArguments) -> Result<Vec<Problem>, Failure> {
    let pattern =
        request::pattern(&arguments.dtype, arguments.compute.as_deref(), arguments.batch)?;
    let layout: Layout = arguments.layout.parse().map_err(Failure::usage)?;
    let mut shapes = request::shapes(&arguments.shape)?;
    if let Some(file) = &arguments.shapes {
        shapes.extend(shapes_file(file)?);
    }
    if shapes.is_empty() {
        return Err(Failure::Usage(
            "nothing to tune: give a shape, as in `gemm-tune --shape 4096x4096x1024`, or `--shapes FILE`"
                .to_owned(),
        ));
    }
    shapes.into_iter().map(|shape| request::problem(Problem { shape, layout, ..pattern })).collect()
}

fn shapes_file(file: &Path) -> Result<Vec<Shape>, Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::Usage(format!("cannot read `{name}`: {error}")))?;
    let mut shapes = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            let shape = line.parse();
            shapes.push(shape.map_err(|error: crate::model::problem::ShapeError| {
                Failure::Usage(format!("{name}:{}: {error}", number + 1))
            })?);
        }
    }
    if shapes.is_empty() {
        return Err(Failure::Usage(format!("`{name}` has no shape: write one a line")));
    }
    Ok(shapes)
}

fn budget(text: &str) -> Result<Duration, Failure> {
    let wrong = || Failure::Usage(format!("`{text}` is no time: write `60s`, `2m` or `1h 30m`"));
    let time: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(time).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

fn dry_run(job: &Job, device: &Device, console: Console) -> Result<(Value, ExitCode), Failure> {
    let mut documents = Vec::new();
    for problem in &job.problems {
        let spaces =
            spaces(&job.families, &job.templates, problem, device).map_err(Failure::work)?;
        let candidates = spaces.legal().min(job.settings.most(device));
        console.result(&table::spaces(&spaces, problem, candidates, console.width()));
        documents.push(documents::spaces(&spaces, problem, candidates));
    }
    let document = json!({
        "gemm_tune": env!("CARGO_PKG_VERSION"),
        "device": device,
        "dry_run": documents,
    });
    Ok((document, ExitCode::SUCCESS))
}
