//! `gemm-tune report`: winners and their searches as one self-contained page.

use std::cell::Cell;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::arguments::{CommonArguments, FolderArguments, SelectionArguments};
use super::console::Console;
use super::environment::cache_folder;
use super::failure::Failure;
use super::machine::Workshop;
use super::output::{beside, finish, write};
use super::{databases, journals, request, trace};
use crate::database::{Database, Record};
use crate::inspect::landscape;
use crate::model::{Device, Problem};
use crate::render::{Templates, render};
use crate::report::page::{self, ProblemReport, TracedProgram};
use crate::report::traced;
use crate::session::{Trace, TraceGain};
use crate::space::{Family, LegalSpace};
use crate::tune::Recorded;

/// What can be typed after `report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gemm-tune report -o report.html
  gemm-tune report --journal run.jsonl -o run.html
  gemm-tune report --trace trace.json -o serve.html

Winners come from databases, what their searches saw from journals, which tuning \
    keeps below the cache folder. The page is one file: nothing of it is fetched from anywhere. With --trace, the table of \
    the program's products is also printed, and is the rows of --csv and --json.")]
pub(super) struct ReportArguments {
    /// File to write
    #[arg(
        short = 'o',
        long = "output",
        value_name = "OUT.html",
        required_unless_present = "trace"
    )]
    out: Option<PathBuf>,
    /// Trace of a program, of `gemm-tune trace`: shows its products, and what it gains by the winners of its GPU. Only
    /// these winners are on the page
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Database to show; may be repeated [default: all of results/, and the built-in one where these have no such record]
    #[arg(long, value_name = "FILE")]
    db: Vec<PathBuf>,
    /// Journal of a run to show, with its winner if a database has it; may be repeated [default: those
    /// of the winners]
    #[arg(long, value_name = "FILE")]
    journal: Vec<PathBuf>,
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    folders: FolderArguments,
    #[command(flatten)]
    common: CommonArguments,
}

/// Reports, and gives the exit code.
pub(super) fn main(arguments: &ReportArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    let console_beside = |path| beside(path, console);
    let beside = arguments.out.as_deref().map_or(Ok(console), console_beside);
    let written = beside.and_then(|console| run(arguments, console));
    finish(console, written.map(|document| (document, ExitCode::SUCCESS)))
}

fn run(arguments: &ReportArguments, console: Console) -> Result<Value, Failure> {
    let selection = arguments.selection.selection()?;
    let trace = arguments.trace.as_deref().map(trace::read).transpose()?;
    // A journal alone is enough for a page.
    let is_chosen = |record: &Record| {
        selection.matches(record) && trace.as_ref().is_none_or(|trace| traced::is_of(trace, record))
    };
    let databases = if arguments.journal.is_empty() {
        let device =
            || Workshop::new(&arguments.common)?.assumed_device(selection.device_name.as_deref());
        databases::load_or_built_in(&arguments.db, is_chosen, device, console)?.1
    } else {
        databases::load(&databases::files(&arguments.db)?, console)?
    };
    let records: Vec<&Record> =
        databases.iter().flat_map(Database::records).filter(|record| is_chosen(record)).collect();
    let named: Vec<Recorded> = arguments
        .journal
        .iter()
        .map(|path| journals::read(path, console))
        .collect::<Result<_, _>>()?;
    let mut journals = named;
    let only_journals = arguments.db.is_empty() && !journals.is_empty();
    if journals.is_empty() {
        for (path, heading) in journals::below(&cache_folder(&arguments.common)?.join("journal"))? {
            if records.iter().any(|record| is_of(record, &heading)) {
                journals.push(journals::read(&path, console)?);
            }
        }
    }
    let context = ReportContext::new(&arguments.folders, console)?;
    let mut cases: Vec<ProblemReport<'_>> = Vec::new();
    for record in &records {
        let journal = journals.iter().find(|journal| is_of(record, journal));
        if journal.is_some() || !only_journals {
            cases.push(context.case(Some(record), journal));
        }
    }
    for journal in &journals {
        if !records.iter().any(|record| is_of(record, journal)) {
            cases.push(context.case(None, Some(journal)));
        }
    }
    if context.changed.get() > 0 {
        console.note(&format!(
            "the templates of {} winners have changed since: the page has the sources that they give \
             today",
            context.changed.get()
        ));
    }
    if cases.is_empty() && trace.is_none() {
        return Err(Failure::Work(
            "nothing to report: no such record, see `gemm-tune db list`, and no journal was named \
             with `--journal FILE`"
                .to_owned(),
        ));
    }
    let gain = trace.as_ref().map(|trace| gain(trace, &records, console));
    let mut document = gain.as_ref().map_or_else(|| json!({}), traced::gain_document);
    let program = trace.as_ref().zip(gain.as_ref());
    let program = program.map(|(trace, gain)| TracedProgram { trace, gain });
    let Some(out) = &arguments.out else { return Ok(document) };
    let text = page::page("gemm-tune report", &cases, program);
    write(out, text.as_bytes())?;
    let searches = cases.iter().filter(|case| case.journal.is_some()).count();
    console.result(&format!(
        "{} {}, {searches} of them with their searches, written to {}\n",
        cases.len(),
        if cases.len() == 1 { "problem" } else { "problems" },
        out.display()
    ));
    document["file"] = json!(out.display().to_string());
    document["problems"] = json!(cases.len());
    document["searches"] = json!(searches);
    document["bytes"] = json!(text.len());
    Ok(document)
}

