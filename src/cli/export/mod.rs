//! `gemm-tune export`: winners and evaluated configurations for other programs.

mod arguments;
mod artifact;
mod evaluated;

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

pub(super) use arguments::ExportArguments;
use arguments::{ExportFormat, Files};

use super::console::Console;
use super::databases;
use super::failure::Failure;
use super::output::{beside, finish, folder, write};
use crate::database::{Database, Record};
use crate::export;

/// Exports, and gives the exit code.
pub(super) fn main(arguments: &ExportArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    let written = beside(&arguments.out, console).and_then(|console| run(arguments, console));
    finish(console, written.map(|document| (document, ExitCode::SUCCESS)))
}

fn run(arguments: &ExportArguments, console: Console) -> Result<Value, Failure> {
    let selection = arguments.selection.selection()?;
    let out = &arguments.out;
    if arguments.format.is_folder() {
        folder(out)?;
    }
    let (files, what) = match arguments.format {
        ExportFormat::T4 | ExportFormat::KernelTuner => {
            let (text, what) = evaluated::text(arguments, &selection, console)?;
            (vec![(out.clone(), text.into_bytes())], what)
        }
        format => {
            let files = databases::files(&arguments.db)?;
            let databases = databases::load(&files, console)?;
            let all: Vec<&Record> = databases.iter().flat_map(Database::records).collect();
            let records: Vec<&Record> = all
                .iter()
                .copied()
                .filter(|record| selection.matches(record))
                .filter(|record| arguments.family.as_ref().is_none_or(|f| *f == record.family))
                .collect();
            if records.is_empty() {
                return Err(Failure::Work(
                    "no such record; `gemm-tune db list` shows what there is".to_owned(),
                ));
            }
            match format {
                ExportFormat::Bundle
                | ExportFormat::C
                | ExportFormat::Python
                | ExportFormat::Rust => artifact::files(arguments, &records, &all, console)?,
                _ => {
                    let what = format!("{} records", records.len());
                    (from_records(format, &records, out)?, what)
                }
            }
        }
    };
    for (path, bytes) in &files {
        write(path, bytes)?;
    }
    let library = match arguments.format {
        ExportFormat::Python => artifact::build_library(out, console)?,
        _ => None,
    };
    console.result(&format!("{what} written to {}\n", out.display()));
    let paths: Vec<String> = files
        .iter()
        .map(|(path, _)| path)
        .chain(&library)
        .map(|path| path.display().to_string())
        .collect();
    Ok(json!({ "files": paths, "exported": what }))
}

/// The files of a format that is made from records.
fn from_records(format: ExportFormat, records: &[&Record], out: &Path) -> Result<Files, Failure> {
    let one = |text: String| vec![(out.to_owned(), text.into_bytes())];
    Ok(match format {
        ExportFormat::Csv => one(export::csv(records).map_err(Failure::work)?),
        ExportFormat::Wisdom => {
            let files = export::wisdom(records).into_iter();
            files.map(|(name, text)| (out.join(name), text.into_bytes())).collect()
        }
        _ => one(format!("{:#}\n", export::json(records))),
    })
}
