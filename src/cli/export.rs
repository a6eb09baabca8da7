//! `gemm-tune export`: winners and evaluated configurations for other programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::arguments::CommonArguments;
use super::console::Console;
use super::db::SelectionArguments;
use super::environment::cache_folder;
use super::output::finish;
use super::{Failure, databases};
use crate::database::{Database, Record, Selection};
use crate::export::{self, EvaluatedSpace};
use crate::model::Problem;
use crate::tune::Recorded;

/// What another program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Records as one document, with the fields of the database
    Json,
    /// Records as a table, a line each
    Csv,
    /// Every evaluated configuration of a family, in the T4 results format
    T4,
    /// Every evaluated configuration of a family, as a cache file of Kernel Tuner
    KernelTuner,
    /// Records as wisdom files of Kernel Launcher, in a folder
    Wisdom,
}

/// Records come from databases. Every evaluated configuration (t4, kernel-tuner) comes from the journal
/// of one problem, which tuning keeps below the cache folder.
#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    /// Form to write
    #[arg(long, value_name = "FORMAT")]
    format: Format,
    /// File to write; for wisdom, the folder
    #[arg(short = 'o', long = "output", value_name = "OUT")]
    out: PathBuf,
    /// Database to export; may be repeated [default: all of results/]
    #[arg(long, value_name = "FILE")]
    db: Vec<PathBuf>,
    #[command(flatten)]
    selection: SelectionArguments,
    /// Journal to export [default: the one of the shape, dtype, layout and GPU that are given]
    #[arg(long, value_name = "FILE", conflicts_with = "db")]
    journal: Option<PathBuf>,
    /// Family to export, where a journal has several
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    #[command(flatten)]
    common: CommonArguments,
}

/// Exports, and gives the exit code.
pub(super) fn main(arguments: &ExportArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    finish(console, run(arguments, console).map(|document| (document, ExitCode::SUCCESS)))
}

fn run(arguments: &ExportArguments, console: Console) -> Result<Value, Failure> {
    let selection = arguments.selection.selection()?;
    let out = &arguments.out;
    let (files, what) = match arguments.format {
        Format::T4 | Format::KernelTuner => {
            let (text, what) = evaluated(arguments, &selection)?;
            (vec![(out.clone(), text)], what)
        }
        format => {
            let files = databases::files(&arguments.db)?;
            let databases = databases::load(&files)?;
            let records: Vec<&Record> = databases
                .iter()
                .flat_map(Database::records)
                .filter(|record| selection.takes(record))
                .filter(|record| arguments.family.as_ref().is_none_or(|f| *f == record.family))
                .collect();
            if records.is_empty() {
                return Err(Failure::Work(
                    "no such record; `gemm-tune db list` shows what there is".to_owned(),
                ));
            }
            let what = format!("{} records", records.len());
            (from_records(format, &records, out)?, what)
        }
    };
    for (path, text) in &files {
        write(path, text)?;
    }
    console.result(&format!("{what} written to {}\n", out.display()));
    let paths: Vec<&PathBuf> = files.iter().map(|(path, _)| path).collect();
    Ok(json!({ "files": paths, "exported": what }))
}

/// The files of a format that is made from records.
fn from_records(
    format: Format,
    records: &[&Record],
    out: &Path,
) -> Result<Vec<(PathBuf, String)>, Failure> {
    Ok(match format {
        Format::Csv => vec![(out.to_owned(), export::csv(records).map_err(Failure::work)?)],
        Format::Wisdom => {
            let files = export::wisdom(records).into_iter();
            files.map(|(name, text)| (out.join(name), text)).collect()
        }
        _ => vec![(out.to_owned(), format!("{:#}\n", export::json(records)))],
    })
}

/// The text of a format that is made from a journal, and what it is of.
fn evaluated(
    arguments: &ExportArguments,
    selection: &Selection,
) -> Result<(String, String), Failure> {
    let path = match &arguments.journal {
        Some(path) => path.clone(),
        None => journal(&cache_folder(&arguments.common)?.join("journal"), selection)?,
    };
    let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
    let recorded = Recorded::parse(&text).ok_or_else(|| {
        Failure::Work(format!(
            "`{}` is no journal of this version of gemm-tune: tune the problem again",
            path.display()
        ))
    })?;
    let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
    let modified = modified.map_err(|error| unreadable(&path, &error))?;
    let time = jiff::Timestamp::try_from(modified).map_err(Failure::work)?;
    let space =
        EvaluatedSpace::of(&recorded, arguments.family.as_deref(), time).map_err(Failure::work)?;
    let text = match arguments.format {
        Format::T4 => format!("{:#}\n", export::t4(&space)),
        _ => export::kernel_tuner(&space),
    };
    Ok((text, format!("{} configurations of {}", space.len(), recorded.problem)))
}

/// The only journal below `folder` that a selection takes.
fn journal(folder: &Path, selection: &Selection) -> Result<PathBuf, Failure> {
    let mut found: Vec<(PathBuf, Problem, String)> = Vec::new();
    for device in entries(folder)? {
        if !device.is_dir() {
            continue;
        }
        for path in entries(&device)? {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let first = text.lines().next().unwrap_or_default();
            if let Some(heading) = Recorded::parse(first)
                && selection.takes_problem(&heading.problem, &heading.device)
            {
                found.push((path, heading.problem, heading.device));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    match found.as_slice() {
        [(path, ..)] => Ok(path.clone()),
        [] => Err(Failure::Work(format!(
            "no such journal below {}: tune the problem, or name a journal with `--journal FILE`",
            folder.display()
        ))),
        _ => {
            let lines: Vec<String> = found
                .iter()
                .map(|(path, problem, device)| {
                    format!("  {problem} on {device}: {}", path.display())
                })
                .collect();
            Err(Failure::Usage(format!(
                "several journals: narrow them down with `--shape`, `--dtype`, `--layout` and \
                 `--device-name`, or name one with `--journal FILE`:\n{}",
                lines.join("\n")
            )))
        }
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    match fs::read_dir(folder) {
        Ok(entries) => {
            Ok(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(unreadable(folder, &error)),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Work(format!("cannot read `{}`: {error}", path.display()))
}

/// Writes a file whole or not at all, its folder made where it is missing.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let unwritable = |error: std::io::Error| {
        Failure::Work(format!(
            "cannot write `{}`: {error}; choose another place with `-o OUT`",
            path.display()
        ))
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(unwritable)?;
    let file = tempfile::NamedTempFile::new_in(folder).map_err(unwritable)?;
    fs::write(file.path(), text).map_err(unwritable)?;
    file.persist(path).map(|_| ()).map_err(|error| unwritable(error.error))
}