/// Prints what a traced program gains by the winners of its GPU.
fn gain(trace: &Trace, records: &[&Record], console: Console) -> TraceGain {
    let gain = trace.gain(&traced::kernels(trace, records.iter().copied()));
    if gain.tuned() == 0 {
        console.note(&format!(
            "no product of the trace has a record that was measured on its device, {}: tune them there with \
             `gemm-tune --trace`, or name a database with `--db FILE`",
            trace.device
        ));
    }
    console.result(&traced::gain(&gain, console.table_style()));
    gain
}

/// Whether a journal is that of the search that found a record.
fn is_of(record: &Record, journal: &Recorded) -> bool {
    let problem = Problem::try_from(&record.problem).ok();
    problem == Some(journal.problem)
        && record.device.name == journal.device
        && record.regime() == Some(journal.regime)
}

/// Families and templates that sources are rendered from again.
struct ReportContext {
    families: Vec<Family>,
    templates: Templates,
    console: Console,
    /// Winners whose template changed since they were recorded.
    changed: Cell<usize>,
}

impl ReportContext {
    fn new(folders: &FolderArguments, console: Console) -> Result<Self, Failure> {
        let (families, templates) = request::all_families(folders)?;
        Ok(Self { families, templates, console, changed: Cell::new(0) })
    }

    fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.name == name)
    }

    /// The case of a winner and its search.
    fn case<'a>(
        &self,
        record: Option<&'a Record>,
        journal: Option<&'a Recorded>,
    ) -> ProblemReport<'a> {
        let mut case = ProblemReport { record, journal, ..ProblemReport::default() };
        let (Some(problem), Some(device)) = (case.problem(), case.device()) else { return case };
        if let Some(record) = record {
            case.source = self.source(record, &problem, &device);
        }
        if let Some(journal) = journal
            && let Some(family) = landscape::families(&journal.entries).first()
            && let Some(family) = self.family(family)
            && let Ok(space) = LegalSpace::of(family, &problem, &device)
        {
            case.pruned = space.pruned;
        }
        case
    }

    /// The source of a winner, rendered from the present template.
    fn source(&self, record: &Record, problem: &Problem, device: &Device) -> Option<String> {
        let family = self.family(&record.family)?;
        let configuration = match family.completed(record.configuration()) {
            Ok(configuration) => configuration,
            Err(error) => {
                self.console.note(&format!("{problem}: no source is shown: {error}"));
                return None;
            }
        };
        if self.templates.hash(family) != record.provenance.template_hash {
            self.changed.set(self.changed.get() + 1);
        }
        match render(family, &self.templates, &configuration, problem, device) {
            Ok(rendered) => Some(rendered.source),
            Err(error) => {
                self.console.note(&format!("{problem}: no source is shown: {error}"));
                None
            }
        }
    }
}
