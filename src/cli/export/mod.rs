//! `gemm-tune export`: winners and evaluated configurations for other programs.

mod arguments;
mod artifact;
mod evaluated;
mod library;

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

pub(super) use arguments::ExportArguments;
use arguments::{ExportFormat, Exported};

use super::console::{Console, Volume};
use super::databases;
use super::failure::Failure;
use super::machine::Workshop;
use super::output::{beside, finish, folder, write};
use crate::database::{Database, Record, RecordFilter};
use crate::export::{self, LeftOut};
use crate::report;

/// Exports, and gives the exit code.
pub(super) fn main(arguments: &ExportArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    let written = beside(&arguments.out, console).and_then(|console| run(arguments, console));
    finish(console, written.map(|document| (document, ExitCode::SUCCESS)))
}

fn run(arguments: &ExportArguments, console: Console) -> Result<Value, Failure> {
    let selection = arguments.selection.selection()?;
    let out = &arguments.out;
    if arguments.build && !matches!(arguments.format, ExportFormat::C | ExportFormat::Python) {
        return Err(Failure::usage(
            "`--build` is for `--format c` and `--format python`: the others have no C source",
        ));
    }
    if arguments.with_library && !matches!(arguments.format, ExportFormat::C | ExportFormat::Python)
    {
        return Err(Failure::usage(
            "`--with-library` is for `--format c` and `--format python`: other formats have kernels only",
        ));
    }
    if arguments.format.is_folder() {
        folder(out)?;
    }
    let Exported { files, what, left_out } = match arguments.format {
        ExportFormat::T4 | ExportFormat::KernelTuner => {
            evaluated::export(arguments, &selection, console)?
        }
        _ => of_databases(arguments, &selection, console)?,
    };
    for (path, bytes) in &files {
        write(path, bytes)?;
    }
    let libraries = match arguments.format {
        _ if arguments.build => library::build(out)?,
        ExportFormat::Python => library::build_shared(out, console)?,
        _ => Vec::new(),
    };
    console.result(&format!("{what} written to {}\n", out.display()));
    if !left_out.is_empty() {
        console.result(&format!("{}\n", summary(&left_out)));
    }
    if console.volume == Volume::Verbose {
        left_out.iter().for_each(|one| console.note(&format!("{}: {}", one.name, one.why)));
    }
    let paths: Vec<String> = files
        .iter()
        .map(|(path, _)| path)
        .chain(&libraries)
        .map(|path| path.display().to_string())
        .collect();
    let left_out: Vec<Value> = export::reasons(&left_out)
        .into_iter()
        .map(|(count, why)| json!({ "count": count, "why": why }))
        .collect();
    Ok(json!({ "files": paths, "exported": what, "left_out": left_out }))
}

/// What is left out, counted by reason.
fn summary(left_out: &[LeftOut]) -> String {
    let mut text = format!("{} left out:", left_out.len());
    for (count, why) in export::reasons(left_out) {
        text += &format!("\n  {count}: {why}");
    }
    text
}

/// The failure of an export that leaves out everything.
fn nothing_left(left_out: &[LeftOut]) -> Failure {
    Failure::Work(format!("nothing is left to export; {}", summary(left_out)))
}

/// What a format has that is made from databases.
fn of_databases(
    arguments: &ExportArguments,
    selection: &RecordFilter,
    console: Console,
) -> Result<Exported, Failure> {
    let counts = |record: &Record| arguments.modelled || !record.is_modelled();
    let device =
        || Workshop::new(&arguments.common)?.assumed_device(selection.device_name.as_deref());
    let (files, databases) = databases::load_or_built_in(&arguments.db, counts, device, console)?;
    let all: Vec<&Record> = databases.iter().flat_map(Database::records).collect();
    let chosen = all
        .iter()
        .copied()
        .filter(|record| selection.matches(record))
        .filter(|record| arguments.family.as_ref().is_none_or(|f| *f == record.family));
    let (modelled, records): (Vec<&Record>, Vec<&Record>) =
        chosen.partition(|record| !counts(record));
    let why = "modelled by the cpu device: `--modelled` exports these too";
    let mut left_out: Vec<LeftOut> =
        modelled.into_iter().map(|record| LeftOut::new(record.key(), why)).collect();
    match (records.as_slice(), left_out.as_slice()) {
        ([], []) => {
            return Err(Failure::Work(format!(
                "no such record in {}; `gemm-tune db list` shows what there is",
                report::records::names(&files)
            )));
        }
        ([], _) => return Err(nothing_left(&left_out)),
        _ => {}
    }
    let own = match arguments.format {
        ExportFormat::Bundle | ExportFormat::C | ExportFormat::Python | ExportFormat::Rust => {
            artifact::export(arguments, &records, (&all, &files), console)?
        }
        format => from_records(format, &records, &arguments.out)?,
    };
    left_out.extend(own.left_out);
    if own.files.is_empty() {
        return Err(nothing_left(&left_out));
    }
    Ok(Exported { left_out, ..own })
}

/// What a format has that is made from records.
fn from_records(
    format: ExportFormat,
    records: &[&Record],
    out: &Path,
) -> Result<Exported, Failure> {
    let one = |text: String| vec![(out.to_owned(), text.into_bytes())];
    let (files, left_out) = match format {
        ExportFormat::Csv => (one(export::csv(records).map_err(Failure::work)?), Vec::new()),
        ExportFormat::Wisdom => {
            let (files, left_out) = export::wisdom(records);
            let files = files.into_iter();
            (files.map(|(name, text)| (out.join(name), text.into_bytes())).collect(), left_out)
        }
        _ => (one(format!("{:#}\n", export::json(records))), Vec::new()),
    };
    let what = format!("{} records", records.len() - left_out.len());
    Ok(Exported { files, what, left_out })
}
